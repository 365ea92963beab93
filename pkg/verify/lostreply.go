package verify

import (
	"bytes"
	"context"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// lostReply asks again for turns whose reply never came: one that was committed,
// and one that was not.
func lostReply() Check {
	return Check{
		Name:        "lost-reply",
		Promise:     "a turn that is sent again after a crash is stored once",
		How:         "SIGKILL after the commit and before the reply, then the same key again; SIGKILL before the commit likewise",
		Turns:       2 + 2,
		Undisturbed: 2,
		Again:       2 + 4,
		run: func(ctx context.Context, s *scene) error {
			if _, err := s.twin(ctx); err != nil {
				return err
			}
			own, kept, err := s.killedAndAskedAgain(ctx)
			if err != nil {
				return err
			}
			s.saw("killed after the commit: the same key got the stored reply of turn 1")
			s.saw("killed before it: the same key is turn %d, once", own.view.Turn)
			return s.likeTwin(ctx, own, kept, "a kill", func(ctx context.Context) (sample, error) {
				again, _, err := s.killedAndAskedAgain(ctx)
				return again, err
			})
		},
	}
}

// killedAndAskedAgain makes a session of two turns, each of which had to be sent
// twice. It also returns whether every message stayed as it was.
func (s *scene) killedAndAskedAgain(ctx context.Context) (own sample, kept bool, err error) {
	l := s.session()
	first, keptOne, err := s.afterCommit(ctx, l, checkpoint.View{})
	if err != nil {
		return own, false, err
	}
	second, keptTwo, err := s.beforeCommit(ctx, l, first)
	return sample{ledger: l, view: second}, keptOne && keptTwo, err
}

// afterCommit returns the session as it is afterwards, and whether every message
// is as it was before.
func (s *scene) afterCommit(ctx context.Context, l *ledger, before checkpoint.View) (after checkpoint.View, kept bool, err error) {
	f, err := s.killed(ctx, l, turn.PointMarked)
	if err != nil {
		return after, false, err
	}
	if f.answer.ok() {
		return after, false, s.broke(Failed, l, "the reply left before its commit was through")
	}
	dead, kept, err := s.survived(ctx, l, before, f)
	if err != nil {
		return after, false, err
	}
	answer, err := s.again(ctx, f.attempt)
	if err != nil {
		return after, false, err
	}
	if after, err = s.look(ctx, l); err != nil {
		return after, false, err
	}
	got := answer.result
	if !got.Replayed || got.TurnID != f.id {
		return after, false, s.broke(Doubled, l, "turn %s was committed; sent again it was run as turn %d (%s) instead of being answered from the store", f.id, got.Turn, got.TurnID)
	}
	for _, t := range committed(after) {
		if t.ID == got.TurnID && !bytes.Equal(t.Reply, got.Reply) {
			return after, false, s.broke(Torn, l, "the replay is %s, and the stored reply %s", brief(got.Reply), brief(t.Reply))
		}
	}
	if what := difference(dead, after); what != "" {
		return after, false, s.broke(Lost, l, "the replay changed the checkpoint: %s", what)
	}
	return after, kept, nil
}

// beforeCommit returns what afterCommit does.
func (s *scene) beforeCommit(ctx context.Context, l *ledger, before checkpoint.View) (after checkpoint.View, kept bool, err error) {
	f, err := s.killed(ctx, l, turn.PointReturned)
	if err != nil {
		return after, false, err
	}
	if before, _, err = s.survived(ctx, l, before, f); err != nil {
		return after, false, err
	}
	if _, err := s.again(ctx, f.attempt); err != nil {
		return after, false, err
	}
	if after, err = s.look(ctx, l); err != nil {
		return after, false, err
	}
	what, kept := grown(before, after, f.key)
	if what != "" {
		return after, false, s.broke(Lost, l, "the turn after the kill changed the checkpoint: %s", what)
	}
	return after, kept, nil
}

// again sends a turn once more, under its key.
func (s *scene) again(ctx context.Context, a *attempt) (answer, error) {
	if err := s.ready(ctx); err != nil {
		return answer{}, err
	}
	a.hold = "" // its owner, the flight, is over
	got, err := s.post(ctx, a)
	if err != nil {
		return got, err
	}
	return got, s.mustAnswer(a.ledger, got)
}
