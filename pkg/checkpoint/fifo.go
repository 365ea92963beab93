package checkpoint

import (
	"context"
	"slices"
	"sync"
)

// fifo is a mutex that is given in the order in which it was asked for, and
// that a caller may stop waiting for. The zero value is free.
type fifo struct {
	mu      sync.Mutex
	held    bool
	waiting []chan struct{} // closed when the mutex is the waiter's
}

// acquire waits for the mutex. It returns ctx's cause or, when closing is
// closed, ErrClosed; the place in the queue is then given up.
func (q *fifo) acquire(ctx context.Context, closing <-chan struct{}) error {
	q.mu.Lock()
	if !q.held {
		q.held = true
		q.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()

	var err error
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-closing:
		err = ErrClosed
	}
	q.mu.Lock()
	if i := slices.Index(q.waiting, turn); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.mu.Unlock()
		return err
	}
	q.mu.Unlock()
	q.release() // it was given to us while we left
	return err
}

// try takes the mutex if it is free.
func (q *fifo) try() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held {
		return false
	}
	q.held = true
	return true
}

// release passes the mutex on.
func (q *fifo) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.held = false
		return
	}
	close(q.waiting[0])
	q.waiting = slices.Delete(q.waiting, 0, 1)
}
