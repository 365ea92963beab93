package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

const (
	reloadClients = 2
	reloadTurns   = 2 // of each client, the last one in the new process
	reloadReaders = 2
	readPause     = 5 * time.Millisecond
	// reloadHold makes turns long, so that some are under way whenever the
	// gateway goes over to the new process.
	reloadHold = 400 * time.Millisecond
	// longTurn is one that the old process still has when it is told to stop:
	// longer than a gateway is waited for before that.
	longTurn = 1500 * time.Millisecond
)

// reload restarts the agent while clients use it. Two of them share a session,
// so that the old process and the new one meet in it; the old one has a long
// turn of another when its drain begins.
func reload() Check {
	return Check{
		Name:    "reload",
		Promise: "a restart under load fails no request",
		How:     "restart while clients send turns and read",
		Turns:   1 + reloadClients*reloadTurns,
		run: func(ctx context.Context, s *scene) error {
			calm, busy := s.session(), s.session()
			long, err := s.hold(ctx, calm, turn.PointBegun, longTurn)
			if err != nil {
				return err
			}
			stopping, err := s.stops(ctx)
			if err != nil {
				return err
			}
			load := &load{scene: s, restarted: make(chan struct{})}
			for range reloadClients {
				var attempts []*attempt
				for range reloadTurns {
					a := s.attempt(busy)
					a.hold = fmt.Sprintf("%s:%s:%d", s.Nonce, turn.PointReturned, reloadHold.Milliseconds())
					attempts = append(attempts, a)
				}
				load.turns.Go(func() { load.send(ctx, attempts) })
			}
			stopReading := load.read(ctx)
			change, err := s.restart(ctx)
			close(load.restarted)
			load.turns.Wait()
			stopReading()
			if err := errors.Join(err, context.Cause(ctx)); err != nil {
				return err
			}
			got, err := s.finished(ctx, long, stopping, "the turn that the old process had")
			if err != nil {
				return err
			}
			for _, c := range load.cut {
				if err := s.cut(ctx, stopping, busy, c.answer, c.at, "a turn that was sent before the restart"); err != nil {
					return err
				}
			}
			if len(load.failed) > 0 {
				return s.broke(Failed, busy, "%d of %d requests failed, the first: %s", len(load.failed), load.requests.Load(), load.failed[0])
			}
			if change.Exit != (Exit{}) {
				return s.broke(Failed, nil, "the old process ended with %s after its drain", change.Exit)
			}
			for _, a := range append(load.unwell, got) {
				if err := s.mustAnswer(calm, a); err != nil {
					return err
				}
			}
			saved := 0
			for _, l := range []*ledger{calm, busy} {
				view, err := s.look(ctx, l)
				if err != nil {
					return err
				}
				saved += view.Turn
			}
			s.saw("%d requests while process %d took over from %d: none failed", load.requests.Load()+1, change.After.PID, change.Before.PID)
			if load.refused > 0 {
				s.saw("%s refused because the session was busy", wasWere(load.refused))
			}
			s.saw("%s, one of them %s long in the old process, and up to turn %d in the new one", count(saved, "turn"), span(longTurn), load.after)
			return nil
		},
	}
}

// load is what the clients of a reload do.
type load struct {
	scene     *scene
	restarted chan struct{} // closed when the restart is over
	turns     sync.WaitGroup
	requests  atomic.Int64

	mu      sync.Mutex
	failed  []string
	unwell  []answer // the agent's code failed by itself, or it takes no such input
	cut     []cutTurn
	refused int
	after   int // the highest number of a turn that was sent after the restart
}

// cutTurn is a turn that was sent before the end of the restart, and given back.
type cutTurn struct {
	answer answer
	at     time.Time
}

func (l *load) fail(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, what)
}

// send sends turns, the last one after the restart.
func (l *load) send(ctx context.Context, attempts []*attempt) {
	for i, a := range attempts {
		last := i == len(attempts)-1
		if last {
			select {
			case <-l.restarted:
			case <-ctx.Done():
				return
			}
		}
		got, err := l.scene.post(ctx, a)
		if ctx.Err() != nil {
			return
		}
		l.requests.Add(1)
		switch {
		case err != nil:
			l.fail(err.Error())
		case got.failedItself(l.scene.TurnTimeout), got.problem == turn.BadRequest, got.problem == turn.TooLarge: // because of what it was sent
			l.mu.Lock()
			l.unwell = append(l.unwell, got)
			l.mu.Unlock()
		case got.problem == turn.Draining && !last:
			l.mu.Lock()
			l.cut = append(l.cut, cutTurn{got, time.Now()})
			l.mu.Unlock()
		case got.ok() && last:
			l.mu.Lock()
			l.after = max(l.after, got.result.Turn)
			l.mu.Unlock()
		case l.scene.busy(got): // for which on_busy: reject asks, or turns that take nearly all their time
			l.mu.Lock()
			l.refused++
			l.mu.Unlock()
		case !got.ok():
			l.fail("a turn was answered " + got.String())
		}
	}
}

// read asks again and again for the list of sessions until the returned function
// is called.
func (l *load) read(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	url := l.scene.target.URL() + turn.SessionsPath(l.scene.Agent)
	var readers sync.WaitGroup
	for range reloadReaders {
		readers.Go(func() {
			tick := time.NewTicker(readPause)
			defer tick.Stop()
			for {
				status, _, err := l.scene.client.get(ctx, url)
				if ctx.Err() != nil {
					return
				}
				l.requests.Add(1)
				if err != nil || status != http.StatusOK {
					l.fail(fmt.Sprintf("GET %s was answered %d, %v", url, status, err))
				}
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
			}
		})
	}
	return func() {
		cancel()
		readers.Wait()
	}
}
