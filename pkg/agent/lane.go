package agent

import (
	"context"
	"slices"
	"time"

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

// flight is one turn on its way through this process. Its goroutine outlives
// the request that started it once the turn has begun.
type flight struct {
	request
	head   chan struct{}           // closed when the flight is first in its lane
	waitCx context.Context         // bounds the wait for the session
	drop   context.CancelCauseFunc // ends waitCx

	done   chan struct{} // closed when result and err are set
	result turn.Result
	err    error // a *turn.Problem, or errDropped

	sent chan bool // its owner says once whether the reply was written whole

	// Guarded by engine.mu.
	clients  int  // requests that wait for the answer
	begun    bool // it now runs to its end, with or without clients
	answered bool // done is closed
}

type flightKey struct{ session, key string }

// join puts a request in its session's queue, or attaches it to the flight that
// already carries its turn key. Attached requests have no place in the queue.
func (e *engine) join(req request) (f *flight, owner bool, err error) {
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
		head:    make(chan struct{}),
		done:    make(chan struct{}),
		sent:    make(chan bool, 1),
		clients: 1,
	}
	limit, tooLong := e.timeout, errWaitedTooLong
	if e.reject {
		limit, tooLong = min(limit, rejectWait), errBusyElsewhere
	}
	bounded, cancel := context.WithTimeoutCause(e.ctx, limit, tooLong)
	f.waitCx, f.drop = context.WithCancelCause(bounded)
	l.flights = append(l.flights, f)
	if len(l.flights) == 1 {
		close(f.head)
	}
	if f.key != "" {
		e.keyed[flightKey{f.session, f.key}] = f
	}
	e.flights.add(1)
	go func() {
		defer e.flights.add(-1)
		defer e.leaveLane(f)
		defer cancel()
		e.fly(f)
	}()
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

// leave tells a flight that one of its clients is gone. A flight that nobody
// waits for any more is dropped, unless it has begun.
func (e *engine) leave(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
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

// answer publishes what became of a flight to everybody who waits for it.
func (e *engine) answer(f *flight, result turn.Result, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.result, f.err, f.answered = result, err, true
	e.forget(f)
	close(f.done)
}

// forget removes a flight from the index of keys; e.mu is held.
func (e *engine) forget(f *flight) {
	if k := (flightKey{f.session, f.key}); e.keyed[k] == f {
		delete(e.keyed, k)
	}
}
