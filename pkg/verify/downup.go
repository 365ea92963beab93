package verify

import (
	"context"
	"errors"

	"github.com/flisk-go/flisk/pkg/turn"
)

// downUp stops everything and starts it again on the same volume.
func downUp() Check {
	return Check{
		Name:    "down-up",
		Promise: "conversations outlive down and up",
		How:     "a turn, down, up, another turn",
		Turns:   2,
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			if _, err := s.turn(ctx, l); err != nil {
				return err
			}
			before, err := s.look(ctx, l)
			if err != nil {
				return err
			}
			if err := s.down(ctx); err != nil {
				return err
			}
			status, _, err := s.client.get(ctx, s.target.URL()+turn.AgentReadyPath(s.Agent))
			if err == nil {
				return s.broke(NotKilled, nil, "after down something still answers (%d)", status)
			}
			if err := s.unchanged(ctx, l, before, "down"); err != nil {
				return err
			}
			if err := s.target.Up(ctx); err != nil {
				return err
			}
			if err := s.unchanged(ctx, l, before, "up"); err != nil {
				return err
			}
			got, err := s.turn(ctx, l)
			if err != nil {
				return err
			}
			if _, err := s.look(ctx, l); err != nil {
				return err
			}
			if got.Turn != 2 {
				return s.broke(Lost, l, "the second turn was answered as turn %d", got.Turn)
			}
			s.saw("the checkpoint is the same after down and after up, and turn 2 follows turn 1")
			return nil
		},
	}
}

// down stops everything, with time for a process that must be killed in the end.
func (s *scene) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Drain+changeTimeout, errors.New("down took longer than its drain and a minute"))
	defer cancel()
	return s.target.Down(ctx)
}
