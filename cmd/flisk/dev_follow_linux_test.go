package main_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestC08_OneAgentOfTwo: a change of one agent's code replaces that one only.
func TestC08_OneAgentOfTwo(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		if err := os.Mkdir(filepath.Join(p.dir, "clerk"), 0o755); err != nil {
			t.Fatal(err)
		}
		p.write("clerk/main.go", p.readFile("main.go"))
		p.write("clerk/turn.go", slowCode)
		p.edit("flisk.yaml", regexp.MustCompile(`(?m)^agents:\n`), "agents:\n  clerk: {path: clerk}\n")
		d := p.dev()
		d.await("reloaded", 1)
		before := p.pids()
		p.save("clerk/turn.go", version(1))
		if e := d.await("reloaded", 2); len(e.Agents) != 1 || e.Agents[0] != "clerk" {
			t.Errorf("replaced: %q", e.Agents)
		}
		d.await("drained", 1)
		after := p.pids()
		if after["gateway"] != before["gateway"] || after["bot"] != before["bot"] || after["clerk"] == before["clerk"] || after["clerk"] == 0 {
			t.Errorf("before %v, after %v", before, after)
		}
	})
}

// TestC08_LogsGoOn: what an agent prints at its start and during a turn arrives
// after every replacement, and once.
func TestC08_LogsGoOn(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		code := func(n int) string {
			return strings.Replace(version(n), "type Memory", fmt.Sprintf("func init() { fmt.Println(\"born v%d.\") }\n\ntype Memory", n), 1)
		}
		p.save("turn.go", code(0))
		d := p.dev()
		var lines []string
		for n := range 4 {
			if n > 0 {
				p.save("turn.go", code(n))
			}
			d.await("reloaded", 1+n)
			input := fmt.Sprintf("1%dms", n)
			a, err := p.post(t.Context(), "bot", fmt.Sprintf("%q", input), http.Header{turn.HeaderSession: {"s1"}})
			if err != nil || a.status != http.StatusOK {
				t.Fatalf("turn %d: %d %v %v", n, a.status, a.problem, err)
			}
			lines = append(lines, fmt.Sprintf("born v%d.", n), "turn runs "+input)
			for _, line := range lines[2*n:] {
				d.log(line)
			}
		}
		d.signal(syscall.SIGINT)
		d.ended()
		for _, line := range lines {
			if n := d.times(line); n != 1 {
				t.Errorf("%q was printed once, and arrived %d times", line, n)
			}
		}
	})
}

// TestC08_KilledAndSaved: the agent is killed, with a turn in flight, and its code
// saved at the same moment. The new code serves after one reload, and what it was
// asked is answered.
func TestC08_KilledAndSaved(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		d := p.dev()
		d.await("reloaded", 1)
		p.say("s1", "hi")
		answered := make(chan string, 1)
		go func() { answered <- p.insist("s2", "1s long") }()
		d.log("turn runs 1s")
		p.killAgent()
		p.save("turn.go", version(1))
		d.await("reloaded", 2)
		if reply := p.say("s1", "and now?"); !strings.HasPrefix(reply, `v1 turn 2 after "hi"`) {
			t.Errorf("it says %q", reply)
		}
		if failed := <-answered; failed != "" {
			t.Errorf("the turn in flight: %s", failed)
		}
		if view := p.session("s2"); view.Turns != 1 {
			t.Errorf("its session holds %d turns, want 1", view.Turns)
		}
		p.save("turn.go", version(2))
		d.await("reloaded", 3)
		if d.count("reloading") != 3 || d.count("failed")+d.count("lost") != 0 {
			t.Errorf("two saves were %d reloads; failed %d times, lost %d times", d.count("reloading")-1, d.count("failed"), d.count("lost"))
		}
	})
}

// insist sends a turn under one key until it is answered, as clients do, and says
// why it gave up.
func (p *project) insist(session, input string) (failed string) {
	header := http.Header{turn.HeaderSession: {session}, turn.HeaderKey: {turn.QuoteKey(input)}}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		a, err := p.post(context.Background(), "bot", fmt.Sprintf("%q", input), header)
		if err == nil && a.status == http.StatusOK {
			return ""
		}
		failed = fmt.Sprint(a.status, a.problem, err)
	}
	return failed
}

// killAgent is SIGKILL for the agent's only process, past flisk.
func (p *project) killAgent() {
	p.t.Helper()
	if strings.Contains(p.do("status", "--json"), `"runtime": "docker"`) {
		docker(p.t, "kill", p.container("bot"))
		return
	}
	if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
}

// TestDevWarns: what is odd is an event, once, and not at every reload again.
func TestDevWarns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.project(filepath.Join(t.TempDir(), "bot"))
	socket := filepath.Join(w.run, "none.sock")
	w.env = append(w.env, "FLISK_RUNTIME=auto", "DOCKER_HOST=unix://"+socket)
	p.slowTurns()
	p.edit("flisk.yaml", regexp.MustCompile(`drain: 120s`), "drain: 5s")
	d := p.dev()
	d.await("reloaded", 1)
	if e := d.await("warning", 1); !strings.Contains(e.Error.Message, "a stop can cut a turn short") {
		t.Errorf("a short drain: %+v", e)
	}
	if e := d.await("warning", 2); !strings.Contains(e.Error.Message, socket) {
		t.Errorf("no engine: %+v", e)
	}
	p.save("compose.override.yaml", "services: {}\n")
	if e := d.await("warning", 3); !strings.Contains(e.Error.Message, "compose.override.yaml counts on Docker only") {
		t.Errorf("an override: %+v", e)
	}
	d.await("unchanged", 1)
	p.save("turn.go", version(1))
	d.await("reloaded", 2)
	if n := d.count("warning"); n != 3 {
		t.Errorf("three things are odd, and it warned %d times", n)
	}
}
