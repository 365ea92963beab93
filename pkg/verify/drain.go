package verify

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// drainSlack is what a process may take to end beyond the budget of its drain.
const drainSlack = 3 * time.Second

// queueTime is what a request takes from being read to its place in the queue,
// and much more.
const queueTime = 100 * time.Millisecond

// drain terminates the agent while it has one turn and another one of the same
// session waits behind it. The first is held before the agent's code runs, so
// that an end of its context would reach that code.
func drain() Check {
	return Check{
		Name:    "drain",
		Promise: "SIGTERM lets accepted turns finish",
		How:     "SIGTERM while a turn is held and another one of its session waits",
		Turns:   3,
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			if _, err := s.turn(ctx, l); err != nil {
				return err
			}
			running, err := s.hold(ctx, l, turn.PointBegun, s.Hold)
			if err != nil {
				return err
			}
			// A hold for no time says that the request was read; nothing says that it
			// has its place in the queue.
			waiting, err := s.hold(ctx, l, turn.PointAccepted, time.Millisecond)
			if err == nil {
				err = pause(ctx, queueTime)
			}
			if err != nil {
				return err
			}
			began := time.Now()
			change, ended := s.terminate(ctx, l)
			if errors.Is(ended, errBroken) {
				return ended
			}
			first, err := s.finished(ctx, running, began, "the turn that SIGTERM met")
			if err != nil {
				return err
			}
			took := time.Since(began)
			second, err := s.finished(ctx, waiting, began, "the turn that waited when SIGTERM came")
			if err != nil {
				return err
			}
			if ended != nil {
				return ended
			}
			if _, err := s.look(ctx, l); err != nil {
				return err
			}
			if change.Exit.Signal != 0 || change.Exit.Code != 0 {
				return s.broke(Failed, l, "the agent's process ended with %s after its drain", change.Exit)
			}
			if err := s.mustAnswer(l, first); err != nil {
				return err
			}
			s.saw("200 and saved as turn %d, %s after SIGTERM", first.result.Turn, span(took))
			if busy(second) {
				s.saw("the turn behind it was refused, because this agent does not queue")
			} else {
				if err := s.mustAnswer(l, second); err != nil {
					return err
				}
				if second.result.Turn != first.result.Turn+1 {
					return s.broke(Forked, l, "the turn that waited behind turn %d was answered as turn %d", first.result.Turn, second.result.Turn)
				}
				s.saw("the one that waited behind it likewise, as turn %d", second.result.Turn)
			}
			s.saw("process %d ended with exit code 0", change.Before.PID)
			return s.ready(ctx)
		},
	}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finished is the answer to a turn that a process had when its drain began. One
// that was cut is broken, unless the drain had taken as long as it may.
func (s *scene) finished(ctx context.Context, f *flight, began time.Time, what string) (answer, error) {
	got, over, err := f.end(ctx, endTimeout)
	switch {
	case err != nil:
		return got, err
	case !over:
		return got, s.broke(Failed, f.ledger, "%s was not answered", what)
	case got.ok(), got.failedItself(), busy(got):
		return got, nil
	case f.at.Sub(began) >= s.Drain:
		return got, s.tooSlow(what)
	}
	return got, s.broke(Failed, f.ledger, "%s was cut: %s", what, got)
}

// tooSlow says that a turn was cut by a drain that had waited as long as it may.
func (s *scene) tooSlow(what string) error {
	return fmt.Errorf("%s was still at work after the %s that a drain waits here; a faster stand-in for the model, set in verify.env, can be checked", what, span(s.Drain))
}

// terminate sends SIGTERM and waits for the end that it asks for.
func (s *scene) terminate(ctx context.Context, l *ledger) (Change, error) {
	within, cancel := context.WithTimeout(ctx, s.Drain+drainSlack)
	defer cancel()
	change, err := s.target.Signal(within, syscall.SIGTERM)
	switch {
	case err == nil:
		return change, nil
	case errors.Is(err, ErrStillRuns) && ctx.Err() == nil:
		return change, s.broke(NotKilled, l, "the agent's process did not end within %s of SIGTERM", s.Drain+drainSlack)
	}
	return change, err
}
