package runtime

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

func TestPlanIsDoneInGroups(t *testing.T) {
	t.Parallel()
	plan := Plan{{Do: Build, Agent: "a"}, {Do: Start, Agent: "a"}, {Do: Start, Agent: "b"}, {Do: Await, Agent: "a"}, {Do: Start, Agent: "c"}}
	for name, c := range map[string]struct {
		fails Action
		want  string
	}{
		"whole":           {"", " build:1 start:2 await:1 start:1"},
		"until one fails": {Await, " build:1 start:2 await:1"},
	} {
		done, told, failed := "", "", errors.New("no")
		hear := func(e Event) {
			switch {
			case e.Steps == nil:
				told += fmt.Sprintf("plan:%d", len(e.Plan))
			case e.Ended && e.Err == nil:
				told += fmt.Sprintf(":%d", len(e.Steps))
			case !e.Ended:
				told += " " + string(e.Steps[0].Do)
			}
		}
		err := plan.Do(hear, func(steps []Step) error {
			done += fmt.Sprintf(" %s:%d", steps[0].Do, len(steps))
			if steps[0].Do == c.fails {
				return failed
			}
			return nil
		})
		if done != c.want || errors.Is(err, failed) != (c.fails != "") {
			t.Errorf("%s: did%s, %v", name, done, err)
		}
		want := "plan:5" + c.want
		if c.fails != "" {
			want = strings.TrimSuffix(want, ":1") // that one did not end well
		}
		if told != want {
			t.Errorf("%s: told %q, want %q", name, told, want)
		}
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	start, old, older := Step{Do: Start, Agent: "a", Replica: "a-1", Generation: 3}, Step{Do: Stop, Agent: "a", Replica: "a-1", Generation: 2}, Step{Do: Stop, Agent: "a", Replica: "a-1", Generation: 1}
	for name, c := range map[string]struct {
		plan Plan
		kept int
	}{
		"what is replaced":                  {Plan{start, old, older}, 1},
		"a stop that something follows":     {Plan{old, start}, 2},
		"what needs a service that goes":    {Plan{start, old, {Do: StopService, Service: "db"}}, 3},
		"nothing but what an up left there": {Plan{old}, 0},
	} {
		kept, left := c.plan.Leave()
		if len(kept) != c.kept || len(left) != len(c.plan)-c.kept || len(left) > 0 && left[0] != old.Ref() {
			t.Errorf("%s: kept %v, left %v", name, kept, left)
		}
	}
}

// TestReplacedIsNotKept: what was replaced drains, whatever it would run.
func TestReplacedIsNotKept(t *testing.T) {
	t.Parallel()
	want := Want{Agent: "a", Replicas: 1, Code: "one", Settings: "s"}
	observed := Observed{Gateway: "g", Replicas: []Replica{
		{Agent: "a", Name: "a-1", Generation: 1, Code: "one", Settings: "s"},
		{Agent: "a", Name: "a-1", Generation: 2, Code: "two", Settings: "s", Serving: true},
	}}
	plan := NewPlan(Desired{Gateway: "g", Agents: []Want{want}}, observed, OpUp)
	var did []string
	for _, s := range plan {
		did = append(did, strings.TrimSpace(string(s.Do)+" "+s.Object()))
	}
	if got, want := strings.Join(did, ", "), "build a, start a-1.3, await a-1.3, switch routes a-1.3, confirm a, stop a-1.1, stop a-1.2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestTogether: each step waits for all others to have begun, and the first in
// the plan, not the first in time, names the error.
func TestTogether(t *testing.T) {
	t.Parallel()
	steps := []Step{{Agent: "a"}, {Agent: "b"}, {Agent: "c"}}
	var begun sync.WaitGroup
	begun.Add(len(steps))
	last := make(chan bool)
	err := Together(steps, func(s Step) error {
		begun.Done()
		begun.Wait()
		if s.Agent == "c" {
			close(last)
			return errors.New("c")
		}
		<-last
		if s.Agent == "b" {
			return errors.New("b")
		}
		return nil
	})
	if err == nil || err.Error() != "b" {
		t.Errorf("got %v", err)
	}
}

// TestBuildAll: all agents that do not build are told at once, by their names.
func TestBuildAll(t *testing.T) {
	t.Parallel()
	steps := []Step{{Do: Build, Agent: "a"}, {Do: Build, Agent: "b"}, {Do: Build, Agent: "c"}}
	broken := func(agent string) error {
		f := fault.New(fault.Failed, "correct it and try again", "agent %q does not build: %w", agent, errors.New("exit status 1"))
		f.Detail, f.Agents = agent+".go:1: no", []string{agent}
		return f
	}
	other := errors.New("no room")
	for name, c := range map[string]struct {
		errs    map[string]error
		message string
		agents  string
		detail  string
		built   string
	}{
		"none":                  {nil, "", "", "", "abc"},
		"one":                   {map[string]error{"b": broken("b")}, `agent "b" does not build: exit status 1`, "b", "b.go:1: no", "abc"},
		"two":                   {map[string]error{"a": broken("a"), "c": broken("c")}, "2 agents do not build: a, c", "a c", "a.go:1: no\nc.go:1: no", "abc"},
		"another error":         {map[string]error{"b": other}, "no room", "", "", "ab"},
		"another error behind":  {map[string]error{"a": broken("a"), "b": other}, `agent "a" does not build: exit status 1`, "a", "a.go:1: no", "ab"},
		"another error, before": {map[string]error{"a": other, "b": broken("b")}, "no room", "", "", "a"},
	} {
		built, checked := "", 0
		err := BuildAll(steps, func(s Step) error { built += s.Agent; return c.errs[s.Agent] }, func(Step) error { checked++; return nil })
		said, f := "", &fault.Fault{}
		if err != nil {
			said = err.Error()
			if known, ok := errors.AsType[*fault.Fault](err); ok {
				f = known
			}
		}
		if said != c.message || strings.Join(f.Agents, " ") != c.agents || f.Detail != c.detail || built != c.built || (checked > 0) != (err == nil) {
			t.Errorf("%s: %q about %q, %q; built %s, checked %d", name, said, f.Agents, f.Detail, built, checked)
		}
	}
}
