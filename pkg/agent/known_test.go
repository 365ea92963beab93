package agent

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestAFailedTurnRunsAgainUnderItsKey: a failure is no reply that a key could
// replay, neither in this process nor in the next one.
func TestAFailedTurnRunsAgainUnderItsKey(t *testing.T) {
	t.Parallel()
	dir, broken := t.TempDir(), filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	input := script{Say: "a", Fail: broken}
	runs := map[string]bool{}
	for range 2 {
		p := startAgent(t, dir)
		for range 2 {
			got := p.turn(t.Context(), "s", "k", input)
			got.want(t, 500, turn.RunFailed)
			runs[got.header.Get(turn.HeaderTurn)] = true
		}
		p.kill(t)
	}
	if n := strings.Count(sessionFile(t, dir), `"k":"failed"`); n != 4 || len(runs) != 4 {
		t.Errorf("%d failures are recorded, of %d turns", n, len(runs))
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	p := startAgent(t, dir)
	for i, replayed := range []bool{false, true} {
		got := p.turn(t.Context(), "s", "k", input)
		got.want(t, 200, "")
		if got.result.Replayed != replayed || got.text() != "1: a, first a" {
			t.Errorf("request %d: %s", i, got.body)
		}
	}
}

// TestC30_RejectWhenAnotherReplicaHasTheSession: an agent that does not queue
// does not wait for the lock of another process either.
func TestC30_RejectWhenAnotherReplicaHasTheSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := startAgent(t, dir)
	p := startAgent(t, dir, "FLISK_ON_BUSY=reject")
	path, open := fifo(t)
	one := other.goTurn(t.Context(), "s", "", script{Say: "a", Wait: path})
	other.waitLine(t, "script waits")
	soon, cancel := context.WithTimeout(t.Context(), 5*rejectWait)
	defer cancel()
	began := time.Now()
	p.turn(soon, "s", "", script{Say: "b"}).want(t, 409, turn.Busy)
	t.Logf("rejected after %v", time.Since(began))
	open()
	receive(t, one, "the other replica's turn").want(t, 200, "")
	if got := p.turn(t.Context(), "s", "", script{Say: "b"}); got.text() != "2: b, first a" {
		t.Errorf("afterwards: %s %v", got.body, got.err)
	}
}

// TestNothingBeginsOnceTheWaitIsOver: the session came, but too late.
func TestNothingBeginsOnceTheWaitIsOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(a *testAgent, leave context.CancelFunc)
		want func(error) bool // what the client hears
	}{
		"the last client left": {
			func(_ *testAgent, leave context.CancelFunc) { leave() },
			func(err error) bool { return errors.Is(err, context.Canceled) },
		},
		"the drain stopped it": {
			func(a *testAgent, _ context.CancelFunc) { a.engine.stop() },
			func(err error) bool {
				p, ok := errors.AsType[*turn.Problem](err)
				return ok && p.Code == turn.Draining
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, store := serveFaulty(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			store.acquired = func() { c.end(a, leave) }
			err := a.engine.do(ctx, request{session: "s", key: "k", input: []byte(`"x"`), hash: "h"}, client{deliver: func(result turn.Result) bool {
				t.Errorf("answered %+v", result)
				return false
			}})
			if !c.want(err) {
				t.Errorf("the client got %v", err)
			}
			a.engine.flights.join()
			if store.begins > 0 {
				t.Error("a turn was begun")
			}
			if got := a.get("/api/bot/sessions/s"); got.status != http.StatusNotFound {
				t.Errorf("session %s", got.body)
			}
		})
	}
}

// brokenWriter is a client's connection that breaks.
type brokenWriter struct {
	http.ResponseWriter
	write, flush error
}

func (w brokenWriter) Write(b []byte) (int, error) {
	if w.write != nil {
		return len(b) / 2, w.write
	}
	return w.ResponseWriter.Write(b)
}

func (w brokenWriter) FlushError() error { return w.flush }

// TestC31_AReplyThatDidNotGetThroughIsReplayed: without a key the same input is
// the same turn only as long as nobody can have its reply.
func TestC31_AReplyThatDidNotGetThroughIsReplayed(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		leaves       bool // before the reply is written
		write, flush error
		delivered    bool
	}{
		"written whole":       {delivered: true},
		"the client was gone": {leaves: true},
		"written in part":     {write: reset},
		"not flushed":         {flush: reset},
		"gone and broken":     {leaves: true, write: reset},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serveAgent(t, remember)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, a.url("/api/bot/turn"), nil)
			w := brokenWriter{httptest.NewRecorder(), c.write, c.flush}
			input, hash, err := parseInput([]byte(inputBody("x")))
			if err != nil {
				t.Fatal(err)
			}
			err = a.engine.do(ctx, request{session: "s", input: input, hash: hash}, client{deliver: func(result turn.Result) bool {
				if c.leaves {
					leave()
				}
				return a.sendResult(w, r, result)
			}})
			if err != nil {
				t.Fatal(err)
			}
			got := a.turn(t.Context(), "s", "", "x")
			got.want(t, 200, "")
			if got.result.Replayed == c.delivered || (got.result.Turn == 2) != c.delivered {
				t.Errorf("the same input again: %s", got.body)
			}
		})
	}
}
