package verify

import (
	"bytes"
	"context"

	"github.com/flisk-go/flisk/pkg/turn"
)

// replay sends a turn again after a later one, another input under its key, it
// again in a new process, and it in another session.
func replay() Check {
	return Check{
		Name:    "replay",
		Promise: "a turn key stands for one turn of one session",
		How:     "turn 1 again after turn 2, another input under its key, it again after SIGKILL, and under its key in another session",
		Turns:   6,
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			a := s.attempt(l)
			first, err := s.again(ctx, a)
			if err != nil {
				return err
			}
			if _, err := s.turn(ctx, l); err != nil {
				return err
			}
			if err := s.replayed(ctx, a, first, "turn 1, asked for after turn 2,"); err != nil {
				return err
			}
			if err := s.misused(ctx, a); err != nil {
				return err
			}
			if _, err := s.kill(ctx, l); err != nil {
				return err
			}
			if err := s.replayed(ctx, a, first, "turn 1, asked for in a new process,"); err != nil {
				return err
			}
			s.saw("asked for after turn 2, and in a new process: the reply of turn 1, to the byte, and no new turn")
			s.saw("another input under the key: 422")
			return s.elsewhere(ctx, a)
		},
	}
}

// replayed sends a turn again that was answered before.
func (s *scene) replayed(ctx context.Context, a *attempt, first answer, what string) error {
	l := a.ledger
	before, err := s.look(ctx, l)
	if err != nil {
		return err
	}
	again, err := s.again(ctx, a)
	if err != nil {
		return err
	}
	got, was := again.result, first.result
	if !got.Replayed || got.TurnID != was.TurnID {
		return s.broke(Doubled, l, "%s was run again, as turn %d (%s)", what, got.Turn, got.TurnID)
	}
	if !bytes.Equal(was.Reply, got.Reply) {
		return s.broke(Torn, l, "the reply was %s; %s was answered %s", brief(was.Reply), what, brief(got.Reply))
	}
	if !again.marked {
		return s.broke(Failed, l, "%s was answered from the store without %s: %s", what, turn.HeaderReplayed, turn.ReplayedTrue)
	}
	return s.unchanged(ctx, l, before, "a replay")
}

// misused sends another input under the key of a turn.
func (s *scene) misused(ctx context.Context, a *attempt) error {
	l := a.ledger
	before, err := s.look(ctx, l)
	if err != nil {
		return err
	}
	other := &attempt{message: a.message, ledger: l}
	other.input = s.otherInput(a.input)
	got, err := s.post(ctx, other)
	if err != nil {
		return err
	}
	if got.problem != turn.KeyReused {
		return s.broke(Failed, l, "another input under the key of turn 1 was answered %s, and not 422 %s", got, turn.KeyReused)
	}
	return s.unchanged(ctx, l, before, "a misused key")
}

// elsewhere sends a turn with its key to another session, where it is another
// turn.
func (s *scene) elsewhere(ctx context.Context, a *attempt) error {
	l := s.session()
	got, err := s.again(ctx, l.add(a.key, a.input, ""))
	if err != nil {
		return err
	}
	if got.result.Replayed || got.result.SessionID != l.session {
		return s.broke(Leaked, l, "a turn of this session was answered with turn %d of session %s, which has a turn with the same key", got.result.Turn, got.result.SessionID)
	}
	if _, err := s.look(ctx, l); err != nil { // it must hold this turn and no other one
		return err
	}
	s.saw("under its key in another session: a turn of that session")
	return nil
}
