package runtime

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
)

func TestConverge(t *testing.T) {
	t.Parallel()
	s := stack.Stack{Agents: []stack.Agent{{Name: "bot"}}}
	ran := 0
	do := func(err error, want ...string) func([]string) (Report, error) {
		return func(agents []string) (Report, error) {
			ran++
			if strings.Join(agents, " ") != strings.Join(want, " ") {
				t.Errorf("the agents are %q, want %q", agents, want)
			}
			return Report{Changed: true}, err
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("broken")
	said := fault.New(fault.Interrupted, "", "said already")
	for name, c := range map[string]struct {
		ctx   context.Context
		agent string
		do    func([]string) (Report, error)
		kind  fault.Kind
		says  string
	}{
		"all":                   {t.Context(), "", do(nil), 0, ""},
		"one":                   {t.Context(), "bot", do(nil, "bot"), 0, ""},
		"fails":                 {t.Context(), "", do(broken), fault.Failed, "broken"},
		"is interrupted":        {ended, "", do(broken), fault.Interrupted, "interrupted"},
		"has said that already": {ended, "", do(said), fault.Interrupted, "said already"},
	} {
		report, err := Converge(c.ctx, s, c.agent, c.do)
		if !report.Changed || (err != nil) != (c.says != "") || err != nil && (fault.KindOf(err) != c.kind || !strings.HasPrefix(err.Error(), c.says)) {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	before := ran
	if _, err := Converge(t.Context(), s, "clerk", do(nil)); fault.KindOf(err) != fault.Usage || ran != before {
		t.Errorf("an agent that there is not: %v", err)
	}
}

func TestRefuseOther(t *testing.T) {
	t.Parallel()
	mine, theirs := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	s := stack.Stack{ID: "9f2c41d07a3e", Dir: mine, Instance: "two"}
	for _, dir := range []string{"", mine, link, filepath.Join(mine, "removed")} {
		if err := RefuseOther(s, dir); err != nil {
			t.Errorf("%q: %v", dir, err)
		}
	}
	f, ok := errors.AsType[*fault.Fault](RefuseOther(s, theirs))
	if !ok || f.Kind != fault.Environment || !strings.Contains(f.Hint, `flisk -C "`+theirs+`" --instance two down`) {
		t.Errorf("another directory: %+v", f)
	}
}

func TestTryAgain(t *testing.T) {
	t.Parallel()
	changed := errors.Join(ErrSourceChanged, errors.New("more"))
	if !TryAgain(changed, 1) || !TryAgain(changed, maxTries-1) || TryAgain(changed, maxTries) || TryAgain(errors.New("other"), 1) || TryAgain(nil, 1) {
		t.Error("tried again where it should not be, or not where it should")
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0 ms", 999 * time.Millisecond: "999 ms", 1500 * time.Millisecond: "1.5 s", 2 * time.Minute: "120.0 s"} {
		if got := Span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
