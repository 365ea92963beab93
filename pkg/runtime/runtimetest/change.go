package runtimetest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

func testCode(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	if a := p.MustTurn("s1", "a"); a.Code != "c1" {
		t.Errorf("the code is %q", a.Code)
	}
	stop := p.keepAsking()
	p.Code("c2")
	report := p.Up()
	if n, failed := stop(); failed != nil || n == 0 {
		t.Errorf("of %d turns while the code changed one failed: %v", n, failed)
	}
	if len(report.Replaced) != 1 || report.Replaced[0].Exit != (runtime.Exit{}) {
		t.Errorf("up with other code: %+v", report)
	}
	a := p.MustTurn("s1", "b")
	said(t, a, 2, "a b")
	if a.Code != "c2" {
		t.Errorf("the code is %q", a.Code)
	}
}

// keepAsking sends turns, one after the other, until the returned function is
// called: it says how many there were, and what became of the first that failed.
func (p *Project) keepAsking() (stop func() (int, error)) {
	p.T.Helper()
	ctx, cancel := context.WithCancel(p.T.Context())
	done := make(chan struct{})
	n, failed := 0, error(nil)
	first := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && failed == nil {
			a := p.Turn("bot", fmt.Sprintf("k%d", n), "", "x")
			if a.Err != nil || a.Status != http.StatusOK {
				failed = fmt.Errorf("%+v", a)
			}
			if n++; n == 1 {
				close(first)
			}
		}
	}()
	<-first
	return func() (int, error) {
		cancel()
		<-done
		return n, failed
	}
}

func testSettings(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	p.Setup.Stack.Agents[0].TurnTimeout = 15 * time.Second
	p.Setup.Stack.Agents[0].Env = []string{"SAYS=a $secret"}
	plan, err := p.Driver().Plan(t.Context(), runtime.OpUp)
	if text := plan.String(); err != nil || !strings.Contains(text, "turn_timeout 20s → 15s, SAYS is new") || strings.Contains(text, "$secret") {
		t.Errorf("the plan is %v:\n%s", err, text)
	}
	stop := p.keepAsking()
	report := p.Up()
	if n, failed := stop(); failed != nil {
		t.Errorf("of %d turns while settings changed one failed: %v", n, failed)
	}
	if len(report.Replaced) != 1 {
		t.Errorf("up with other settings: %+v", report)
	}
	a := p.MustTurn("s1", "b")
	said(t, a, 2, "a b")
	if !strings.HasSuffix(a.Reply, "SAYS=a $secret") {
		t.Errorf("the value did not arrive as written: %q", a.Reply)
	}
}

func testBroken(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Setup.Stack.Agents[0].Env = []string{"MODE=exit"}
	began := time.Now()
	_, err := p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Failed, "bot-1 ended before it was ready", "exit code 7")
	stillRuns(t, err, false)
	if f, ok := asFault(err); !ok || !strings.Contains(f.Detail, "the model key is missing") {
		t.Errorf("the fault does not have the agent's last words: %+v", f)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("an agent that ends at once was waited for for %s", took)
	}
	if o := p.Observe(); o.Running || len(o.Replicas) > 0 || len(o.Stale) > 0 {
		t.Errorf("a failed up left %+v", o)
	}
	words := 0
	err = p.Driver().Logs(t.Context(), runtime.LogOptions{Tail: -1}, func(l runtime.Line) error {
		if strings.Contains(l.Text, "the model key is missing") {
			words++
		}
		return nil
	})
	if err != nil || words == 0 {
		t.Errorf("the agent's last words are not in the log, %v", err)
	}
	p.Setup.Stack.Agents[0].Env = nil
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
}

func testBrokenChange(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	p.Code("c2")
	p.Setup.Stack.Agents[0].Env = []string{"MODE=exit"}
	_, err := p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Failed, "bot-1 ended before it was ready")
	stillRuns(t, err, true)
	after := p.Replica()
	if after.PID != before.PID || after.State != runtime.Ready || after.Code != "c1" {
		t.Errorf("a change that failed left %+v of %+v", after, before)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	p.Setup.Stack.Agents[0].Env = nil
	p.Code("c1")
	if up := p.Up(); up.Changed {
		t.Errorf("up as before: %+v", up)
	}
}

// Code that does not build changes nothing: what ran serves on.
func testFailedBuild(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	for name, content := range map[string]string{"go.mod": "module bot\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() { missing() }\n"} {
		if err := os.WriteFile(filepath.Join(p.Setup.Stack.Dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.mu.Lock()
	p.code = "unbuilt" // of which no program is installed
	p.mu.Unlock()
	for name, change := range map[string]func() error{
		"up":      func() error { _, err := p.Driver().Up(t.Context(), p.P); return err },
		"restart": func() error { _, err := p.Driver().Restart(t.Context(), "bot", p.P); return err },
	} {
		err := change()
		isFault(t, err, fault.Failed, "does not build")
		if f, ok := asFault(err); !ok || !strings.Contains(f.Detail, "undefined: missing") {
			t.Errorf("%s does not say what the compiler said: %+v", name, f)
		}
		stillRuns(t, err, true)
		if after := p.Replica(); after.PID != before.PID || after.State != runtime.Ready || after.Code != "c1" {
			t.Errorf("%s: a build that failed left %+v of %+v", name, after, before)
		}
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	p.Code("c1")
	if up := p.Up(); up.Changed {
		t.Errorf("up as before: %+v", up)
	}
}

// stillRuns fails the test unless an error says that what ran before still runs, or
// does not.
func stillRuns(t *testing.T, err error, want bool) {
	t.Helper()
	if f, ok := asFault(err); !ok || strings.HasSuffix(f.Hint, "what ran before still runs") != want {
		t.Errorf("an error that is to say that what ran before still runs (%t): %+v", want, err)
	}
}
