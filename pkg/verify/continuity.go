package verify

import (
	"context"
	"fmt"

	"github.com/flisk-go/flisk/pkg/turn"
)

// continuity is the check that everybody does by hand first: two turns, a
// restart, a third turn.
func continuity() Check {
	return Check{
		Name:    "continuity",
		Promise: "a conversation goes on after a restart",
		How:     "two turns, restart, a third turn that builds on both",
		Turns:   3 + 3, // the second three only for an agent that drops old messages
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			first := s.inputs
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
			gone := missing(after.Messages, said(l, after))
			if gone > 0 {
				if err := s.compareUndisturbed(ctx, l, first, gone); err != nil {
					return err
				}
			} else {
				s.saw("%s in the checkpoint", count(len(after.Messages), "message"))
			}
			s.saw("it said: %s", turn.Text(third.Reply))
			return nil
		},
	}
}

// compareUndisturbed sends the same three turns to another session, without a
// restart. Only an agent whose own code drops old messages may lack as many.
func (s *scene) compareUndisturbed(ctx context.Context, l *ledger, first, gone int) error {
	other := s.session()
	s.inputs = first
	for range 3 {
		if _, err := s.turn(ctx, other); err != nil {
			return err
		}
	}
	view, err := s.look(ctx, other)
	if err != nil {
		return err
	}
	if usual := missing(view.Messages, said(other, view)); usual < gone {
		return s.broke(Lost, l, "%d of the 6 messages of three turns are not in the checkpoint; without a restart %d are missing", gone, usual)
	}
	s.saw("the agent's code keeps %s of three turns, with and without a restart", fmt.Sprintf("%d of 6 messages", 6-gone))
	return nil
}
