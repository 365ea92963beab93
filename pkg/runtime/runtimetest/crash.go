package runtimetest

import (
	"net/http"
	"strings"
	"testing"
	"time"

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

// A kill in the middle of a turn: the retry with its key ends in one turn.
func testKillInTurn(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	first := p.InFlight("s1", "k1", 1500*time.Millisecond)
	if _, err := p.Driver().Kill(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	heard := <-first // that it was cut, or the answer to a retry of the gateway's
	var a Answer
	Eventually(t, "an answer to the retry", func() bool {
		a = p.Turn("bot", "s1", "k1", "1.5s")
		return a.Status == http.StatusOK
	})
	if heard.Status == http.StatusOK && heard.Reply != a.Reply {
		t.Errorf("the client heard %+v first, and %+v then", heard, a)
	}
	if !strings.Contains(a.Reply, ": a 1.5s;") {
		t.Errorf("the retry: %+v", a)
	}
	if b := p.MustTurn("s1", "b"); !strings.Contains(b.Reply, ": a 1.5s b;") {
		t.Errorf("the turn after it: %+v", b)
	}
	if again := p.Turn("bot", "s1", "k1", "1.5s"); again.Reply != a.Reply {
		t.Errorf("once more: %+v, not %+v", again, a)
	}
}

// An agent that ends by itself comes back by itself, and an up has nothing to do.
func testDies(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	p.Turn("bot", "s2", "", "exit") // whatever comes of it
	Eventually(t, "the agent to be back", func() bool {
		o := p.Observe()
		return len(o.Replicas) == 1 && o.Replicas[0].State == runtime.Ready && o.Replicas[0].PID != before.PID
	})
	if r := p.Replica(); r.Restarts != 1 || r.Generation != before.Generation {
		t.Errorf("what came back: %+v", r)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	if up := p.Up(); up.Changed {
		t.Errorf("up after it: %+v", up)
	}
}
