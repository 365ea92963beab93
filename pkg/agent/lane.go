package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// maxWaiting is how many turns may wait in this process for one session, behind
// the one that has it.
const maxWaiting = 32

// lane is the queue of one session in this process. Its first flight has the
// session, or is taking it; the others wait in the order in which they came.
// The store's lock alone would exclude them as well, but only a queue that is
// seen whole can be bounded, and can let one in the middle leave.
type lane struct{ flights []*flight }

// flight is one turn on its way through this process. It is in the goroutine of
// the request that started it, its owner, and outlives the client of that once
// the turn has begun.
type flight struct {
	request
	client client
	head   chan struct{}           // closed when the flight is first in its lane
	waitCx context.Context         // bounds the wait for the session
	drop   context.CancelCauseFunc // ends waitCx
	held   checkpoint.Session      // nil until it has the session
	land   func()                  // gives the session and the place in the lane back, once

	done   chan struct{} // closed when result and err are set
	result turn.Result
	err    error // a *turn.Problem, or errDropped

	// Guarded by engine.mu.
	clients   int  // requests that wait for the answer
	abandoned bool // the owner has left
	begun     bool // it now runs to its end, with or without clients
	answered  bool // done is closed
	refused   bool // the owner was answered while the agent's code had not come back
}

type flightKey struct{ session, key string }

// join puts a request in its session's queue, or attaches it to the flight that
// already carries its turn key. Attached requests have no place in the queue.
func (e *engine) join(req request, c client) (f *flight, owner bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if req.key != "" {
		if f := e.keyed[flightKey{req.session, req.key}]; f != nil {
			if f.hash != req.hash {
				return nil, false, keyReused("")
			}
			f.clients++
			return f, false, nil
		}
	}
	if e.stopped {
		return nil, false, draining()
	}
	l := e.lanes[req.session]
	if l == nil {
		l = &lane{}
		e.lanes[req.session] = l
	}
	if e.reject && slices.ContainsFunc(l.flights, func(f *flight) bool { return !f.answered }) {
		return nil, false, turn.Problemf(turn.Busy, "this agent does not queue turns")
	}
	if len(l.flights) > maxWaiting {
		p := turn.Problemf(turn.QueueFull, "%d turns wait already", maxWaiting)
		p.After = time.Second
		return nil, false, p
	}

	f = &flight{
		request: req,
		client:  c,
		head:    make(chan struct{}),
		done:    make(chan struct{}),
		clients: 1,
	}
	limit, tooLong := e.timeout, errWaitedTooLong
	if e.reject {
		limit, tooLong = min(limit, rejectWait), errBusyElsewhere
	}
	f.waitCx, f.drop = context.WithCancelCause(e.ctx)
	waited := time.AfterFunc(limit, func() { f.drop(tooLong) })
	f.land = sync.OnceFunc(func() {
		if f.held != nil {
			f.held.Release()
		}
		waited.Stop()
		f.drop(nil)
		e.leaveLane(f)
		e.flights.add(-1)
	})
	l.flights = append(l.flights, f)
	if len(l.flights) == 1 {
		close(f.head)
	}
	if f.key != "" {
		e.keyed[flightKey{f.session, f.key}] = f
	}
	e.flights.add(1)
	return f, true, nil
}

// leaveLane makes room for the next flight of the session.
func (e *engine) leaveLane(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[f.session]
	i := slices.Index(l.flights, f)
	l.flights = slices.Delete(l.flights, i, i+1)
	switch {
	case len(l.flights) == 0:
		delete(e.lanes, f.session)
	case i == 0:
		close(l.flights[0].head)
	}
}

// leave tells a flight that one of its clients is gone.
func (e *engine) leave(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left(f)
}

// abandon tells a flight that the client of its owner is gone. When the answer is
// there already that is no news: it may be being written.
func (e *engine) abandon(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !f.answered {
		f.abandoned = true
		e.left(f)
	}
}

// left drops a flight that nobody waits for any more, unless it has begun; e.mu
// is held.
func (e *engine) left(f *flight) {
	if f.clients--; f.clients == 0 && !f.begun {
		f.drop(errDropped)
		// Nobody may attach to a flight that is on its way out.
		e.forget(f)
	}
}

// begin decides, once and for all, that a flight runs to its end, with or
// without its clients. The error says why it must not: its wait was ended while
// it took the session.
func (e *engine) begin(f *flight) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := context.Cause(f.waitCx); err != nil {
		return err
	}
	f.begun = true
	return nil
}

// answer publishes what became of a flight to everybody who waits for it. It
// reports whether the owner is still there and is to be given the result.
func (e *engine) answer(f *flight, result turn.Result, err error) (deliver bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.result, f.err, f.answered = result, err, true
	e.forget(f)
	close(f.done)
	return err == nil && !f.abandoned
}

// sendAway answers the owner of a flight that has failed, from outside of the
// owner's goroutine or at its end, and once.
func (e *engine) sendAway(f *flight) {
	e.mu.Lock()
	p, failed := f.err.(*turn.Problem)
	refuse := failed && !f.abandoned && !f.refused
	f.refused = f.refused || refuse
	e.mu.Unlock()
	if refuse {
		f.client.refuse(p)
	}
}

// forget removes a flight from the index of keys; e.mu is held.
func (e *engine) forget(f *flight) {
	if k := (flightKey{f.session, f.key}); e.keyed[k] == f {
		delete(e.keyed, k)
	}
}
