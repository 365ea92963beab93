package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// TestDeepInputs: what is accepted can be read again, whatever line it is
// written in; a value that could not be is refused before the turn runs.
func TestDeepInputs(t *testing.T) {
	t.Parallel()
	nested := func(depth int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	}
	dir := t.TempDir()
	a := serveAgentOn(t, dir, remember)
	a.turn(t.Context(), "s1", "k1", nested(checkpoint.MaxDepth)).want(t, 200, "")
	for _, depth := range []int{checkpoint.MaxDepth + 1, 9999} {
		got := a.turn(t.Context(), "s1", "", nested(depth))
		got.want(t, 413, turn.TooLarge)
		if !strings.Contains(string(got.body), "levels deep") {
			t.Errorf("the detail does not name the limit: %q", got.body)
		}
	}
	store, err := checkpoint.OpenReader(dir, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if view, err := store.View(t.Context(), "s1"); err != nil || view.Checkpoint.Turn != 1 {
		t.Errorf("read back: turn %d, %v", view.Checkpoint.Turn, err)
	}
}
