package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

type memory struct {
	First string `json:"first"`
	Count int    `json:"count,omitempty"`
}

// execute runs one turn of run on cp, without an engine.
func execute[S any](t *testing.T, run Func[S], cp checkpoint.Checkpoint) (checkpoint.Commit, error) {
	t.Helper()
	x, err := newProgram(run)(cp, nil, json.RawMessage(`"in"`))
	if err != nil {
		return checkpoint.Commit{}, err
	}
	commit, _, err := x(t.Context())
	return commit, err
}

func TestStateIsCommittedOnlyIfChanged(t *testing.T) {
	t.Parallel()
	idle := func(context.Context, *Checkpoint[memory], Input) (Reply, error) { return Text("ok"), nil }
	count := func(_ context.Context, cp *Checkpoint[memory], _ Input) (Reply, error) {
		cp.State.Count++
		return Text("ok"), nil
	}
	for _, c := range []struct {
		name, state, want string
		run               Func[memory]
	}{
		{"none and untouched", "", "", idle},
		{"none and changed", "", `{"first":"","count":1}`, count},
		{"some and untouched", `{"first":"x"}`, "", idle},
		{"some and changed", `{"first":"x","count":4}`, `{"first":"x","count":5}`, count},
		{"a field was added since", `{}`, `{"first":""}`, idle},
	} {
		var state json.RawMessage
		if c.state != "" {
			state = json.RawMessage(c.state)
		}
		got, err := execute(t, c.run, checkpoint.Checkpoint{State: state})
		if err != nil || string(got.State) != c.want {
			t.Errorf("%s: state %s, %v, want %q", c.name, got.State, err, c.want)
		}
	}
}

func TestC36_StateIsDecodedStrictly(t *testing.T) {
	t.Parallel()
	run := func(context.Context, *Checkpoint[memory], Input) (Reply, error) {
		t.Error("ran on a state that does not fit")
		return Reply{}, nil
	}
	for _, state := range []string{`{"first":"x","renamed":1}`, `{"first":1}`, `[]`, `{"first":"x"} 1`, `{"count":"3"}`} {
		if _, err := execute(t, run, checkpoint.Checkpoint{State: json.RawMessage(state)}); err == nil {
			t.Errorf("%s was accepted", state)
		}
	}
}

// migrated reads the state that memory wrote, too.
type migrated struct {
	Opening string `json:"opening"`
}

func (m *migrated) UnmarshalJSON(b []byte) error {
	var both struct {
		Opening string `json:"opening"`
		First   string `json:"first"`
	}
	if err := json.Unmarshal(b, &both); err != nil {
		return err
	}
	m.Opening = both.Opening + both.First
	return nil
}

func TestC36_StateMigrates(t *testing.T) {
	t.Parallel()
	got, err := execute(t, func(_ context.Context, cp *Checkpoint[migrated], _ Input) (Reply, error) {
		return Text(cp.State.Opening), nil
	}, checkpoint.Checkpoint{State: json.RawMessage(`{"first":"hello"}`)})
	if err != nil || string(got.Reply) != `"hello"` || string(got.State) != `{"opening":"hello"}` {
		t.Errorf("reply %s, state %s, %v", got.Reply, got.State, err)
	}
}

func TestATurnCannotChangeWhatTheStoreKeeps(t *testing.T) {
	t.Parallel()
	stored := checkpoint.Checkpoint{Turn: 1, Messages: msgs("a b")}
	_, err := execute(t, func(_ context.Context, cp *Checkpoint[memory], _ Input) (Reply, error) {
		if cp.Turn != 2 || cap(cp.Messages) != len(cp.Messages) {
			t.Errorf("turn %d, capacity %d of %d messages", cp.Turn, cap(cp.Messages), len(cp.Messages))
		}
		cp.Messages[0].Role = "changed"
		cp.Messages = append(cp.Messages[:1], msgs("x")...)
		return Reply{}, errors.New("no")
	}, stored)
	if err == nil || words(stored.Messages) != "a b" || stored.Messages[0].Role != "m" {
		t.Errorf("stored is now %v, error %v", stored.Messages, err)
	}
}

