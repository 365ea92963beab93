package runtimetest

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// sighting is what one look at an agent's route found.
type sighting struct {
	at     time.Time
	status int // 0 when nobody answered
}

// pollRoute asks for an agent's readiness every 20 ms until stop is called. last
// is the newest of what it saw.
func (p *Project) pollRoute() (last func() sighting, stop func() []sighting) {
	p.T.Helper()
	ctx, cancel := context.WithCancel(p.T.Context())
	var mu sync.Mutex
	var seen []sighting
	var polling sync.WaitGroup
	polling.Go(func() {
		url := p.Setup.Stack.Gateway.URL() + turn.AgentReadyPath("bot")
		for tick := time.Tick(20 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				p.T.Error(err)
				return
			}
			status := 0
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = resp.Body.Close() // only its status counts
				status = resp.StatusCode
			}
			if ctx.Err() == nil {
				mu.Lock()
				seen = append(seen, sighting{time.Now(), status})
				mu.Unlock()
			}
		}
	})
	last = func() sighting {
		mu.Lock()
		defer mu.Unlock()
		if len(seen) == 0 {
			return sighting{}
		}
		return seen[len(seen)-1]
	}
	return last, func() []sighting {
		cancel()
		polling.Wait()
		return seen
	}
}

// A restart takes nobody's route away, and after a kill it is back a second after
// the process at the latest; never is it unknown (C25).
func testGap(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	_, stop := p.pollRoute()
	p.Restart()
	during := stop()
	for _, s := range during {
		if s.status != http.StatusOK {
			t.Errorf("during a restart the route answers %d", s.status)
		}
	}
	if len(during) == 0 {
		t.Error("nobody asked during the restart")
	}

	last, stop := p.pollRoute()
	if _, err := p.Driver().Kill(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	started := time.Now() // at the latest
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	// The turn was answered, so whoever asks from now on is, too.
	answered := time.Now()
	Eventually(t, "the route to be back", func() bool { return last().at.After(answered) && last().status == http.StatusOK })
	var gone, back time.Time
	for _, s := range stop() {
		switch s.status {
		case http.StatusOK:
			if !gone.IsZero() && back.Before(gone) {
				back = s.at
			}
		case 0, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			if gone.IsZero() {
				gone = s.at
			}
			back = time.Time{}
		default:
			t.Errorf("after a kill the route answers %d", s.status)
		}
	}
	const limit = time.Second
	if gone.IsZero() {
		t.Logf("C25: after a kill nobody saw the route gone (at most %s after the process began)", limit)
		return
	}
	late := max(0, back.Sub(started))
	t.Logf("C25: after a kill the route was gone for %d ms, and back %d ms after the process began (at most %s)", back.Sub(gone).Milliseconds(), late.Milliseconds(), limit)
	if late > limit*deadlines {
		t.Errorf("the gap was %s, %s after the process began", back.Sub(gone), late)
	}
}
