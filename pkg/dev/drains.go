package dev

import (
	"sync"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// maxDraining bounds how many generations may finish what they accepted at a
// time: each is a process with its memory. A save waits for the next to end then.
const maxDraining = 8

// drains are the generations that were replaced and finish what they accepted.
type drains struct {
	gone chan struct{} // has a token after one ended

	mu   sync.Mutex
	all  sync.WaitGroup
	runs map[runtime.Ref]bool
}

func newDrains() *drains {
	return &drains{gone: make(chan struct{}, 1), runs: map[runtime.Ref]bool{}}
}

// begin runs stop for a generation, and is false when that is done already. over
// is called when it is not among those that drain any more.
func (d *drains) begin(ref runtime.Ref, stop func() (over func())) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs[ref] {
		return false
	}
	d.runs[ref] = true
	d.all.Go(func() {
		over := stop()
		d.mu.Lock()
		delete(d.runs, ref)
		d.mu.Unlock()
		over()
		select {
		case d.gone <- struct{}{}:
		default:
		}
	})
	return true
}

// full reports whether another one has to wait.
func (d *drains) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.runs) >= maxDraining
}

// count is how many of each agent drain.
func (d *drains) count() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := map[string]int{}
	for ref := range d.runs {
		n[ref.Agent]++
	}
	return n
}

// wait returns when the last one has ended.
func (d *drains) wait() { d.all.Wait() }
