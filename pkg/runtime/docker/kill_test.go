package docker

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// TestKillWaitsForOtherChanges, and tells so.
func TestKillWaitsForOtherChanges(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	d := driverOf(p)
	waits := make(chan string, 1)
	d.o.Warn = func(text string) { waits <- text }
	held, err := claim.File(d.place.lock)
	if err != nil {
		t.Fatal(err)
	}
	fake.ResetCalls()
	killed := make(chan error, 1)
	go func() {
		_, err := d.Kill(t.Context(), "bot")
		killed <- err
	}()
	if text := <-waits; !strings.Contains(text, "wait for another flisk command") {
		t.Errorf("the warning %q", text)
	}
	if ops := fake.Ops(); len(ops) > 0 {
		t.Errorf("before its turn it asked for %v", ops)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-killed; err != nil {
		t.Error(err)
	}
}

// TestKillAndRestartAtOnce: whichever is first, both do what they should.
func TestKillAndRestartAtOnce(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{})
	p.Up()
	for range 4 {
		var all sync.WaitGroup
		for what, do := range map[string]func() error{
			"kill": func() error { _, err := p.Driver().Kill(t.Context(), "bot"); return err },
			"restart": func() error {
				_, err := p.Driver().Restart(t.Context(), "bot", &runtimetest.Progress{})
				return err
			},
		} {
			all.Go(func() {
				if err := do(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		all.Wait()
	}
	if up := p.Up(); up.Changed {
		t.Errorf("an up had to mend something: %+v", up)
	}
	p.MustTurn("s1", "a")
}

// TestWhatAClientIsToldOfAKill: what "flisk turn" goes by when it sends a turn
// again, or gives it up.
func TestWhatAClientIsToldOfAKill(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		cut := make(chan *http.Response, 1)
		go func() {
			req, err := http.NewRequest(http.MethodPost, p.Observe().URL+turn.TurnPath("bot"), strings.NewReader(`{"input": "5s"}`))
			if err != nil {
				t.Error(err)
			}
			req.Header.Set("Content-Type", turn.JSONType)
			req.Header.Set(turn.HeaderSession, "s1")
			req.Header.Set(turn.HeaderKey, turn.QuoteKey("k1"))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
			}
			cut <- resp
		}()
		runtimetest.Eventually(t, "the turn to begin", func() bool { return p.Logged(1, "a turn of 5s begins") })
		before := time.Now()
		// As "docker kill": nothing brings it back.
		if _, _, err := mustEngine(t, p).signalContainer(t.Context(), only(t, p).ID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if r := p.Replica(); !r.Stuck || r.Stopped.Before(before) || r.Stopped.After(time.Now()) {
			t.Errorf("it stopped between %s and now, and is observed as %+v", before, r)
		}
		if resp := <-cut; resp != nil {
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusBadGateway || resp.Header.Get(turn.HeaderRoutes) == "" {
				t.Errorf("the turn that was cut: %s %v", resp.Status, resp.Header)
			}
		}
		p.Up()
		if r := p.Replica(); r.Stuck || !r.Stopped.IsZero() {
			t.Errorf("it runs, and is observed as %+v", r)
		}
	})
}

// only is the container of the project's one agent.
func only(t *testing.T, p *runtimetest.Project) seen {
	t.Helper()
	l, err := driverOf(p).look(t.Context())
	if err != nil || len(l.agents) != 1 {
		t.Fatalf("%d agents, %v", len(l.agents), err)
	}
	return l.agents[0]
}

// TestSignalThatWasSent: only where a signal may have been sent is the container
// watched for its end, whether anybody waits or not.
func TestSignalThatWasSent(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	e, before := mustEngine(t, p), only(t, p)
	fake.Fail(dockertest.Failure{Op: "ContainerKill"})
	began := time.Now()
	if _, err := p.Driver().Kill(t.Context(), "bot"); err == nil {
		t.Error("the engine refused, and nobody said so")
	}
	if took := time.Since(began); took >= signalTime {
		t.Errorf("nothing was sent, and it was waited for %s", took)
	}
	for what, c := range map[string]struct {
		fails dockertest.Failure
		sent  bool
	}{
		"refused":           {dockertest.Failure{Op: "ContainerKill"}, false},
		"no answer":         {dockertest.Failure{Op: "ContainerKill", After: true, Drop: true}, true},
		"no end of the end": {dockertest.Failure{Op: "ContainerWait"}, true},
	} {
		fake.Fail(c.fails)
		if _, sent, err := e.signalContainer(t.Context(), before.ID, syscall.SIGKILL); err == nil || sent != c.sent {
			t.Errorf("%s: sent: %t, %v", what, sent, err)
		}
		if err := e.startContainer(t.Context(), before.ID); err != nil {
			t.Fatal(err)
		}
	}
}
