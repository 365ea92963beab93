package verify

import (
	"context"

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
		run: func(ctx context.Context, s *scene) error {
			if _, err := s.twin(ctx, 0); err != nil {
				return err
			}
			l := s.session()
			for range 2 {
				if _, err := s.turn(ctx, l); err != nil {
					return err
				}
			}
			before, err := s.look(ctx, l)
			if err != nil {
				return err
			}
			change, err := s.restart(ctx)
			if err != nil {
				return err
			}
			if err := s.unchanged(ctx, l, before, "the restart"); err != nil {
				return err
			}
			third, err := s.turn(ctx, l)
			if err != nil {
				return err
			}
			after, err := s.look(ctx, l)
			if err != nil {
				return err
			}
			if after.Turn != 3 || third.Turn != 3 {
				return s.broke(Lost, l, "the third turn was answered as turn %d, and the checkpoint is at turn %d", third.Turn, after.Turn)
			}
			s.saw("turn 3 in process %d, turns 1 and 2 in process %d", change.After.PID, change.Before.PID)
			what, kept := grown(before, after, l.lastKey())
			if what != "" {
				return s.broke(Lost, l, "the turn after the restart changed the checkpoint: %s", what)
			}
			if err := s.likeTwin(ctx, l, after, kept, "a restart"); err != nil {
				return err
			}
			s.saw("it said: %s", turn.Text(third.Reply))
			return nil
		},
	}
}
