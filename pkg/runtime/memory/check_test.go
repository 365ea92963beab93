package memory

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
)

func TestWithout(t *testing.T) {
	t.Parallel()
	s := stack.Stack{Agents: []stack.Agent{{Name: "bot"}}}
	for _, c := range []struct {
		sessions map[string]int
		stack    stack.Stack
		accepted []string
		leave    bool
		without  []string
		missed   string
	}{
		{sessions: nil, stack: s},
		{sessions: map[string]int{"bot": 3, "idle": 0, ".not-a-name": 1}, stack: s},
		{sessions: map[string]int{"clerk": 2, "aide": 1}, stack: s, missed: `1 session of agent "aide", 2 sessions of agent "clerk"`},
		{sessions: map[string]int{"clerk": 2, "aide": 1}, stack: s, accepted: []string{"clerk"}, missed: `holds 1 session of agent "aide", and`},
		{sessions: map[string]int{"clerk": 2, "aide": 1}, stack: s, leave: true, without: []string{"aide", "clerk"}},
		{sessions: map[string]int{"clerk": 2}, stack: s, accepted: []string{"clerk", "aide"}, without: []string{"clerk"}},
		{sessions: map[string]int{"clerk": 2}, stack: stack.Stack{}},
	} {
		without, err := Without(c.sessions, c.stack, c.accepted, c.leave)
		if !slices.Equal(without, c.without) || (err != nil) != (c.missed != "") || err != nil && !strings.Contains(err.Error(), c.missed) {
			t.Errorf("%v without %v: %v, %v", c.sessions, c.accepted, without, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	f, was := Of("home", "id", ""), Volume{Name: "v", ID: "1"}
	if err := errors.Join(f.Renamed(was, "v"), f.Other(was, "v", "1", "")); err != nil {
		t.Errorf("the right one: %v", err)
	}
	for _, err := range []error{f.Renamed(was, "w"), f.Gone("v"), f.Other(was, "v", "2", "look")} {
		why, ok := errors.AsType[*fault.Fault](err)
		if !ok || why.Kind != fault.Environment || !strings.Contains(why.Hint, f.Path()) {
			t.Errorf("the refusal is %+v", why)
		}
	}
	if got := f.VolumeName("docker", stack.Stack{Name: "bot", ID: "0123456789ab"}); got != "flisk-bot-0123456789ab" {
		t.Errorf("the name is %q", got)
	}
}
