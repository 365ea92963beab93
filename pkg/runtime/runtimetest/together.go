package runtimetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// Several ups at once: one does it, and the others wait and find it done.
func testTwoUps(t *testing.T, place Place) {
	p := NewProject(t, place)
	const n = 3
	var reports [n]runtime.Report
	var errs [n]error
	var all sync.WaitGroup
	for i := range n {
		d := p.Driver()
		all.Go(func() { reports[i], errs[i] = d.Up(t.Context(), p.P) })
	}
	all.Wait()
	changed, created := 0, 0
	for i, r := range reports {
		if errs[i] != nil {
			t.Errorf("up: %v", errs[i])
		}
		if r.Changed {
			changed++
		}
		if r.Created {
			created++
		}
		if r.URL != p.Setup.Stack.Gateway.URL() {
			t.Errorf("the report %+v", r)
		}
	}
	if changed != 1 || created != 1 {
		t.Errorf("%d of %d ups changed something, %d made the volume", changed, n, created)
	}
	if !strings.Contains(p.P.String(), "wait for another flisk command") {
		t.Error("nobody said that it waits")
	}
	if r := p.Replica(); r.Generation != 1 {
		t.Errorf("what runs: %+v", r)
	}
	said(t, p.MustTurn("s1", "a"), 1, "a")
}

// An up and a down at once: whichever is last, it is wholly done.
func testUpAgainstDown(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
	for range 3 {
		up, down := p.Driver(), p.Driver()
		var failed [2]error
		var all sync.WaitGroup
		all.Go(func() { _, failed[0] = up.Up(t.Context(), p.P) })
		all.Go(func() { _, failed[1] = down.Down(t.Context(), p.P) })
		all.Wait()
		if failed != [2]error{} {
			t.Fatalf("up: %v; down: %v", failed[0], failed[1])
		}
		o := p.Observe()
		up1 := o.Running && len(o.Replicas) == 1 && o.Replicas[0].State == runtime.Ready && o.Replicas[0].Serving
		down1 := !o.Running && len(o.Replicas) == 0
		if up1 == down1 || len(o.Stale) > 0 {
			t.Errorf("what is there: %+v", o)
		}
	}
	p.Up()
	said(t, p.MustTurn("s1", "b"), 2, "a b")
}
