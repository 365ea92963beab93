package verify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// stopping is the beginning of a drain, as the agent tells of it.
type stopping struct {
	told     chan struct{} // closed when what follows is set
	at       time.Time     // when its line was read
	inFlight int           // turns that the process had, running or in a queue
	err      error
}

// logLag is how much later than it was written a line may be read.
const logLag = 500 * time.Millisecond

// errNotStopping says that the line did not come.
var errNotStopping = errors.New("the agent did not say that its drain began")

// stops waits in the background for the agent's word that its drain begins. It
// must be called before the process is told to stop, and ends with ctx.
func (s *scene) stops(ctx context.Context) (*stopping, error) {
	earlier := 0
	err := s.target.Logs(ctx, false, func(line string) error {
		if _, ok := parseStopping(line); ok {
			earlier++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the agent's log: %w", err)
	}
	w := &stopping{told: make(chan struct{})}
	s.flights.Go(func() {
		defer close(w.told)
		err := s.target.Logs(ctx, true, func(line string) error {
			n, ok := parseStopping(line)
			if !ok {
				return nil
			}
			if earlier > 0 {
				earlier--
				return nil
			}
			w.at, w.inFlight = time.Now(), n
			return errSeen
		})
		switch {
		case errors.Is(err, errSeen):
		case err != nil:
			w.err = fmt.Errorf("cannot read the agent's log: %w", err)
		default:
			w.err = errNotStopping
		}
	})
	return w, nil
}

// wait waits for the line of a process that has ended.
func (w *stopping) wait(ctx context.Context) error {
	timer := time.NewTimer(logTimeout)
	defer timer.Stop()
	select {
	case <-w.told:
		return w.err
	case <-timer.C:
		return errNotStopping
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// parseStopping reads "… msg=draining in_flight=N".
func parseStopping(line string) (inFlight int, ok bool) {
	has := logFields(line)
	if has["msg"] != "draining" {
		return 0, false
	}
	n, err := strconv.Atoi(has["in_flight"])
	return n, err == nil
}

// cut judges a turn that a process had when its drain began, and that it did not
// answer: that is broken, unless the drain had taken as long as it may.
func (s *scene) cut(ctx context.Context, w *stopping, l *ledger, got answer, at time.Time, what string) error {
	err := w.wait(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && at.Sub(w.at) >= s.Drain-logLag:
		return s.tooSlow(what)
	}
	return s.broke(Failed, l, "%s was cut: %s", what, got)
}

// tooSlow says that a turn was cut by a drain that had waited as long as it may.
func (s *scene) tooSlow(what string) error {
	return fmt.Errorf("%s was still at work after the %s that a drain waits here; a faster stand-in for the model, set in verify.env, can be checked", what, span(s.Drain))
}

// finished is the answer to a turn that a process had when its drain began, and
// that had begun.
func (s *scene) finished(ctx context.Context, f *flight, w *stopping, what string) (answer, error) {
	got, over, err := f.end(ctx, endTimeout)
	switch {
	case err != nil:
		return got, err
	case !over:
		return got, s.broke(Failed, f.ledger, "%s was not answered", what)
	case got.ok(), got.failedItself(s.TurnTimeout):
		return got, nil
	}
	return got, s.cut(ctx, w, f.ledger, got, f.at, what)
}

// queued is finished for a turn that waited for its session: an agent that does
// not queue refuses it, and every one does after the time that a turn may take.
func (s *scene) queued(ctx context.Context, f *flight, w *stopping, what string) (answer, error) {
	if got, over, err := f.end(ctx, endTimeout); over && err == nil && s.busy(got) {
		return got, nil
	}
	return s.finished(ctx, f, w, what)
}
