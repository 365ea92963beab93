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
	asName := messages()
	asName.State = json.RawMessage(`{"heard":{"my password is tulip":1}}`)
	between := []json.RawMessage{text("it is in the attic"), text("the key, that is")}
	for name, c := range map[string]struct {
		before, view, alone checkpoint.View
		mark, want          string
	}{
		"nothing":             {},
		"a message":           {before: messages(foreign[0]), want: "my password is tulip"},
		"a message, later":    {view: messages(foreign[0]), want: "my password is tulip"},
		"of a later one":      {view: messages(between[1]), want: "the key, that is"},
		"before it was said":  {before: messages(between[1])},
		"in the state":        {before: inState, want: "call Ann at noon"},
		"a name in the state": {view: asName, want: "my password is tulip"},
		"its own":             {view: inState, alone: inState},
		"too short to tell":   {view: messages(text("ok"))},
		"said here as well":   {view: messages(text("hello there"))},
		"no mark":             {view: inState, mark: "tulip"},
		"a mark":              {view: asName, mark: "tulip", want: "tulip"},
	} {
		met := encounter{sample{view: c.view, before: c.before}, append(own, own...), foreign, between}
		if got, tells := met.leaked(sample{view: c.alone, before: c.alone}, c.mark); got != c.want || !tells {
			t.Errorf("%s: found %q, %t, want %q", name, got, tells, c.want)
		}
	}
	same := sample{view: messages(), before: messages()}
	if found, tells := (encounter{same, append(own, own...), own, own}).leaked(same, ""); found != "" || tells {
		t.Errorf("equal sessions: %q, %t", found, tells)
	}
}

func TestGrown(t *testing.T) {
	t.Parallel()
	third := checkpoint.Turn{ID: "tthree", Number: 3, Key: "kthree", State: turn.Committed, Reply: text("reply to three")}
	for name, c := range map[string]struct {
		change func(*checkpoint.View)
		what   bool
		kept   bool
	}{
		"nothing":       {func(*checkpoint.View) {}, false, true},
		"one more":      {func(v *checkpoint.View) { save(v, third, text("three")) }, false, true},
		"a failed one":  {func(v *checkpoint.View) { v.Turns = append(v.Turns, checkpoint.Turn{State: turn.Failed}) }, false, true},
		"another state": {func(v *checkpoint.View) { v.State = text("x") }, true, true},
		"a message of turn 1": {func(v *checkpoint.View) {
			v.Messages[0].Content = text("x")
		}, true, true},
		"a message of turn 1, with one more": {func(v *checkpoint.View) {
			save(v, third, text("three"))
			v.Messages[0].Content = text("x")
		}, false, false},
		"fewer messages, with one more": {func(v *checkpoint.View) {
			save(v, third, text("three"))
			v.Messages = v.Messages[2:]
		}, false, false},
		"a turn less": {func(v *checkpoint.View) { v.Turns = v.Turns[:1] }, true, false},
		"a reply":     {func(v *checkpoint.View) { v.Turns[0].Reply = text("x") }, true, false},
		"an input":    {func(v *checkpoint.View) { v.Turns[0].InputHash = "x" }, true, false},
		"two more":    {func(v *checkpoint.View) { save(v, third, text("three")); save(v, third, text("three")) }, true, false},
		"another one": {func(v *checkpoint.View) { other := third; other.Key = "x"; save(v, other, text("x")) }, true, false},
	} {
		_, before := conversation()
		_, after := conversation()
		c.change(&after)
		if what, kept := grown(before, after, "kthree"); (what != "") != c.what || kept != c.kept {
			t.Errorf("%s: %q, %t", name, what, kept)
		}
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	l, view := conversation()
	all := said(l, view)
	for name, c := range map[string]struct {
		messages []checkpoint.Message
		want     []int
	}{
		"nothing":  {view.Messages, nil},
		"one":      {slices.Delete(slices.Clone(view.Messages), 1, 2), []int{1}},
		"the last": {view.Messages[:3], []int{3}},
		"all":      {nil, []int{0, 1, 2, 3}},
	} {
		if got := gone(c.messages, all); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// What an agent replied does not count, but that it replied does.
func TestTalk(t *testing.T) {
	t.Parallel()
	_, one := conversation()
	_, other := conversation()
	for i := range other.Turns {
		other.Turns[i].Reply = text("in other words")
		other.Messages[2*i+1].Content = text("in other words")
	}
	talk := func(view checkpoint.View) string { return talkOf(sample{view: view}) }
	if talk(one) != talk(other) {
		t.Errorf("%s\n%s", talk(one), talk(other))
	}
	other.Messages[1].Content = text("never said")
	if talk(one) == talk(other) || !strings.Contains(firstDifference(other, one), "message 2") {
		t.Errorf("a reply that was changed is not seen: %s", talk(other))
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
	for line, want := range map[string]int{"level=INFO msg=draining in_flight=2": 2, "msg=drained in_flight=2": -1, "msg=draining": -1} {
		if n, ok := parseStopping(line); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %d, %t", line, n, ok)
		}
	}
	if _, id := parseHold("msg=hold point=begun session=s turn=t-1", "s", turn.PointBegun); id != "t-1" {
		t.Errorf("the turn is %q", id)
	}
}
