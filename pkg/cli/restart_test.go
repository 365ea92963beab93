package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// A restart says what it replaced, and what it had to start because it did not
// run.
func TestRestartSaysWhatRan(t *testing.T) {
	t.Parallel()
	replaced := []runtime.Change{{Agent: "bot", Replica: "bot-1", Before: runtime.Process{PID: 11}, After: runtime.Process{PID: 22}}}
	for name, c := range map[string]struct {
		report    runtime.Report
		says, not string
	}{
		"all ran":        {runtime.Report{Changed: true, Replaced: replaced}, "bot-1", "before"},
		"some ran":       {runtime.Report{Changed: true, Replaced: replaced, Filled: []string{"clerk-1"}}, "clerk-1: did not run before, and now does", "nothing ran"},
		"none ran":       {runtime.Report{Changed: true, Filled: []string{"bot-1", "clerk-1"}}, "bot-1, clerk-1: did not run before", "nothing ran"},
		"nothing ran":    {runtime.Report{Changed: true}, "nothing ran before; all of it does now", "did not run"},
		"nothing is one": {runtime.Report{}, "the project has no agent", "before"},
	} {
		d := observing(running(time.Now()))
		d.restart = func(context.Context, string, runtime.Progress) (runtime.Report, error) { return c.report, nil }
		got := run{driver: d, terminal: true}.do(t, "-C", projectDir(t, true), "restart")
		if got.code != 0 || !strings.Contains(got.out, c.says) || strings.Contains(got.out, c.not) {
			t.Errorf("%s: %+v", name, got)
		}
		got = run{driver: d}.do(t, "-C", projectDir(t, true), "restart", "--json")
		var v RestartJSON
		if err := json.Unmarshal([]byte(got.out), &v); err != nil || !slices.Equal(v.Filled, c.report.Filled) || len(v.Replaced) != len(c.report.Replaced) {
			t.Errorf("%s: %v in %+v", name, err, got)
		}
	}
}
