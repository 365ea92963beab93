package process

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// confirming is an apply in front of a supervisor whose gateway has the routes
// "new", and answers by those that answers says, one answer each, the last again and
// again.
func confirming(t *testing.T, within time.Duration, answers ...string) (a *apply, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var given []string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != turn.AgentReadyPath("bot") {
			t.Errorf("asked for %q", r.URL.Path)
		}
		routes, status, _ := strings.Cut(answers[min(len(given), len(answers)-1)], " ")
		given = append(given, routes)
		w.Header().Set(turn.HeaderRoutes, routes)
		if status != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(gateway.Close)

	dir, err := os.MkdirTemp("/tmp", "fl") // a socket has a short name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "control")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	control := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(observeReply{URL: gateway.URL, Routes: "new"}); err != nil {
			t.Error(err)
		}
	}))
	control.Listener = ln
	control.Start()
	t.Cleanup(control.Close)
	a = &apply{d: &Driver{o: Options{ReadyTimeout: within}}, client: newClient(socket)}
	return a, func() []string { mu.Lock(); defer mu.Unlock(); return given }
}

// TestConfirmWaitsForTheNewRoutes: an agent that answers ready by an old table
// answers for the generation that was replaced.
func TestConfirmWaitsForTheNewRoutes(t *testing.T) {
	t.Parallel()
	a, asked := confirming(t, time.Minute, "old", "", "new 503", "old", "new")
	if err := a.confirm(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	if given := asked(); len(given) != 5 {
		t.Errorf("it was satisfied after the answers of %q", given)
	}
}

// TestConfirmGivesUp where the gateway goes on by an old table.
func TestConfirmGivesUp(t *testing.T) {
	t.Parallel()
	a, _ := confirming(t, 10*gonePoll, "old")
	if err := a.confirm(t.Context(), "bot"); err == nil || !strings.Contains(err.Error(), `agent "bot" does not answer ready through the gateway`) {
		t.Errorf("it ended with %v", err)
	}
}
