package runtimetest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Ctrl-C while an up waits: what it had started is stopped again.
func testInterrupted(t *testing.T, place Place) {
	p := NewProject(t, place)
	err := p.interruptedUp(func(_ int, step string) bool { return strings.HasPrefix(step, "start bot") })
	isFault(t, err, fault.Interrupted, "interrupted")
	p.nothingRuns("an interrupted up")
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
}

func (p *Project) nothingRuns(after string) {
	p.T.Helper()
	if o := p.Observe(); o.Running || len(o.Replicas) > 0 || len(o.Stale) > 0 {
		p.T.Errorf("%s left %+v", after, o)
	}
}

// Ctrl-C at any step of an up: it is undone, or done; and the next one does it.
func testInterruptedAnywhere(t *testing.T, place Place) {
	p := NewProject(t, place)
	inputs := ""
	n := 0
	goesOn := func() {
		t.Helper()
		n++
		inputs = strings.TrimSpace(inputs + " x")
		said(t, p.MustTurn("s1", "x"), n, inputs)
	}
	// each interrupts an up at its first step, at its second, and so on, until there
	// is none that it could be interrupted at.
	each := func(name string, before, after func(err error)) {
		t.Helper()
		for at := 1; ; at++ {
			before(nil)
			reached := false
			err := p.interruptedUp(func(step int, _ string) bool {
				reached = reached || step == at
				return step == at
			})
			if err != nil {
				isFault(t, err, fault.Interrupted, "interrupted")
			}
			after(err)
			p.Up()
			goesOn()
			if !reached {
				t.Logf("%s: interrupted at each of %d steps", name, at-1)
				return
			}
		}
	}
	each("first up", func(error) { p.Down() }, func(err error) {
		if err != nil {
			p.nothingRuns("an interrupted up")
		}
	})
	each("changed up", func(error) {
		if p.code == "c1" {
			p.Code("c2")
		} else {
			p.Code("c1")
		}
	}, func(error) { goesOn() })
	if up := p.Up(); up.Changed {
		t.Errorf("up at the end: %+v", up)
	}
}

// interruptedUp is an up whose context ends when it begins the step for which now
// says so. Steps are counted from 1.
func (p *Project) interruptedUp(now func(n int, step string) bool) error {
	p.T.Helper()
	ctx, cancel := context.WithCancel(p.T.Context())
	defer cancel()
	_, err := p.Driver().Up(ctx, &interrupter{Progress: p.P, now: now, cancel: cancel})
	return err
}

// interrupter ends a context at a step.
type interrupter struct {
	runtime.Progress
	now    func(n int, step string) bool
	cancel func()

	mu sync.Mutex
	n  int
}

func (i *interrupter) Begin(step string) func(string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.n++; i.now(i.n, step) {
		i.cancel()
	}
	return i.Progress.Begin(step)
}
