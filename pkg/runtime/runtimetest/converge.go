package runtimetest

import (
	"net/http"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

func testUpDown(t *testing.T, place Place) {
	p := NewProject(t, place)
	first := p.Up()
	if !first.Changed || !first.Created || first.URL != p.Setup.Stack.Gateway.URL() || first.Volume != p.Setup.Stack.Volume.Name || len(first.Replaced) > 0 {
		t.Errorf("the first up: %+v", first)
	}
	said(t, p.MustTurn("s1", "a"), 1, "a")
	before := p.Replica()
	if before.State != runtime.Ready || !before.Serving || before.Code != "c1" || before.PID == 0 || before.Generation != 1 {
		t.Errorf("the replica: %+v", before)
	}
	if again := p.Up(); again.Changed || again.Created || len(again.Replaced) > 0 {
		t.Errorf("the second up: %+v", again)
	}
	if after := p.Replica(); after.PID != before.PID || after.Start != before.Start {
		t.Errorf("the second up replaced %+v by %+v", before, after)
	}
	if down := p.Down(); !down.Changed {
		t.Errorf("down: %+v", down)
	}
	if o := p.Observe(); o.Running || o.URL != "" || len(o.Replicas) > 0 || len(o.Stale) > 0 {
		t.Errorf("after down: %+v", o)
	}
	if again := p.Down(); again.Changed {
		t.Errorf("the second down: %+v", again)
	}
	if up := p.Up(); !up.Changed || up.Created {
		t.Errorf("up after down: %+v", up)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
}

func testRestart(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	report := p.Restart()
	after := p.Replica()
	if len(report.Replaced) != 1 || !report.Changed {
		t.Fatalf("restart: %+v", report)
	}
	c := report.Replaced[0]
	if c.Agent != "bot" || c.Replica != "bot-1" || c.Exit != (runtime.Exit{}) ||
		c.Before != (runtime.Process{PID: before.PID, Start: before.Start}) || c.After != (runtime.Process{PID: after.PID, Start: after.Start}) {
		t.Errorf("replaced %+v, before %+v, after %+v", c, before, after)
	}
	if after.Generation != before.Generation+1 || after.Name != before.Name {
		t.Errorf("after the restart: %+v", after)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	if up := p.Up(); up.Changed {
		t.Errorf("up after a restart: %+v", up)
	}
	_, err := p.Driver().Restart(t.Context(), "nobody", p.P)
	isFault(t, err, fault.Usage, `no agent "nobody"`)
}

func testPlan(t *testing.T, place Place) {
	p := NewProject(t, place)
	plan, err := p.Driver().Plan(t.Context(), runtime.OpUp)
	if err != nil || !plan.Changes() {
		t.Errorf("the plan of the first up: %v\n%s", err, plan)
	}
	if o := p.Observe(); o.Running {
		t.Errorf("a plan started %+v", o)
	}
	p.Up()
	before := p.Replica()
	if plan, err = p.Driver().Plan(t.Context(), runtime.OpUp); err != nil || len(plan) > 0 {
		t.Errorf("the plan of the second up: %v\n%s", err, plan)
	}
	if plan, err = p.Driver().Plan(t.Context(), runtime.OpRestart, "bot"); err != nil || !plan.Changes() {
		t.Errorf("the plan of a restart: %v\n%s", err, plan)
	}
	if plan, err = p.Driver().Plan(t.Context(), runtime.OpDown); err != nil || len(plan) != 2 {
		t.Errorf("the plan of a down: %v\n%s", err, plan)
	}
	_, err = p.Driver().Plan(t.Context(), runtime.OpRestart, "nobody")
	isFault(t, err, fault.Usage, `no agent "nobody"`)
	if after := p.Replica(); after.PID != before.PID {
		t.Errorf("a plan replaced %+v by %+v", before, after)
	}
}

func testAgents(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	bot := p.Replica()
	clerk := Agent(p.Setup.Stack.Dir, "clerk")
	p.Setup.Stack.Agents = append(p.Setup.Stack.Agents, clerk)
	p.Code("c1")
	if report := p.Up(); !report.Changed || len(report.Replaced) > 0 {
		t.Errorf("up with another agent: %+v", report)
	}
	o := p.Observe()
	if len(o.Replicas) != 2 || o.Replicas[0].PID != bot.PID || o.Replicas[1].Name != "clerk-1" || o.Replicas[1].State != runtime.Ready {
		t.Errorf("with another agent: %+v", o.Replicas)
	}
	if a := p.Turn("clerk", "s1", "", "x"); a.Status != http.StatusOK || a.Turn != 1 {
		t.Errorf("the other agent's turn: %+v", a)
	}
	p.Setup.Stack.Agents = p.Setup.Stack.Agents[:1]
	_, err := p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Environment, `1 session of agent "clerk"`, "no such agent")
	p.Setup.LeaveAgents = true
	p.Up()
	p.Setup.LeaveAgents = false
	if up := p.Up(); up.Changed {
		t.Errorf("up without the agent, again: %+v", up)
	}
	if now := p.Replica(); now.PID != bot.PID {
		t.Errorf("the other agent was replaced: %+v", now)
	}
	p.Setup.Stack.Agents = append(p.Setup.Stack.Agents, clerk)
	p.Code("c1")
	p.Up()
	if a := p.Turn("clerk", "s1", "", "y"); a.Turn != 2 {
		t.Errorf("the agent that is back: %+v", a)
	}
}
