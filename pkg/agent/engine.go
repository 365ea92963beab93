package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

const (
	// deliveryWait is how long a turn keeps its session while its reply is
	// written: the next turn must not wait for a slow client.
	deliveryWait = time.Second
	// rejectWait bounds the wait for the session's lock when the agent does not
	// queue: long enough for a turn that has been answered to let go of it.
	rejectWait = 2 * deliveryWait
	// settleTime is what runTurn gets to return after its context was cancelled
	// by a drain, before its client is sent away.
	settleTime = time.Second
)

// Why the wait for a session ended.
var (
	errWaitedTooLong = errors.New("the session stayed busy for too long")
	errBusyElsewhere = errors.New("the session is busy in another replica")
	errDropped       = errors.New("no client waits for the turn any more")
)

// engine is the turn engine: it takes a request to a committed turn. It knows
// nothing of HTTP.
type engine struct {
	store   checkpoint.Store
	program program
	timeout time.Duration // of a wait for the session, and of a run
	reject  bool          // do not queue
	log     *slog.Logger

	// ctx is the parent of all waits for a session and of all runs. stop cancels
	// it with ErrDraining.
	ctx    context.Context
	cancel context.CancelCauseFunc

	flights gauge // queued, running, and those that have not let go of their session

	mu      sync.Mutex
	lanes   map[string]*lane
	keyed   map[flightKey]*flight // those with a turn key that are not answered yet
	stopped bool
}

func newEngine(store checkpoint.Store, p program, env turn.Env, log *slog.Logger) *engine {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &engine{
		store:   store,
		program: p,
		timeout: env.TurnTimeout,
		reject:  env.OnBusy == turn.BusyReject,
		log:     log,
		ctx:     ctx,
		cancel:  cancel,
		lanes:   map[string]*lane{},
		keyed:   map[flightKey]*flight{},
	}
}

// stop refuses new turns, sends queued ones away, and cancels running ones.
// What runs is waited for with e.flights.
func (e *engine) stop() {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.cancel(ErrDraining)
}

// client is how a turn answers the request that it is for.
type client struct {
	// deliver writes the result and reports whether it was written whole.
	deliver func(turn.Result) bool
	// refuse answers with a problem from another goroutine while that of the
	// request is in the agent's code and does not come back.
	refuse func(*turn.Problem)
}

// errAnswered is what do returns when it has refused the request already.
var errAnswered = errors.New("the request was answered before its turn came back")

// do answers one request, and runs its turn in the caller's goroutine: also to
// its end, when the client left. On success it calls deliver once; the session is
// held meanwhile, but not for longer than deliveryWait. Otherwise it returns a
// *turn.Problem, ctx's cause when the client left first, or errAnswered.
func (e *engine) do(ctx context.Context, req request, c client) (err error) {
	e.holdAt(req, turn.PointAccepted, "")
	if req.key != "" {
		if t, ok := e.store.Replay(req.session, req.key); ok {
			if t.InputHash != req.hash {
				return keyReused(t.ID)
			}
			c.deliver(resultOf(t, true))
			return nil
		}
	}
	f, owner, err := e.join(req, c)
	if err != nil {
		return err
	}
	if !owner {
		return e.attend(ctx, f, c.deliver)
	}
	defer context.AfterFunc(ctx, func() { e.abandon(f) })()
	landed := false
	defer func() {
		if !landed {
			e.crashed(f)
		}
	}()
	e.fly(f)
	landed = true
	return e.outcome(ctx, f)
}

// outcome is what do returns for the owner of a flight that has come to its end.
func (e *engine) outcome(ctx context.Context, f *flight) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case f.refused:
		return errAnswered
	case f.abandoned:
		return context.Cause(ctx)
	}
	return f.err
}

