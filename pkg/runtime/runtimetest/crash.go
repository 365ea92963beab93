package runtimetest

import (
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

func testKill(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	changes, err := p.Driver().Kill(t.Context(), "bot")
	if err != nil || len(changes) != 1 {
		t.Fatalf("kill: %+v, %v", changes, err)
	}
	c := changes[0]
	if c.Exit.Signal != 9 || c.Exit.Code != -1 || c.Before != (runtime.Process{PID: before.PID, Start: before.Start}) || c.After == (runtime.Process{}) || c.After == c.Before {
		t.Errorf("kill: %+v of %+v", c, before)
	}
	Eventually(t, "the agent to be back", func() bool { return p.Replica().State == runtime.Ready })
	if n := p.Replica().Restarts; n != 1 {
		t.Errorf("a kill counts as %d restarts", n)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	if up := p.Up(); len(up.Replaced) > 0 {
		t.Errorf("up after a kill: %+v", up)
	}
	_, err = p.Driver().Kill(t.Context(), "nobody")
	isFault(t, err, fault.Failed, `agent "nobody" has no running process`)
	p.Down()
	_, err = p.Driver().Kill(t.Context(), "bot")
	isFault(t, err, fault.Failed, "nothing runs")
}
