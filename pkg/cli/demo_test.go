package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
	"github.com/flisk-go/flisk/pkg/verify"
)

// stage is a stack as far as the demo sees one: an agent that remembers, or does
// not, and a process that can be killed.
type stage struct {
	t       *testing.T
	forgets bool // its sessions begin anew with every process
	immune  bool // its process does not die of a kill

	mu       sync.Mutex
	process  *exec.Cmd
	sessions map[string][]string
}

func (s *stage) start() {
	s.t.Helper()
	s.process = exec.Command("sleep", "60")
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) end(p *exec.Cmd) {
	_ = p.Process.Kill() // it may have ended
	_ = p.Wait()         // says that it was killed
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var req turn.Request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		s.t.Error(err)
	}
	id := r.Header.Get(turn.HeaderSession)
	s.sessions[id] = append(s.sessions[id], turn.Text(req.Input))
	reply, err := json.Marshal(fmt.Sprintf("so far: %q", s.sessions[id]))
	if err != nil {
		s.t.Error(err)
	}
	if err := encode(w, turn.Result{SessionID: id, Turn: len(s.sessions[id]), TurnID: "x", Reply: reply}, ""); err != nil {
		s.t.Error(err)
	}
}

func (s *stage) driver() *fakeDriver {
	server := httptest.NewServer(s)
	s.t.Cleanup(server.Close)
	s.sessions = map[string][]string{}
	replica := func() runtime.Replica {
		return runtime.Replica{Agent: "bot", Name: "bot-1", State: runtime.Ready, PID: s.process.Process.Pid}
	}
	return &fakeDriver{
		observe: func() (runtime.Observed, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return runtime.Observed{Running: true, URL: server.URL, Replicas: []runtime.Replica{replica()}}, nil
		},
		up: func(context.Context, runtime.Progress) (runtime.Report, error) {
			s.start()
			return runtime.Report{Changed: true, URL: server.URL}, nil
		},
		kill: func(context.Context, string) ([]runtime.Change, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			killed := runtime.Change{Agent: "bot", Replica: "bot-1", Before: runtime.Process{PID: replica().PID}}
			if s.immune {
				old := s.process
				s.t.Cleanup(func() { s.end(old) })
			} else {
				s.end(s.process)
			}
			s.start()
			if s.forgets {
				s.sessions = map[string][]string{}
			}
			return []runtime.Change{killed}, nil
		},
		down: func(context.Context, runtime.Progress) (runtime.Report, error) {
			if s.process != nil {
				s.end(s.process)
			}
			return runtime.Report{Changed: true}, nil
		},
	}
}

