package dev

import (
	"context"
	"sync"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// maxDraining bounds how many generations may finish what they accepted at a
// time: each is a process with its memory. A save waits for the next to end then.
const maxDraining = 8

// drains are the generations that were replaced and finish what they accepted.
// The zero value has none.
type drains struct {
	mu   sync.Mutex
	all  sync.WaitGroup
	runs map[runtime.Ref]bool
	gone chan struct{} // has a token after one ended
}

// begin runs stop for a generation, unless that is done already.
func (d *drains) begin(ref runtime.Ref, stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs == nil {
		d.runs, d.gone = map[runtime.Ref]bool{}, make(chan struct{}, 1)
	}
	if d.runs[ref] {
		return
	}
	d.runs[ref] = true
	d.all.Go(func() {
		stop()
		d.mu.Lock()
		delete(d.runs, ref)
		d.mu.Unlock()
		select {
		case d.gone <- struct{}{}:
		default:
		}
	})
}

// room waits until another one may begin.
func (d *drains) room(ctx context.Context) error {
	for {
		d.mu.Lock()
		n, gone := len(d.runs), d.gone
		d.mu.Unlock()
		if n < maxDraining {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-gone:
		}
	}
}

// wait returns when the last one has ended.
func (d *drains) wait() { d.all.Wait() }
