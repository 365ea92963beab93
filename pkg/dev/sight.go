package dev

import (
	"context"
	"sync"
)

// sight is one look out for a change: from one Load to the next. What it finds is
// told from what that Load read, so that nothing is lost between a reading and
// the wait for what comes after it.
type sight struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup

	arrived chan struct{} // closed when change, or err, is there
	change  Change
	err     error
}

// lookOut begins one.
func lookOut(ctx context.Context, next func(context.Context) (Change, error)) *sight {
	ctx, cancel := context.WithCancel(ctx)
	s := &sight{cancel: cancel, arrived: make(chan struct{})}
	s.wg.Go(func() {
		change, err := next(ctx)
		if ctx.Err() != nil {
			return
		}
		s.change, s.err = change, err
		close(s.arrived)
	})
	return s
}

// end gives it up, and waits for it.
func (s *sight) end() {
	s.cancel()
	s.wg.Wait()
}