// play runs the demo in a TMPDIR of its own, which must be empty afterwards.
func play(t *testing.T, driver runtime.Driver, args ...string) result {
	t.Helper()
	short, err := os.MkdirTemp("/tmp", "fd-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	t.Setenv("TMPDIR", short)
	got := run{driver: driver, terminal: len(args) == 0}.do(t, append([]string{"demo"}, args...)...)
	if left, err := filepath.Glob(filepath.Join(short, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q (%v)", left, err)
	}
	return got
}

func TestDemoHolds(t *testing.T) {
	got := play(t, (&stage{t: t}).driver())
	if got.code != 0 || strings.Count(got.out, "✓") != 4 || strings.Contains(got.out, "✗") ||
		!strings.Contains(got.out, "held  4 of 4 checks") || got.err != "" {
		t.Errorf("got %+v", got)
	}
}

// What verify finds is what the demo says.
func TestDemoFailsWhenVerifyDoes(t *testing.T) {
	short, err := os.MkdirTemp("/tmp", "fd-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	t.Setenv("TMPDIR", short)
	got := run{driver: (&stage{t: t}).driver(), prover: found(verify.Held, verify.Broken, verify.Unchecked)}.do(t, "demo")
	if got.code != 1 || strings.Count(got.out, "✗") != 2 || !strings.Contains(got.out, "held  5 of 7 checks") ||
		!strings.Contains(got.out, "✗ isolation holds") || !strings.Contains(got.err, `"isolation holds", "down-up holds"`) {
		t.Errorf("got %+v", got)
	}
}

// The demo can fail: what it shows is checked.
func TestDemoFailsWhenTheAgentForgets(t *testing.T) {
	got := play(t, (&stage{t: t, forgets: true}).driver())
	if got.code != 1 || !strings.Contains(got.out, "✗ turn 3 remembers turns 1 and 2") || !strings.Contains(got.out, "held  3 of 4 checks") ||
		!strings.HasPrefix(got.err, "flisk: the demo shows something broken: \"turn 3 remembers") {
		t.Errorf("got %+v", got)
	}
}

func TestDemoFailsWhenTheKillDoesNotKill(t *testing.T) {
	got := play(t, (&stage{t: t, immune: true}).driver())
	if got.code != 1 || strings.Count(got.out, "✗") != 2 || !strings.Contains(got.out, "✗ process ") || !strings.Contains(got.out, "✗ nothing is left behind") {
		t.Errorf("got %+v", got)
	}
}

func TestDemoCleansUpAfterAFailure(t *testing.T) {
	d := (&stage{t: t}).driver()
	d.up = func(context.Context, runtime.Progress) (runtime.Report, error) {
		return runtime.Report{}, fault.New(fault.Environment, "install it", "there is no Go toolchain")
	}
	got := play(t, d)
	if got.code != 3 || !strings.HasSuffix(got.err, "flisk: there is no Go toolchain\nhint: install it\n") {
		t.Errorf("got %+v", got)
	}
}

func TestDemoCleansUpWhenItIsInterrupted(t *testing.T) {
	d := (&stage{t: t}).driver()
	ctx, cancel := context.WithCancelCause(t.Context())
	up := d.up
	d.up = func(c context.Context, p runtime.Progress) (runtime.Report, error) {
		cancel(errors.New("the user had enough"))
		return up(c, p)
	}
	r := run{driver: d, terminal: true, ctx: ctx}
	got := r.do(t, "demo")
	if got.code != 130 || !strings.Contains(got.err, "flisk: interrupted\n") || strings.Contains(got.out, "3  Talk") {
		t.Errorf("got %+v", got)
	}
}

// "flisk demo | head -2" neither runs on unheard nor leaves anything behind.
func TestDemoEndsWhenNobodyReads(t *testing.T) {
	short, err := os.MkdirTemp("/tmp", "fd-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	t.Setenv("TMPDIR", short)
	d := (&stage{t: t}).driver()
	d.up = func(context.Context, runtime.Progress) (runtime.Report, error) {
		t.Error("it went on")
		return runtime.Report{}, errors.New("unexpected")
	}
	var stderr strings.Builder
	a := &app{
		streams: &console.Streams{
			Out: console.NewOutput(&gonePipe{left: 2}, console.OutputOptions{}),
			Err: console.NewOutput(&stderr, console.OutputOptions{}),
		},
		environ: []string{"FLISK_HOME=/nonexistent/flisk"}, askEngine: answering(false),
		newDriver: func(*app, project.Runtime, *project.Project, <-chan struct{}) (runtime.Driver, error) { return d, nil },
	}
	if code := a.run(t.Context(), []string{"demo"}); code != 141 || stderr.String() != "" {
		t.Errorf("code %d, stderr %q", code, stderr.String())
	}
	if left, err := filepath.Glob(filepath.Join(short, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q (%v)", left, err)
	}
}

func TestDemoJSON(t *testing.T) {
	got := play(t, (&stage{t: t}).driver(), "--json")
	var v DemoJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.err != "" {
		t.Fatalf("%v in %+v", err, got)
	}
	if !v.Held || len(v.Checks) != 4 || len(v.Turns) != 4 || v.Killed.Before == v.Killed.After || v.Dir != "" {
		t.Errorf("got %+v", v)
	}
}

func TestDemoKeeps(t *testing.T) {
	d := (&stage{t: t}).driver()
	got := run{driver: d}.do(t, "demo", "--keep", "--json")
	var v DemoJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || v.Dir == "" {
		t.Fatalf("%v in %+v", err, got)
	}
	defer os.RemoveAll(v.Dir)
	if _, err := os.Stat(filepath.Join(v.Dir, "bot", "flisk.yaml")); err != nil || !v.Held {
		t.Errorf("kept %+v (%v)", v, err)
	}
	if _, err := os.Stat(filepath.Join(v.Dir, roomOwner)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it says that something runs in it: %v", err)
	}
	rooms, err := roomsIn(filepath.Dir(v.Dir))
	if err != nil || slices.Contains(rooms, v.Dir) {
		t.Errorf("a later flisk would clear it: %q, %v", rooms, err)
	}
}
