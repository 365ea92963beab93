package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// crash kills the agent at every named point of a turn. The session then holds
// exactly the turns that were answered, as they were, and the one in flight whole
// or not at all.
func crash() Check {
	return Check{
		Name:    "crash",
		Promise: "SIGKILL loses no answered turn and tears none",
		How:     "SIGKILL at every point of a turn; compared with the session before, and with one without a kill",
		Turns:   killedTurns(),
		// The kills before the commit leave no turn.
		Undisturbed: 5,
		Again:       5 + killedTurns(),
		run: func(ctx context.Context, s *scene) error {
			if _, err := s.twin(ctx); err != nil {
				return err
			}
			own, kept, err := s.killedEverywhere(ctx)
			if err != nil {
				return err
			}
			points, saved := len(turn.Points()), own.view.Turn-1
			s.saw("%d kills at %d points, each by signal 9", points, points)
			s.saw("%d of the %d turns in flight were saved whole, %d not at all", saved, points, points-saved)
			err = s.likeTwin(ctx, own, kept, "a kill", func(ctx context.Context) (sample, error) {
				again, _, err := s.killedEverywhere(ctx)
				return again, err
			})
			if err != nil {
				return err
			}
			s.saw("ready again within %s", span(time.Duration(s.result.Gap)*time.Millisecond))
			return nil
		},
	}
}

// killedTurns is how many turns killedEverywhere sends.
func killedTurns() int { return 1 + len(turn.Points()) }

// killedEverywhere makes a session, and kills the agent at each point of a turn
// of it. It also returns whether every message stayed as it was. What a kill at
// one point left, the turn for the next one begins with.
func (s *scene) killedEverywhere(ctx context.Context) (own sample, kept bool, err error) {
	l := s.session()
	if _, err := s.turn(ctx, l); err != nil {
		return own, false, err
	}
	view, err := s.look(ctx, l)
	if err != nil {
		return own, false, err
	}
	kept = true
	for _, point := range turn.Points() {
		after, same, err := s.crashAt(ctx, l, view, point)
		if err != nil {
			return own, false, atPoint(err, point)
		}
		view, kept = after, kept && same
	}
	return sample{ledger: l, view: view}, kept, nil
}

// atPoint names the point at which a check could not go on.
func atPoint(err error, point turn.Point) error {
	if err == errBroken {
		return err
	}
	return fmt.Errorf("at %q: %w", point, err)
}

// crashAt kills the agent at one point of a turn. It returns the session as it
// is then, and whether every message is as it was before.
func (s *scene) crashAt(ctx context.Context, l *ledger, before checkpoint.View, point turn.Point) (after checkpoint.View, kept bool, err error) {
	found := len(s.result.Broken)
	defer func() {
		for i := range s.result.Broken[found:] {
			f := &s.result.Broken[found+i]
			f.What = fmt.Sprintf("killed at %q: %s", point, f.What)
		}
	}()
	f, err := s.killed(ctx, l, point)
	if err != nil {
		return after, false, err
	}
	return s.survived(ctx, l, before, f)
}

// survived reads a session after a kill that met a turn, and compares it with
// what it was before that turn.
func (s *scene) survived(ctx context.Context, l *ledger, before checkpoint.View, f *flight) (after checkpoint.View, kept bool, err error) {
	if err := s.ready(ctx); err != nil {
		return after, false, err
	}
	if after, err = s.settled(ctx, l, f); err != nil {
		return after, false, err
	}
	what, kept := grown(before, after, f.key)
	if what != "" {
		return after, false, s.broke(Lost, l, "the kill changed the checkpoint: %s", what)
	}
	return after, kept, nil
}

// killed holds a turn at a point, kills the agent there, and sees to it that the
// turn's client knows.
func (s *scene) killed(ctx context.Context, l *ledger, point turn.Point) (*flight, error) {
	f, err := s.hold(ctx, l, point, 0)
	if err != nil {
		return nil, err
	}
	if _, err := s.kill(ctx, l); err != nil {
		return nil, err
	}
	_, over, err := f.end(ctx, endTimeout)
	if err == nil && !over {
		err = s.broke(NotKilled, l, "the kill did not kill: the turn that was in the dead process still waits for its answer")
	}
	return f, err
}

// settled reads a session whose last turn was in flight. The agent is asked
// first: its answer is what becomes of the turn, for good, and the volume must
// agree with it.
func (s *scene) settled(ctx context.Context, l *ledger, f *flight) (checkpoint.View, error) {
	var said turn.Status
	if f.id != "" {
		var err error
		if said, err = s.client.settle(ctx, s.target.URL(), f.id); err != nil {
			return checkpoint.View{}, err
		}
	}
	view, err := s.look(ctx, l)
	if err != nil || f.id == "" {
		return view, err
	}
	if is := savedAs(view, f.key) > 0; is != (said.State == turn.Committed) {
		return view, s.broke(Torn, l, "the agent says that the turn in flight is %s, and the checkpoint holds it: %t", said.State, is)
	}
	return view, nil
}

// savedAs is the number of the turn that was committed under a key; 0 when none
// was.
func savedAs(view checkpoint.View, key string) int {
	for _, t := range committed(view) {
		if t.Key == key {
			return t.Number
		}
	}
	return 0
}
