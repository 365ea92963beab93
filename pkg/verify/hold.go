package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

const (
	holdTimeout = 2 * time.Minute  // for a turn to come to its point: the agent's code may have to run for it
	endTimeout  = 10 * time.Second // for a client to hear that its agent is dead
	logTimeout  = 3 * time.Second  // for a line to be read after what came of it
)

// flight is a turn whose request is under way.
type flight struct {
	*attempt
	id     string        // of the turn; "" before it has one
	over   chan struct{} // closed when what follows is set
	answer answer
	at     time.Time // when it came
	err    error
}

// hold sends a turn that stops at a point of its way, for a while or (0) until
// it is killed, and returns when the agent says that it is there. A hold that
// nobody saw proves nothing, so its absence ends the check.
func (s *scene) hold(ctx context.Context, l *ledger, point turn.Point, long time.Duration) (*flight, error) {
	at := fmt.Sprintf("%s:%s", s.Nonce, point)
	if long > 0 {
		at += fmt.Sprintf(":%d", long.Milliseconds())
	}
	return s.seenAt(ctx, l, point, at)
}

// pass sends a turn, and returns when the agent says that it passes a point of
// its way.
func (s *scene) pass(ctx context.Context, l *ledger, point turn.Point) (*flight, error) {
	return s.seenAt(ctx, l, point, fmt.Sprintf("%s:%s:0", s.Nonce, point))
}

func (s *scene) seenAt(ctx context.Context, l *ledger, point turn.Point, hold string) (*flight, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	a := s.attempt(l)
	a.hold = hold
	earlier, err := s.holds(ctx, l.session, point)
	if err != nil {
		return nil, err
	}
	f := s.launch(ctx, a)
	f.id, err = s.seen(ctx, f, l.session, point, earlier)
	return f, err
}

// launch sends a turn in the background.
func (s *scene) launch(ctx context.Context, a *attempt) *flight {
	f := &flight{attempt: a, over: make(chan struct{})}
	s.flights.Go(func() {
		defer close(f.over)
		f.answer, f.err = s.post(ctx, a)
		f.at = time.Now()
	})
	return f
}

// holds counts the lines of earlier holds of a session at a point.
func (s *scene) holds(ctx context.Context, session string, point turn.Point) (n int, err error) {
	err = s.target.Logs(ctx, false, func(line string) error {
		if held, _ := parseHold(line, session, point); held {
			n++
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("cannot read the agent's log: %w", err)
	}
	return n, err
}

// errSeen ends the reading of a log.
var errSeen = errors.New("seen")

// seen waits for the line of a hold, behind those of earlier ones, and returns
// the turn's id in it.
func (s *scene) seen(ctx context.Context, f *flight, session string, point turn.Point, earlier int) (id string, err error) {
	reading, cancel := context.WithTimeoutCause(ctx, holdTimeout, fmt.Errorf("the agent did not say within %s that it holds a turn at %q", holdTimeout, point))
	defer cancel()
	// A turn that was answered is not held any more, but the log may lag behind
	// the answer.
	s.flights.Go(func() {
		select {
		case <-reading.Done():
		case <-f.over:
			timer := time.NewTimer(logTimeout)
			defer timer.Stop()
			select {
			case <-timer.C:
				cancel()
			case <-reading.Done():
			}
		}
	})
	err = s.target.Logs(reading, true, func(line string) error {
		held, turnID := parseHold(line, session, point)
		if !held {
			return nil
		}
		if earlier > 0 {
			earlier--
			return nil
		}
		id = turnID
		return errSeen
	})
	switch {
	case errors.Is(err, errSeen):
		return id, nil
	case err != nil:
		return "", fmt.Errorf("cannot read the agent's log: %w", err)
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	select {
	case <-f.over:
		return "", fmt.Errorf("a turn was not held at %q: %s", point, f.answer)
	default:
		return "", context.Cause(reading)
	}
}

// parseHold reads "… msg=hold point=P session=S turn=T". Names in it have no
// spaces, so nothing is quoted.
func parseHold(line, session string, point turn.Point) (held bool, id string) {
	has := logFields(line)
	return has["msg"] == "hold" && has["point"] == string(point) && has["session"] == session, has["turn"]
}

// logFields are the fields of a line that have no spaces.
func logFields(line string) map[string]string {
	has := map[string]string{}
	for _, field := range strings.Fields(line) {
		if name, value, ok := strings.Cut(field, "="); ok {
			has[name] = strings.Trim(value, `"`)
		}
	}
	return has
}

// end waits until the client of a turn knows how it ended, for a while. It
// reports false when it does not.
func (f *flight) end(ctx context.Context, within time.Duration) (answer, bool, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-f.over:
		return f.answer, true, f.err
	case <-timer.C:
		return answer{}, false, nil
	case <-ctx.Done():
		return answer{}, false, context.Cause(ctx)
	}
}
