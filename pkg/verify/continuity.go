package verify

import (
	"context"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// continuity is the check that everybody does by hand first: two turns, a
// restart, a third turn.
func continuity() Check {
	return Check{
		Name:        "continuity",
		Promise:     "a conversation goes on after a restart",
		How:         "two turns, restart, a third turn that builds on both; compared with three turns without a restart",
		Turns:       3,
		Undisturbed: 3,
		Again:       3 + 3,
		run: func(ctx context.Context, s *scene) error {
			if _, err := s.twin(ctx); err != nil {
				return err
			}
			l := s.session()
			before, change, err := s.twoTurnsAndRestart(ctx, l)
			if err != nil {
				return err
			}
			third, after, err := s.third(ctx, l)
			if err != nil {
				return err
			}
			s.saw("turn 3 in process %d, turns 1 and 2 in process %d", change.After.PID, change.Before.PID)
			what, kept := grown(before, after, l.lastKey())
			if what != "" {
				return s.broke(Lost, l, "the turn after the restart changed the checkpoint: %s", what)
			}
			err = s.likeTwin(ctx, sample{ledger: l, view: after}, kept, "a restart", func(ctx context.Context) (sample, error) {
				l := s.session()
				if _, _, err := s.twoTurnsAndRestart(ctx, l); err != nil {
					return sample{}, err
				}
				_, after, err := s.third(ctx, l)
				return sample{ledger: l, view: after}, err
			})
			if err != nil {
				return err
			}
			s.saw("it said (not judged): %s", turn.Text(third.Reply))
			return nil
		},
	}
}

// twoTurnsAndRestart returns the session as it was before the restart, and is
// after it.
func (s *scene) twoTurnsAndRestart(ctx context.Context, l *ledger) (checkpoint.View, Change, error) {
	for range 2 {
		if _, err := s.turn(ctx, l); err != nil {
			return checkpoint.View{}, Change{}, err
		}
	}
	before, err := s.look(ctx, l)
	if err != nil {
		return before, Change{}, err
	}
	change, err := s.restart(ctx)
	if err != nil {
		return before, change, err
	}
	return before, change, s.unchanged(ctx, l, before, "the restart")
}

// third sends the third turn of a session.
func (s *scene) third(ctx context.Context, l *ledger) (turn.Result, checkpoint.View, error) {
	third, err := s.turn(ctx, l)
	if err != nil {
		return third, checkpoint.View{}, err
	}
	after, err := s.look(ctx, l)
	if err == nil && (after.Turn != 3 || third.Turn != 3) {
		err = s.broke(Lost, l, "the third turn was answered as turn %d, and the checkpoint is at turn %d", third.Turn, after.Turn)
	}
	return third, after, err
}
