package runtimetest

import (
	"context"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Ctrl-C while an up waits: what it had started is stopped again.
func testInterrupted(t *testing.T, place Place) {
	p := NewProject(t, place)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := &interrupter{Progress: p.P, cancel: cancel}
	_, err := p.Driver().Up(ctx, steps)
	isFault(t, err, fault.Interrupted, "interrupted")
	if o := p.Observe(); o.Running || len(o.Replicas) > 0 || len(o.Stale) > 0 {
		t.Errorf("an interrupted up left %+v", o)
	}
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
}

// interrupter ends a context when the first agent is waited for.
type interrupter struct {
	runtime.Progress
	cancel func()
}

func (i *interrupter) Begin(step string) func(string, error) {
	if strings.HasPrefix(step, "start bot") {
		i.cancel()
	}
	return i.Progress.Begin(step)
}
