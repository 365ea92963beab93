package verify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Each answer of a load is held against the reloads that were reported when its
// request was sent, and against what its process had been told by then.
func TestLoadIsJudged(t *testing.T) {
	t.Parallel()
	ok := func(code string) answer { return answer{status: 200, code: code} }
	draining := answer{status: 503, problem: turn.Draining, code: "a"}
	now := time.Now()
	replaced := Change{Before: Process{1, "1"}, After: Process{2, "2"}}
	for name, c := range map[string]struct {
		do   func(l *load)
		says string // in the error; "" is none
		kind Kind   // "" when it is not broken
	}{
		"the old one answers what it had": {do: func(l *load) { l.answered(0, ok("a"), now, "a turn") }},
		"the new one may be early":        {do: func(l *load) { l.answered(0, ok("a"), now, "a turn"); l.answered(0, ok("b"), now, "a turn") }},
		"the old one answers more":        {func(l *load) { l.answered(1, ok("a"), now, "a turn") }, "sent after reload 1 was reported", Stale},
		"nobody's code":                   {func(l *load) { l.answered(0, ok("c"), now, "a turn") }, `the code "c"`, ""},
		"nothing was under way":           {func(l *load) { l.answered(1, ok("b"), now, "a turn") }, "no request was under way", ""},
		"cut":                             {func(l *load) { l.answered(0, draining, now.Add(time.Second), "a turn") }, "1 of 1 requests failed", Failed},
		"cut when its time was up":        {func(l *load) { l.answered(0, draining, now.Add(time.Minute), "a turn") }, "verify.env", ""},
		"cut by one that serves": {func(l *load) {
			l.answered(1, answer{status: 503, problem: turn.Draining, code: "b"}, now.Add(time.Minute), "a turn")
		}, "failed", Failed},
		"no answer":               {func(l *load) { l.answered(0, answer{err: errSeen}, now, "a turn") }, "no answer", Failed},
		"the agent's own failure": {func(l *load) { l.answered(0, answer{status: 500, problem: turn.RunFailed, code: "a"}, now, "a turn") }, "own code failed", ""},
		"replaced by nothing":     {func(l *load) { l.generations[0].change.After = Process{} }, "reload 1 replaced nothing", Stale},
		"it did not exit well":    {func(l *load) { l.generations[0].change.Exit = Exit{Code: 3} }, "exit code 3", Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{run: &run{Options: Options{Drain: 20 * time.Second, TurnTimeout: time.Hour}}}
			l := newLoad(s, (&ledger{session: "s"}).add("k", json.RawMessage(`""`), ""), ok("a"))
			l.generations = []generation{{code: "a", told: now, change: replaced}, {code: "b"}}
			c.do(l)
			err := l.judge()
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			said := ""
			if err != nil {
				said = err.Error()
			}
			for _, f := range s.result.Broken {
				said += f.What
			}
			if !strings.Contains(said, c.says) || (len(s.result.Broken) > 0) != (c.kind != "") || c.kind != "" && s.result.Broken[0].Kind != c.kind {
				t.Errorf("%v, %+v", err, s.result.Broken)
			}
		})
	}
}