// attend answers a request that is attached to another one's flight.
func (e *engine) attend(ctx context.Context, f *flight, deliver func(turn.Result) bool) error {
	defer e.leave(f)
	select {
	case <-f.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if f.err != nil {
		return f.err
	}
	result := f.result
	result.Replayed = true
	deliver(result)
	return nil
}

// fly takes a flight from the queue to the end of its turn, and lands it.
func (e *engine) fly(f *flight) {
	defer f.land()
	select {
	case <-f.head:
	case <-f.waitCx.Done():
		e.refuse(f, context.Cause(f.waitCx))
		return
	}
	s, err := e.store.Acquire(f.waitCx, f.session)
	if err != nil {
		if t, ok := e.readOnlyReplay(f, err); ok {
			e.answerKnown(f, t)
			return
		}
		e.refuse(f, err)
		return
	}
	f.held = s
	if t, ok := known(s, f.request); ok {
		if e.answerKnown(f, t) && f.key == "" {
			e.note(f, "delivered", s.Delivered())
		}
		return
	}
	cp := s.Checkpoint()
	if err := f.expect.check(cp.Turn); err != nil {
		e.answer(f, turn.Result{}, err)
		return
	}
	run, err := e.load(s, cp, f.request)
	if err != nil {
		e.answer(f, turn.Result{}, err)
		return
	}
	if err := e.begin(f); err != nil {
		e.refuse(f, err)
		return
	}
	t, err := s.Begin(checkpoint.Begin{Key: f.key, InputHash: f.hash, Input: f.input})
	if errors.Is(err, checkpoint.ErrTooLarge) {
		err = turn.Problemf(turn.TooLarge, "%v", err) // it says which limit, and no more
	}
	if err != nil {
		e.refuse(f, err)
		return
	}
	e.holdAt(f.request, turn.PointBegun, t.ID)
	e.runTurn(f, s, t, run)
}

// refuse answers a flight that got no further than err.
func (e *engine) refuse(f *flight, err error) {
	if !errors.Is(err, errDropped) {
		err = e.problem(f.session, "", err)
	}
	e.answer(f, turn.Result{}, err)
}

// known finds the turn that a request asks for again: by its key, or, without
// one, as the repetition of a last turn whose reply was not delivered.
func known(s checkpoint.Session, req request) (checkpoint.Turn, bool) {
	if req.key != "" {
		t, ok := s.ByKey(req.key)
		// The lock is held, so a turn that failed or never ended does not run
		// anywhere: it runs again. With another input it is still a misused key.
		again := t.State == turn.Failed || t.State == turn.Running
		return t, ok && (!again || t.InputHash != req.hash)
	}
	t, ok := s.Last()
	return t, ok && t.Key == "" && t.State == turn.Committed && !t.Delivered && t.InputHash == req.hash
}

// answerKnown answers with a turn that is in the store already. It reports
// whether that was its reply, and the client got it while the session was held.
func (e *engine) answerKnown(f *flight, t checkpoint.Turn) bool {
	var err error
	switch {
	case t.InputHash != f.hash:
		err = keyReused(t.ID)
	case t.State == turn.Parked:
		err = &turn.Problem{Code: turn.NeedsDecision, Detail: t.Reason, TurnID: t.ID}
	}
	if err != nil {
		e.answer(f, turn.Result{}, err)
		return false
	}
	return e.deliver(f, resultOf(t, true))
}

// readOnlyReplay looks for a committed turn without the lock when the lock
// cannot be had because nothing can be written: replays stay up.
func (e *engine) readOnlyReplay(f *flight, err error) (checkpoint.Turn, bool) {
	if f.key == "" || !errors.Is(err, checkpoint.ErrReadOnly) {
		return checkpoint.Turn{}, false
	}
	view, err := e.store.View(f.waitCx, f.session)
	if err != nil {
		return checkpoint.Turn{}, false
	}
	for _, t := range slices.Backward(view.Turns) {
		if t.Key == f.key && t.State == turn.Committed {
			return t, true
		}
	}
	return checkpoint.Turn{}, false
}

// deliver answers a flight, and writes the answer to its owner. It reports
// whether that was written whole within deliveryWait; after that the session is
// let go of, and only the writing goes on.
func (e *engine) deliver(f *flight, result turn.Result) bool {
	if !e.answer(f, result, nil) {
		return false
	}
	slow := time.AfterFunc(deliveryWait, f.land)
	whole := f.client.deliver(result)
	inTime := slow.Stop()
	if whole && !inTime && f.key == "" {
		e.deliveredLate(f, result.TurnID)
	}
	return whole && inTime
}

// deliveredLate notes that a slow client has its whole reply, unless the session
// went on or is busy: the same input again is then a new turn.
func (e *engine) deliveredLate(f *flight, turnID string) {
	ctx, cancel := context.WithTimeout(e.ctx, deliveryWait)
	defer cancel()
	s, err := e.store.Acquire(ctx, f.session)
	if err != nil {
		e.note(f, "delivered", err)
		return
	}
	defer s.Release()
	if t, ok := s.Last(); ok && t.ID == turnID {
		e.note(f, "delivered", s.Delivered())
	}
}

// note logs a failed write whose loss the design allows for.
func (e *engine) note(f *flight, what string, err error) {
	if err != nil {
		e.log.Warn("could not be noted", "what", what, "session", f.session, "error", err)
	}
}

func resultOf(t checkpoint.Turn, replayed bool) turn.Result {
	return turn.Result{SessionID: t.Session, Turn: t.Number, TurnID: t.ID, Reply: t.Reply, Replayed: replayed}
}
