package agent

import (
	"net/http"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestARefusalNamesNoSessionThatNobodyOpened: a client must not go on with an id
// that stands for nothing, and is told the one that it asked with.
func TestARefusalNamesNoSessionThatNobodyOpened(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember)
	got := ask(t.Context(), newClient(), http.MethodPost, a.url("/api/bot/turn"), "{", "Content-Type", turn.JSONType)
	got.want(t, 400, turn.BadRequest)
	if strings.Contains(string(got.body), "session_id") || got.header.Get(turn.HeaderSession) != "" {
		t.Errorf("a session is named: %v %s", got.header, got.body)
	}
	got = ask(t.Context(), newClient(), http.MethodPost, a.url("/api/bot/turn"), "{", "Content-Type", turn.JSONType, turn.HeaderSession, "s1")
	if !strings.Contains(string(got.body), `"session_id":"s1"`) {
		t.Errorf("the session that was asked for is not named: %s", got.body)
	}
}
