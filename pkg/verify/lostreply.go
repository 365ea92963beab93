package verify

import (
	"bytes"
	"context"

	"github.com/flisk-go/flisk/pkg/turn"
)

// lostReply asks again for turns whose reply never came: one that was committed,
// and one that was not.
func lostReply() Check {
	return Check{
		Name:    "lost-reply",
		Promise: "a turn that is sent again after a crash is stored once",
		How:     "SIGKILL after the commit and before the reply, then the same key again; SIGKILL before the commit likewise",
		Turns:   1 + 2 + 2,
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			if _, err := s.turn(ctx, l); err != nil {
				return err
			}
			if err := s.afterCommit(ctx, l); err != nil {
				return err
			}
			return s.beforeCommit(ctx, l)
		},
	}
}

func (s *scene) afterCommit(ctx context.Context, l *ledger) error {
	f, err := s.killed(ctx, l, turn.PointMarked)
	if err != nil {
		return err
	}
	if f.answer.ok() {
		return s.broke(Failed, l, "the reply left before its commit was through")
	}
	got, err := s.again(ctx, f.attempt)
	if err != nil {
		return err
	}
	view, err := s.look(ctx, l)
	if err != nil {
		return err
	}
	if !got.Replayed || got.TurnID != f.id {
		return s.broke(Doubled, l, "turn %s was committed; sent again it was run as turn %d (%s) instead of being answered from the store", f.id, got.Turn, got.TurnID)
	}
	for _, t := range committed(view) {
		if t.ID == got.TurnID && !bytes.Equal(t.Reply, got.Reply) {
			return s.broke(Torn, l, "the replay is %s, and the stored reply %s", brief(got.Reply), brief(t.Reply))
		}
	}
	s.saw("killed after the commit: the same key got the stored reply of turn %d", got.Turn)
	return nil
}

func (s *scene) beforeCommit(ctx context.Context, l *ledger) error {
	f, err := s.killed(ctx, l, turn.PointReturned)
	if err != nil {
		return err
	}
	got, err := s.again(ctx, f.attempt)
	if err != nil {
		return err
	}
	if _, err := s.look(ctx, l); err != nil {
		return err
	}
	s.saw("killed before it: the same key is turn %d, once", got.Turn)
	return nil
}

// again sends a turn once more, under its key.
func (s *scene) again(ctx context.Context, a *attempt) (turn.Result, error) {
	if err := s.ready(ctx); err != nil {
		return turn.Result{}, err
	}
	a.hold = "" // its owner, the flight, is over
	got, err := s.post(ctx, a)
	if err != nil {
		return turn.Result{}, err
	}
	return got.result, s.mustAnswer(a.ledger, got)
}