// TestCommitCostsWhatIsNew: the store compares nothing of the slice that it
// handed out itself.
func TestCommitCostsWhatIsNew(t *testing.T) {
	t.Parallel()
	stored := checkpoint.Checkpoint{Turn: 1, Messages: msgs("a b")}
	got, err := execute(t, func(_ context.Context, cp *Checkpoint[memory], _ Input) (Reply, error) {
		cp.Messages = append(cp.Messages, msgs("t")...)
		return Text("out"), nil
	}, stored)
	if err != nil || len(got.Messages) != 2 || &got.Messages[0] != &stored.Messages[0] {
		t.Errorf("kept %q, %v", words(got.Messages), err)
	}
	if added := words(got.Add); added != "in t out" {
		t.Errorf("added %q", added)
	}
}

// TestEditsInPlace: a turn may change elements of cp.Messages. What it changed
// is committed with its reply, and is nowhere if it fails.
func TestEditsInPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
		if len(cp.Messages) == 0 {
			return Text("r1"), nil
		}
		switch input.Text() {
		case "look":
			return Text(words(cp.Messages)), nil
		case "fail":
			cp.Messages[0], cp.Messages[1].Content = msgs("lost")[0], json.RawMessage(`"lost"`)
			return Reply{}, errors.New("no")
		}
		cp.Messages[0].Content = json.RawMessage(`"edited"`)
		return Text("r2"), nil
	}
	a := serveAgentOn(t, dir, run)
	a.turn(t.Context(), "s", "", "1").want(t, 200, "")
	a.turn(t.Context(), "s", "", "fail").want(t, 500, turn.RunFailed)
	if got := a.turn(t.Context(), "s", "", "look"); got.text() != "1 r1" {
		t.Errorf("after the failure: %q, %v", got.text(), got.err)
	}
	a.turn(t.Context(), "s", "", "2").want(t, 200, "")
	want := "edited r1 look 1 r1 2 r2"
	if got := words(a.view(t, "s").Messages); got != want {
		t.Errorf("after the edit: %q, want %q", got, want)
	}
	// In memory and on disk it is the same conversation.
	if got := serveAgentOn(t, dir, run).turn(t.Context(), "s", "", "look"); got.text() != want {
		t.Errorf("another replica sees %q, %v, want %q", got.text(), got.err, want)
	}
	if got := a.turn(t.Context(), "s", "", "look"); !strings.HasPrefix(got.text(), want) {
		t.Errorf("this replica sees %q, %v, want %q", got.text(), got.err, want)
	}
}

func TestRepliesAndStatesThatDoNotEncode(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]Func[any]{
		"reply": func(context.Context, *Checkpoint[any], Input) (Reply, error) { return Reply{Value: func() {}}, nil },
		"state": func(_ context.Context, cp *Checkpoint[any], _ Input) (Reply, error) {
			cp.State = make(chan int)
			return Text("ok"), nil
		},
		"raw reply": func(context.Context, *Checkpoint[any], Input) (Reply, error) {
			return Reply{Value: json.RawMessage(`{"a":`)}, nil
		},
	} {
		if got, err := execute(t, run, checkpoint.Checkpoint{}); err == nil {
			t.Errorf("%s: committed %+v", name, got)
		}
	}
}

// The detail says what does not fit, and leaves the advice to the problem.
func TestC36_StateThatDoesNotFitIsNamed(t *testing.T) {
	t.Parallel()
	run := func(context.Context, *Checkpoint[memory], Input) (Reply, error) { return Reply{}, nil }
	_, err := execute(t, run, checkpoint.Checkpoint{State: json.RawMessage(`{"renamed":1}`)})
	if err == nil || !strings.Contains(err.Error(), "agent.memory: ") || !strings.Contains(err.Error(), "renamed") || strings.Contains(err.Error(), "UnmarshalJSON") {
		t.Errorf("got %v", err)
	}
}
