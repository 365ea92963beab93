package agent

import (
	"context"
	"log/slog"
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
