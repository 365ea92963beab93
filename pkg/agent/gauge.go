package agent

import (
	"context"
	"sync"
)

// gauge counts things that begin and end, and lets somebody wait for none.
// Unlike a sync.WaitGroup it may grow while it is waited for, can be read, and
// the wait can be given up. The zero value is ready.
type gauge struct {
	mu   sync.Mutex
	n    int
	zero []chan struct{} // closed and dropped when n becomes 0
}

func (g *gauge) add(d int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n += d; g.n == 0 {
		for _, ch := range g.zero {
			close(ch)
		}
		g.zero = nil
	}
}

func (g *gauge) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// join waits for a count of 0, however long it takes.
func (g *gauge) join() { _ = g.wait(context.Background()) }

// wait returns nil once the count is 0, or ctx's cause.
func (g *gauge) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return nil
	}
	ch := make(chan struct{})
	g.zero = append(g.zero, ch)
	g.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
