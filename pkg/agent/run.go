package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// runTurn takes a begun turn to its end: committed, failed, or released. It
// returns when the agent's code has.
func (e *engine) runTurn(f *flight, s checkpoint.Session, t checkpoint.Turn, run execution) {
	ctx, cancel := context.WithTimeoutCause(e.ctx, e.timeout, ErrTurnTimeout)
	defer cancel()
	returned := watchRun(ctx, func(cause error) {
		e.end(f, s, t, cause)
		e.sendAway(f)
	})
	out := outcome{err: errGoexit}
	defer func() {
		if !returned() {
			e.logPanic(f, t, out.err) // its late reply is dropped
			return
		}
		e.conclude(ctx, f, s, t, out)
	}()
	out = invoke(ctx, run)
}

// conclude ends a turn whose run returned in time.
func (e *engine) conclude(ctx context.Context, f *flight, s checkpoint.Session, t checkpoint.Turn, out outcome) {
	if out.err != nil {
		e.end(f, s, t, e.blame(ctx, f, t, out.err))
		return
	}
	e.holdAt(f.request, turn.PointReturned, t.ID)
	out.commit.At = func(p turn.Point) { e.holdAt(f.request, p, t.ID) }
	committed, err := s.Commit(out.commit)
	if err != nil {
		e.abandonCommit(f, s, t, err)
		return
	}
	if out.seen != nil {
		s.Attach(out.seen, out.seen.bytes())
	}
	whole := e.deliver(f, resultOf(committed, false))
	e.holdAt(f.request, turn.PointReplied, t.ID)
	if whole {
		e.note(f, "delivered", s.Delivered())
	}
}

// outcome is how runTurn ended.
type outcome struct {
	commit checkpoint.Commit
	seen   *view // for the next turn, or nil
	err    error
}

// panicError is a panic of the agent's code.
type panicError struct {
	value any
	stack []string // one line a call, the innermost first
}

func (e *panicError) Error() string { return "the agent's code panicked; its log has the stack" }

var errGoexit = errors.New("the agent's code ended its goroutine (runtime.Goexit) instead of returning")

// invoke runs the agent's code. A panic of it is an error.
func invoke(ctx context.Context, run execution) (out outcome) {
	defer func() {
		if v := recover(); v != nil {
			out = outcome{err: &panicError{v, panicStack()}}
		}
	}()
	commit, seen, err := run(ctx)
	return outcome{commit, seen, err}
}

// watchRun calls overrun once, with ctx's cause, when ctx has ended and the run
// has not returned; one that a drain cancelled gets a moment to do so. The run
// says with returned that it has, and hears whether it was in time. Overrun has
// returned then.
func watchRun(ctx context.Context, overrun func(cause error)) (returned func() bool) {
	var mu sync.Mutex
	back, late := make(chan struct{}), false
	stop := context.AfterFunc(ctx, func() {
		grace := time.Duration(0)
		if errors.Is(context.Cause(ctx), ErrDraining) {
			grace = settleTime
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-back:
			return
		case <-timer.C:
		}
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-back: // while this waited for the mutex
		default:
			late = true
			overrun(context.Cause(ctx))
		}
	})
	return func() bool {
		stop()
		mu.Lock()
		defer mu.Unlock()
		close(back)
		return !late
	}
}

// panicStack is the stack of the panic that a deferred function is recovering
// from: the calls below the panic, without the runtime's and this package's own.
func panicStack() []string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var calls []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function == "" || strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "github.com/flisk-go/flisk/pkg/agent.") {
			continue
		}
		calls = append(calls, fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line))
	}
	return calls
}

// blame says why a run that returned an error failed: because its context had
// ended, or by itself.
func (e *engine) blame(ctx context.Context, f *flight, t checkpoint.Turn, err error) error {
	if e.logPanic(f, t, err) {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// logPanic logs err if it is a panic of the agent's code, and reports whether it is.
func (e *engine) logPanic(f *flight, t checkpoint.Turn, err error) bool {
	p, ok := errors.AsType[*panicError](err)
	if ok {
		e.log.Error("the agent's code panicked", "session", f.session, "turn", t.ID, "panic", fmt.Sprint(p.value))
		for _, call := range p.stack {
			e.log.Error("  at " + call) // a record each: a stack in one is unreadable
		}
	}
	return ok
}

// end gives a begun turn up without committing it. A turn that a drain cut
// short is not recorded as failed: the agent's code did nothing wrong.
func (e *engine) end(f *flight, s checkpoint.Session, t checkpoint.Turn, err error) {
	var p *turn.Problem
	level, what := slog.LevelWarn, "turn failed"
	switch {
	case errors.Is(err, ErrDraining):
		level, what = slog.LevelInfo, "turn given back"
		p = draining()
	case errors.Is(err, ErrTurnTimeout):
		p = turn.Problemf(turn.TurnTimeout, "it ran for %v", e.timeout)
		e.note(f, "failed", s.Fail("timeout"))
	default:
		p = turn.Problemf(turn.RunFailed, "%s", clip(err.Error()))
		e.note(f, "failed", s.Fail(p.Detail))
	}
	p.TurnID = t.ID
	e.log.Log(e.ctx, level, what, "session", f.session, "turn", t.ID, "problem", string(p.Code), "detail", p.Detail)
	e.answer(f, turn.Result{}, p)
}

// abandonCommit answers for a commit that failed. Where the store can still
// write, the turn is ended, so that nobody takes it for a running one.
func (e *engine) abandonCommit(f *flight, s checkpoint.Session, t checkpoint.Turn, err error) {
	p := e.problem(f.session, t.ID, err)
	if errors.Is(err, checkpoint.ErrTooLarge) || errors.Is(err, checkpoint.ErrNoSpace) {
		e.note(f, "failed", s.Fail(string(p.Code)))
	}
	e.answer(f, turn.Result{}, p)
}

// crashed answers for a flight whose goroutine is ended by the agent's code, or by
// a panic outside of it: nothing returns to the owner any more.
func (e *engine) crashed(f *flight) {
	e.mu.Lock()
	answered := f.answered
	e.mu.Unlock()
	if !answered {
		e.answer(f, turn.Result{}, turn.Problemf(turn.RunFailed, "%v", errGoexit))
	}
	e.sendAway(f)
}

// load decodes the checkpoint for the agent's code. A decoder of the state type
// is the agent's code too, and may panic.
func (e *engine) load(s checkpoint.Session, cp checkpoint.Checkpoint, req request) (run execution, err error) {
	defer func() {
		if v := recover(); v != nil {
			e.log.Error("decoding the state panicked", "session", req.session, "panic", fmt.Sprint(v))
			for _, call := range panicStack() {
				e.log.Error("  at " + call)
			}
			err = turn.Problemf(turn.StateMismatch, "decoding it panicked; the agent's log has the stack")
		}
	}()
	last, _ := s.Attached().(*view)
	s.Attach(nil, 0) // it is this turn's now, until it has gone well
	run, err = e.program(cp, last, req.input)
	if err != nil {
		p := turn.Problemf(turn.StateMismatch, "%s", clip(err.Error()))
		e.log.Warn("turn failed", "session", req.session, "problem", string(p.Code), "detail", p.Detail)
		return nil, p
	}
	return run, nil
}
