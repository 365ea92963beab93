package verify

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

func text(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// conversation is a session of three turns, the third in flight when its agent
// was killed, and a fourth that was refused.
func conversation() (*ledger, checkpoint.View) {
	l := &ledger{session: "s"}
	var view checkpoint.View
	view.Session = "s"
	for i, said := range []string{"one", "two", "three", "four"} {
		key := "k" + said
		a := l.add(key, text(said), "")
		reply := text("reply to " + said)
		switch i {
		case 0, 1:
			a.told(answer{status: 200, result: turn.Result{Turn: i + 1, TurnID: "t" + said, Reply: reply}})
		case 2:
			a.told(answer{status: 502, problem: turn.AgentLost})
		case 3:
			a.told(answer{status: 500, problem: turn.RunFailed})
		}
		if i < 2 {
			save(&view, checkpoint.Turn{ID: "t" + said, Number: i + 1, Key: key, State: turn.Committed, Reply: reply}, text(said))
		}
	}
	return l, view
}

func save(v *checkpoint.View, t checkpoint.Turn, input json.RawMessage) {
	v.Turns = append(v.Turns, t)
	v.Turn++
	v.Messages = append(v.Messages, checkpoint.Message{Role: "user", Content: input}, checkpoint.Message{Role: "assistant", Content: t.Reply})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	inFlight := checkpoint.Turn{ID: "tthree", Number: 3, Key: "kthree", State: turn.Committed, Reply: text("reply to three")}
	for name, c := range map[string]struct {
		change func(*ledger, *checkpoint.View)
		want   Kind // "" is none
	}{
		"as answered": {func(*ledger, *checkpoint.View) {}, ""},
		"with the one in flight": {func(_ *ledger, v *checkpoint.View) {
			save(v, inFlight, text("three"))
		}, ""},
		"with a failed one": {func(_ *ledger, v *checkpoint.View) {
			v.Turns = append(v.Turns, checkpoint.Turn{ID: "tfour", Number: 3, Key: "kfour", State: turn.Failed})
		}, ""},
		"old messages dropped by the agent's code": {func(_ *ledger, v *checkpoint.View) { v.Messages = v.Messages[2:] }, ""},
		"messages of a tool": {func(_ *ledger, v *checkpoint.View) {
			v.Messages = slices.Insert(v.Messages, 3, checkpoint.Message{Role: "tool", Content: text("result")})
		}, ""},
		"the last turn is gone": {func(_ *ledger, v *checkpoint.View) {
			v.Turns, v.Turn, v.Messages = v.Turns[:1], 1, v.Messages[:2]
		}, Lost},
		"all is gone": {func(_ *ledger, v *checkpoint.View) { *v = checkpoint.View{} }, Lost},
		"saved twice": {func(_ *ledger, v *checkpoint.View) {
			save(v, checkpoint.Turn{ID: "again", Number: 3, Key: "ktwo", State: turn.Committed, Reply: text("reply to two")}, text("two"))
		}, Doubled},
		"the one in flight twice": {func(_ *ledger, v *checkpoint.View) {
			save(v, inFlight, text("three"))
			again := inFlight
			again.ID, again.Number = "again", 4
			save(v, again, text("three"))
		}, Doubled},
		"a refused one is saved": {func(_ *ledger, v *checkpoint.View) {
			save(v, checkpoint.Turn{ID: "tfour", Number: 3, Key: "kfour", State: turn.Committed, Reply: text("x")}, text("four"))
		}, Doubled},
		"two with one number": {func(_ *ledger, v *checkpoint.View) { v.Turns[1].Number = 1 }, Forked},
		"a number missing":    {func(_ *ledger, v *checkpoint.View) { v.Turns[1].Number = 3 }, Forked},
		"the counter is off":  {func(_ *ledger, v *checkpoint.View) { v.Turn = 7 }, Forked},
		"another turn under the number": {func(_ *ledger, v *checkpoint.View) {
			v.Turns[0].ID = "other"
		}, Forked},
		"another reply": {func(_ *ledger, v *checkpoint.View) { v.Turns[0].Reply = text("x") }, Torn},
		"no messages":   {func(_ *ledger, v *checkpoint.View) { v.Messages = nil }, Torn},
		"no reply":      {func(_ *ledger, v *checkpoint.View) { v.Messages = v.Messages[:3] }, Torn},
		"no input":      {func(_ *ledger, v *checkpoint.View) { v.Messages = slices.Delete(v.Messages, 2, 3) }, Torn},
		"another reply at the end": {func(_ *ledger, v *checkpoint.View) {
			v.Messages[3].Content = text("x")
		}, Torn},
		"a turn of somebody else": {func(_ *ledger, v *checkpoint.View) {
			save(v, checkpoint.Turn{ID: "x", Number: 3, Key: "theirs", State: turn.Committed, Reply: text("x")}, text("x"))
		}, Leaked},
		"two answers to one key": {func(l *ledger, _ *checkpoint.View) {
			l.attempts[0].told(answer{status: 200, result: turn.Result{Turn: 9, TurnID: "t9", Reply: text("reply to one")}})
		}, Forked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, view := conversation()
			c.change(l, &view)
			found := l.judge(view)
			if c.want == "" && len(found) == 0 {
				return
			}
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Kind == c.want && f.Session == "s" }) {
				t.Errorf("found %+v, want %q", found, c.want)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	_, before := conversation()
	for name, change := range map[string]func(*checkpoint.View){
		"turn":    func(v *checkpoint.View) { v.Turn++ },
		"turns":   func(v *checkpoint.View) { v.Turns[0].Reply = text("x") },
		"message": func(v *checkpoint.View) { v.Messages[0].Content = text("x") },
		"state":   func(v *checkpoint.View) { v.State = text("x") },
	} {
		_, after := conversation()
		if what := difference(before, after); what != "" {
			t.Errorf("two equal sessions differ: %s", what)
		}
		after.Turns[1].Delivered = true // may be noted late
		change(&after)
		if what := difference(before, after); !strings.Contains(what, name) {
			t.Errorf("another %s is told as %q", name, what)
		}
	}
}

func TestLeaked(t *testing.T) {
	t.Parallel()
	foreign := []json.RawMessage{text("my password is tulip"), json.RawMessage(`{"note":"call Ann at noon"}`), text("ok")}
	own := []json.RawMessage{text("hello there"), text("reply: hello there")}
	messages := func(more ...json.RawMessage) (v checkpoint.View) {
		for _, content := range append(more, own...) {
			v.Messages = append(v.Messages, checkpoint.Message{Role: "user", Content: content})
		}
		return v
	}
	inState := messages()
	inState.State = json.RawMessage(`{"memory":["so: call Ann at noon!"]}`)
	for name, c := range map[string]struct {
		view checkpoint.View
		want string
	}{
		"nothing":           {messages(), ""},
		"a message":         {messages(foreign[0]), "my password is tulip"},
		"in the state":      {inState, "call Ann at noon"},
		"too short to tell": {messages(text("ok")), ""},
		"said here as well": {messages(text("hello there")), ""},
	} {
		if got, ok := leaked(foreign, own, c.view); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: found %q, %t, want %q", name, got, ok, c.want)
		}
	}
}

func TestParseHold(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`level=INFO msg=hold point=begun session=s turn=t-1`:                          true,
		`time=2026-01-02T03:04:05Z level=INFO msg=hold point=begun session=s turn=""`: true,
		`level=INFO msg=hold point=begun session=other turn=t-1`:                      false,
		`level=INFO msg=hold point=marked session=s turn=t-1`:                         false,
		`level=INFO msg="turn failed" point=begun session=s`:                          false,
		`hold begun s`: false,
		``:             false,
	} {
		if held, _ := parseHold(line, "s", turn.PointBegun); held != want {
			t.Errorf("%q: %t", line, held)
		}
	}
	if _, id := parseHold("msg=hold point=begun session=s turn=t-1", "s", turn.PointBegun); id != "t-1" {
		t.Errorf("the turn is %q", id)
	}
}
