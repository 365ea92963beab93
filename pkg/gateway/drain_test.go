package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Replicas are replaced as their owner does it, while clients send turns. A
// drained one is cut without mercy: had the gateway anything left on it, that
// request would fail.
func TestC25_ReplacingReplicasUnderLoadFailsNoRequest(t *testing.T) {
	t.Parallel()
	half := bytes.Repeat([]byte("x"), 16<<10)
	answers := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		_, _ = w.Write(half)
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(half)
	}
	e := unixEndpoint(t, "bot-1-g0")
	live := listen(t, e, http.HandlerFunc(answers))
	s := serve(t, Options{}, routes(e))

	const clients, each = 8, 500
	var sent, failed atomic.Int32
	var workers sync.WaitGroup
	for c := range clients {
		workers.Go(func() {
			for i := range each {
				header := []string{turn.HeaderSession, fmt.Sprint("s", c)}
				if i%2 == 0 {
					header = nil
				}
				r, err := s.do("POST", "/api/bot/turn", `{"input":1}`, header...)
				if err != nil || r.status != http.StatusOK || len(r.body) != 2*len(half) {
					failed.Add(1)
					t.Errorf("status %d, %d bytes, %v", r.status, len(r.body), err)
				}
				sent.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()

	swaps := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			swaps++
			old := e.Replica
			e = unixEndpoint(t, fmt.Sprint("bot-1-g", swaps))
			next := listen(t, e, http.HandlerFunc(answers))
			s.SetRoutes(routes(e))
			if err := s.Drained(t.Context(), old); err != nil {
				t.Error(err)
			}
			_ = live.Close()
			live = next
		}
	}
	if failed.Load() > 0 || sent.Load() != clients*each || swaps < 10 {
		t.Errorf("%d of %d failed over %d replacements", failed.Load(), sent.Load(), swaps)
	}
	t.Logf("%d requests over %d replacements", sent.Load(), swaps)
}

func TestDrainedWaitsForTheLastByteAndClosesConnections(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	e := unixEndpoint(t, "bot-1")
	var open atomic.Int32
	ln, err := net.Listen(e.Network, e.Address)
	if err != nil {
		t.Fatal(err)
	}
	agent := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/bot/turn" {
				return
			}
			_, _ = io.WriteString(w, "first,")
			_ = http.NewResponseController(w).Flush()
			close(begun)
			<-finish
			_, _ = io.WriteString(w, "last")
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed:
				open.Add(-1)
			}
		},
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = agent.Serve(ln) }()
	t.Cleanup(func() { _ = agent.Close(); <-stopped })

	s := serve(t, Options{}, routes(e))
	answered := s.start()
	<-begun
	if r, err := s.do("GET", "/api/bot/sessions", ""); err != nil || r.status != http.StatusOK { // leaves an idle connection
		t.Fatalf("status %d, %v", r.status, err)
	}

	if err := s.Drained(t.Context(), "bot-1"); err == nil {
		t.Error("a listed replica counts as drained")
	}
	s.SetRoutes(routes(backend(t, "bot-2", say("two"))))
	if r := s.post(); r.body != "two" {
		t.Errorf("a new request got %d %q", r.status, r.body)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := s.Drained(ctx, "bot-1"); !errors.Is(err, cause) {
		t.Errorf("Drained with a request in flight: %v", err)
	}

	drained := make(chan error, 1)
	go func() { drained <- s.Drained(t.Context(), "bot-1") }()
	close(finish)
	if r := <-answered; r.body != "first,last" {
		t.Errorf("the request in flight got %q", r.body)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	eventually(t, "the agent has no connection", func() bool { return open.Load() == 0 })
	if err := s.Drained(t.Context(), "never seen"); err != nil {
		t.Error(err)
	}
}

// A table that comes and goes leaves the connections of those that stay alone.
func TestReplicaThatStaysKeepsItsConnections(t *testing.T) {
	t.Parallel()
	var dialled atomic.Int32
	e := unixEndpoint(t, "bot-1")
	ln, err := net.Listen(e.Network, e.Address)
	if err != nil {
		t.Fatal(err)
	}
	agent := &http.Server{Handler: say("ok"), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dialled.Add(1)
		}
	}}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = agent.Serve(ln) }()
	t.Cleanup(func() { _ = agent.Close(); <-stopped })

	s := serve(t, Options{}, routes(e))
	for i := range 10 {
		s.SetRoutes(routes(e, backend(t, fmt.Sprint("other-", i), say("ok"))))
		s.post()
		s.SetRoutes(routes(e))
		s.post()
	}
	if n := dialled.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestListedAgainWhileItDrains(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	slow := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			close(begun)
			<-finish
		}
	})
	s := serve(t, Options{}, routes(slow))
	answered := s.start()
	<-begun
	s.SetRoutes(routes())
	s.SetRoutes(routes(slow))
	if r, err := s.do("GET", "/api/bot/sessions", ""); err != nil || r.status != http.StatusOK {
		t.Errorf("status %d, %v", r.status, err)
	}
	s.SetRoutes(routes())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Drained(ctx, "bot-1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drained with a request in flight: %v", err)
	}
	close(finish)
	if r := <-answered; r.status != http.StatusOK {
		t.Errorf("status %d", r.status)
	}
	if err := s.Drained(t.Context(), "bot-1"); err != nil {
		t.Error(err)
	}
}
