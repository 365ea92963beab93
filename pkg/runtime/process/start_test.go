package process

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// gate keeps the rig's agents from getting ready until open is called.
func (r *rig) gate() (open func()) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "open")
	r.mode(modeGate)
	r.o.Env = append(r.o.Env, gateVar+"="+file)
	return func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			r.t.Error(err)
		}
	}
}

// status is what a GET below the gateway is answered with.
func (r *rig) status(path string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestC20_RequestsAreHeldWhileAnAgentStarts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Stack.Agents[0].MaxBody = 10
	open := r.gate()
	ended := make(chan error, 1)
	go func() {
		_, err := r.driver().Up(t.Context(), r.p)
		ended <- err
	}()
	r.logged("bot", "started c1")
	answer := r.sent("bot", "")
	if status := r.status(turn.AgentReadyPath("bot")); status != http.StatusServiceUnavailable {
		t.Errorf("an agent that starts is answered %d for, want 503", status)
	}
	if status := r.status(turn.AgentReadyPath("nobody")); status != http.StatusNotFound {
		t.Errorf("an agent that the project does not have is answered %d for, want 404", status)
	}
	if status, _ := r.turn("bot", strings.Repeat("x", 8<<10)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a request above the limit is answered %d, want 413", status)
	}
	open()
	if err := <-ended; err != nil {
		t.Errorf("up: %v", err)
	}
	if got := <-answer; !strings.HasPrefix(got, "200 c1 ") {
		t.Errorf("the request that was sent meanwhile is answered %q", got)
	}
}

func TestC19_AnUpThatWasKilledBeforeItsSwitch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	open := r.gate()
	up := r.startUp()
	r.logged("bot", "started c1")
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = up.Wait() // it was killed
	answer := r.sent("bot", "")
	open()
	eventually(t, "the agent to be ready", func() bool { return r.replica().State != runtime.Starting })
	before := r.replica()
	if before.State != runtime.Waiting || before.Serving || !strings.Contains(before.Detail, "flisk up finishes it") {
		t.Errorf("a replica that gets no requests: %+v", before)
	}
	if report := r.up(); !report.Changed {
		t.Error("up had nothing to do")
	}
	if got := <-answer; !strings.HasPrefix(got, "200 c1 ") {
		t.Errorf("the request that was sent meanwhile is answered %q", got)
	}
	after := r.replica()
	if after.State != runtime.Ready || !after.Serving || after.Detail != "" || after.PID != before.PID {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
}

// A project that is moved while it runs goes on, and up tells it where it is.
func TestC18_AgentOfAProjectThatMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	was := r.o.Stack.Agents[0].Dir
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(was, moved); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.driver().Kill(t.Context(), "bot"); err != nil {
			t.Fatal(err)
		}
		r.mustTurn("bot", "")
	}
	data, err := os.ReadFile(r.place().agentLog("bot"))
	if n := strings.Count(string(data), "[flisk] its directory \""+was+"\" is gone"); n != 1 || err != nil {
		t.Errorf("the log says %d times that the directory is gone, want once: %v", n, err)
	}
	r.o.Stack.Agents[0].Dir = moved
	if report := r.up(); !report.Changed || r.replica().Generation != 2 {
		t.Errorf("up from the new place: %+v, %+v", report, r.replica())
	}
	r.mustTurn("bot", "")
}

// What is wrong with the project is said before anything is stopped: a process
// that is on record as the supervisor, and does not answer, lives on.
func TestUpChecksBeforeItStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.down()
	if err := r.place().makeRunDir(); err != nil {
		t.Fatal(err)
	}
	silent := r.standIn()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	right := r.o
	for name, spoil := range map[string]func(*Options){
		"volume": func(o *Options) { o.Stack.Volume.Name = "another" },
		"port":   func(o *Options) { o.Stack.Gateway.Port = ln.Addr().(*net.TCPAddr).Port },
		"env file": func(o *Options) {
			bot := testAgentSpec(t, "bot")
			bot.EnvFiles = []string{t.TempDir()}
			o.Stack.Agents = []stack.Agent{bot}
		},
	} {
		spoil(&r.o)
		if _, err := r.driver().Up(t.Context(), r.p); err == nil {
			t.Errorf("up with a wrong %s succeeded", name)
		}
		if alive, err := silent.Alive(); !alive || err != nil {
			t.Errorf("up with a wrong %s ended what runs: %v", name, err)
		}
		r.o = right
	}
	r.up()
	mustBeGone(t, silent)
	r.mustTurn("bot", "")
}
