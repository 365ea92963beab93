package verify

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// drainSlack is what a process may take to end beyond the budget of its drain.
const drainSlack = 3 * time.Second

// drain terminates the agent while it has a turn. The turn is held before the
// agent's code runs, so that an end of its context would reach that code.
func drain() Check {
	return Check{
		Name:    "drain",
		Promise: "SIGTERM lets a running turn finish",
		How:     "SIGTERM while a turn is held",
		Turns:   2,
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			if _, err := s.turn(ctx, l); err != nil {
				return err
			}
			f, err := s.hold(ctx, l, turn.PointBegun, s.Hold)
			if err != nil {
				return err
			}
			began := time.Now()
			change, ended := s.terminate(ctx, l)
			if errors.Is(ended, errBroken) {
				return ended
			}
			got, over, err := f.end(ctx, endTimeout)
			switch {
			case err != nil:
				return err
			case !over:
				return s.broke(Failed, l, "the turn that SIGTERM met was not answered")
			case !got.ok() && !got.failedItself():
				return s.broke(Failed, l, "the turn that SIGTERM met was cut: %s", got)
			case ended != nil:
				return ended
			}
			if _, err := s.look(ctx, l); err != nil {
				return err
			}
			if change.Exit.Signal != 0 || change.Exit.Code != 0 {
				return s.broke(Failed, l, "the agent's process ended with %s after its drain", change.Exit)
			}
			if err := s.mustAnswer(l, got); err != nil {
				return err
			}
			if err := s.ready(ctx); err != nil {
				return err
			}
			s.saw("200 and saved as turn %d, %s after SIGTERM", got.result.Turn, span(time.Since(began)))
			s.saw("process %d ended with exit code 0", change.Before.PID)
			return nil
		},
	}
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
