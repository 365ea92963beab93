package verify

import (
	"bytes"
	"context"

	"github.com/flisk-go/flisk/pkg/turn"
)

// replay sends a turn twice, and another one under its key.
func replay() Check {
	return Check{
		Name:    "replay",
		Promise: "a turn key stands for one turn",
		How:     "the same turn twice, then another input under its key",
		Turns:   3,
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			if err := s.ready(ctx); err != nil {
				return err
			}
			a := s.attempt(l)
			first, err := s.again(ctx, a)
			if err != nil {
				return err
			}
			second, err := s.again(ctx, a)
			if err != nil {
				return err
			}
			before, err := s.look(ctx, l)
			if err != nil {
				return err
			}
			if !second.Replayed || second.TurnID != first.TurnID {
				return s.broke(Doubled, l, "the same turn was run again, as turn %d (%s)", second.Turn, second.TurnID)
			}
			if !bytes.Equal(first.Reply, second.Reply) {
				return s.broke(Torn, l, "the reply was %s, and its replay is %s", brief(first.Reply), brief(second.Reply))
			}
			misused := &attempt{message: a.message, ledger: l}
			misused.input = s.otherInput(a.input)
			got, err := s.post(ctx, misused)
			if err != nil {
				return err
			}
			if got.problem != turn.KeyReused {
				return s.broke(Failed, l, "another input under the key of turn 1 was answered %s, and not 422 %s", got, turn.KeyReused)
			}
			if err := s.unchanged(ctx, l, before, "a misused key"); err != nil {
				return err
			}
			s.saw("sent twice: one turn, the same reply to the byte")
			s.saw("another input under the key: 422")
			return nil
		},
	}
}
