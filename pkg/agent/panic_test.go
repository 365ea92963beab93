package agent

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sort"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// TestPanicIsLoggedALineACall: the stack is what a developer needs most, and one
// quoted string of it cannot be read.
func TestPanicIsLoggedALineACall(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := NewServer(func(context.Context, *Checkpoint[struct{}], Input) (Reply, error) {
		sort.Slice([]int{2, 1}, func(int, int) bool { panic("no order") })
		return Text("never"), nil
	}, checkpoint.NewMemory(), turn.DefaultEnv(), slog.New(slog.NewTextHandler(&out, nil)))
	err := s.engine.do(t.Context(), request{session: "s1", input: []byte(`1`), hash: "h"}, client{deliver: func(turn.Result) bool { return true }})
	s.Close()
	if err == nil {
		t.Fatal("a panic was answered as a turn")
	}
	var calls []string
	for line := range strings.Lines(out.String()) {
		if _, call, ok := strings.Cut(line, `msg="  at `); ok {
			calls = append(calls, call)
		}
	}
	if len(calls) == 0 || !strings.HasPrefix(calls[0], "sort.") || !strings.Contains(calls[0], ".go:") {
		t.Errorf("the calls of the stack are %q in\n%s", calls, &out)
	}
	if strings.Contains(out.String(), `\n`) {
		t.Errorf("a line break is quoted:\n%s", &out)
	}
}

// leaving is a state whose decoder ends the goroutine.
type leaving struct{ N int }

func (*leaving) UnmarshalJSON([]byte) error { runtime.Goexit(); return nil }

// TestGoexitInADecoder: the client hears of it, those that are attached do, and
// the session is free.
func TestGoexitInADecoder(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, func(_ context.Context, cp *Checkpoint[leaving], _ Input) (Reply, error) {
		cp.State.N++
		return Text("ok"), nil
	})
	a.turn(t.Context(), "s", "", "1").want(t, 200, "")
	for range 2 {
		a.turn(t.Context(), "s", "k", "2").want(t, 500, turn.RunFailed)
	}
	a.waitInFlight(t, 0)
	if view := a.view(t, "s"); view.Turns != 1 {
		t.Errorf("%d turns", view.Turns)
	}
}

// panickyWriter is a client that is gone in a way of its own.
type panickyWriter struct{ *httptest.ResponseRecorder }

func (panickyWriter) Write([]byte) (int, error) { panic(http.ErrAbortHandler) }

// TestAPanicOfTheWriterStaysInItsRequest: the turn is committed and counts as not
// delivered.
func TestAPanicOfTheWriterStaysInItsRequest(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember)
	addr, err := net.ResolveTCPAddr("tcp", a.addr)
	if err != nil {
		t.Fatal(err)
	}
	local := context.WithValue(t.Context(), http.LocalAddrContextKey, addr)
	r := httptest.NewRequestWithContext(local, http.MethodPost, a.url("/api/bot/turn"), strings.NewReader(inputBody("x")))
	r.Header.Set("Content-Type", turn.JSONType)
	r.Header.Set(turn.HeaderSession, "s")
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("recovered %v", v)
			}
		}()
		a.ServeHTTP(panickyWriter{httptest.NewRecorder()}, r)
	}()
	a.waitInFlight(t, 0)
	got := a.turn(t.Context(), "s", "", "x")
	got.want(t, 200, "")
	if got.result.Turn != 1 || !got.result.Replayed {
		t.Errorf("the same input again: %s", got.body)
	}
}
