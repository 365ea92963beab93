package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// crash kills the agent at every named point of a turn. The session then holds
// exactly the turns that were answered, and the one in flight whole or not at
// all.
func crash() Check {
	return Check{
		Name:    "crash",
		Promise: "SIGKILL loses no answered turn and tears none",
		How:     "SIGKILL at every point of a turn",
		Turns:   1 + len(turn.Points()) + 1,
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			if _, err := s.turn(ctx, l); err != nil {
				return err
			}
			kept := 0
			for _, point := range turn.Points() {
				saved, err := s.crashAt(ctx, l, point)
				if err != nil {
					return atPoint(err, point)
				}
				if saved {
					kept++
				}
			}
			last, err := s.turn(ctx, l)
			if err != nil {
				return err
			}
			if _, err := s.look(ctx, l); err != nil {
				return err
			}
			points := len(turn.Points())
			s.saw("%d kills at %d points, each by signal 9", points, points)
			s.saw("%d of the %d turns in flight were saved whole, %d not at all", kept, points, points-kept)
			s.saw("then turn %d", last.Turn)
			s.saw("ready again within %s", span(time.Duration(s.result.Gap)*time.Millisecond))
			return nil
		},
	}
}

// atPoint names the point at which a check could not go on.
func atPoint(err error, point turn.Point) error {
	if err == errBroken {
		return err
	}
	return fmt.Errorf("at %q: %w", point, err)
}

// crashAt kills the agent at one point of a turn, and reports whether the turn
// was saved.
func (s *scene) crashAt(ctx context.Context, l *ledger, point turn.Point) (saved bool, err error) {
	found := len(s.result.Broken)
	defer func() {
		for i := range s.result.Broken[found:] {
			f := &s.result.Broken[found+i]
			f.What = fmt.Sprintf("killed at %q: %s", point, f.What)
		}
	}()
	f, err := s.killed(ctx, l, point)
	if err != nil {
		return false, err
	}
	if err := s.ready(ctx); err != nil {
		return false, err
	}
	view, err := s.settled(ctx, l, f)
	if err != nil {
		return false, err
	}
	return savedAs(view, f.key) > 0, nil
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
