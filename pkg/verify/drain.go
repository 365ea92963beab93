package verify

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// drainTurns are the one that runs and the one that waits.
const drainTurns = 2

// drainSlack is what a process may take to end beyond the budget of its drain.
const drainSlack = 3 * time.Second

// drain terminates the agent while it has one turn and another one of the same
// session waits behind it. The first is held before the agent's code runs, so
// that an end of its context would reach that code.
func drain() Check {
	return Check{
		Name:    "drain",
		Promise: "SIGTERM lets accepted turns finish",
		How:     "SIGTERM while a turn is held and another one of its session waits",
		Turns:   drainTurns,
		run: func(ctx context.Context, s *scene) error {
			early := errors.New("the turn that was to wait had no place in the queue yet when SIGTERM came")
			if both, err := s.terminatedAtWork(ctx); both || err != nil {
				return err
			}
			if err := s.allow(drainTurns); err != nil {
				return fmt.Errorf("%w: %w", early, err)
			}
			if both, err := s.terminatedAtWork(ctx); both || err != nil {
				return err
			}
			return fmt.Errorf("%w, twice", early)
		},
	}
}

// terminatedAtWork reports whether the process had both turns when SIGTERM came.
// That the second was read is seen before; that it has its place in the queue, a
// moment later, the agent says when its drain begins.
func (s *scene) terminatedAtWork(ctx context.Context) (both bool, err error) {
	l := s.session()
	running, err := s.hold(ctx, l, turn.PointBegun, s.Hold)
	if err != nil {
		return false, err
	}
	stopping, err := s.stops(ctx)
	if err != nil {
		return false, err
	}
	waiting, err := s.pass(ctx, l, turn.PointAccepted)
	if err != nil {
		return false, err
	}
	began := time.Now()
	change, ended := s.terminate(ctx, l)
	if errors.Is(ended, errBroken) {
		return false, ended
	}
	first, err := s.finished(ctx, running, stopping, "the turn that SIGTERM met")
	if err != nil {
		return false, err
	}
	took := running.at.Sub(began)
	second, err := s.queued(ctx, waiting, stopping, "the turn that waited when SIGTERM came")
	if err != nil {
		return false, err
	}
	if ended != nil {
		return false, ended
	}
	if _, err := s.look(ctx, l); err != nil {
		return false, err
	}
	if change.Exit != (Exit{}) {
		return false, s.broke(Failed, l, "the agent's process ended with %s after its drain", change.Exit)
	}
	if err := s.mustAnswer(l, first); err != nil {
		return false, err
	}
	refused := s.busy(second)
	if !refused {
		if err := s.mustAnswer(l, second); err != nil {
			return false, err
		}
		if second.result.Turn != first.result.Turn+1 {
			return false, s.broke(Forked, l, "the turn that waited behind turn %d was answered as turn %d", first.result.Turn, second.result.Turn)
		}
		if err := stopping.wait(ctx); err != nil {
			return false, err
		}
		if stopping.inFlight < 2 {
			return false, nil
		}
	}
	s.saw("200 and saved as turn %d, %s after SIGTERM", first.result.Turn, span(took))
	switch {
	case second.problem == turn.SessionBusy:
		s.saw("whether the one that waited behind it is finished, too, could not be checked: it waited for as long as a turn may take, %s", span(s.TurnTimeout))
	case refused:
		s.saw("the turn behind it was refused, because this agent does not queue")
	default:
		s.saw("the one that waited behind it likewise, as turn %d", second.result.Turn)
	}
	s.saw("process %d ended with exit code 0", change.Before.PID)
	return true, s.ready(ctx)
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
