package main_test

import (
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

// dying is the agent's code with a turn that ends its process.
var dying = strings.Replace(strings.Replace(slowCode, `"fmt"`, "\"fmt\"\n\t\"os\"", 1),
	"first, _, _ := cutSpace(input.Text())", "first, _, _ := cutSpace(input.Text())\n\tif first == \"die\" {\n\t\tos.Exit(3)\n\t}", 1)

// TestDevTellsOfTrouble: an agent that ends is told with how it ended, and that it
// is fine again; that another command restarted it, too. Nothing is reloaded for
// any of that.
func TestDevTellsOfTrouble(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		p.save("turn.go", dying)
		d := p.dev()
		d.await("reloaded", 1)
		if a, err := p.post(t.Context(), "bot", `"die"`, http.Header{turn.HeaderSession: {"s1"}}); err == nil && a.status == http.StatusOK {
			t.Errorf("it did not die: %+v", a)
		}
		e := d.await("failing", 1)
		if e.Replica.Name != "bot-1" || e.Replica.Restarts < 1 && e.Replica.State == "ready" || e.Replica.Exit != "exit code 3" || len(e.Agents) != 1 {
			t.Errorf("it says %+v", e)
		}
		if e := d.await("ready", 1); e.Replica.Name != "bot-1" || e.Replica.State != "ready" {
			t.Errorf("it says %+v", e)
		}
		failing := d.count("failing")
		p.do("kill", "bot")
		if e := d.await("failing", failing+1); e.Replica.Exit != "signal 9 (killed)" {
			t.Errorf("after a kill it says %+v", e)
		}
		d.await("ready", 2)
		p.do("restart", "bot")
		if e := d.await("restarted", 1); len(e.Agents) != 1 || e.Agents[0] != "bot" {
			t.Errorf("after a restart it says %+v", e)
		}
		if d.count("reloaded") != 1 || d.count("lost") != 0 {
			t.Errorf("%d reloads, lost %d times", d.count("reloaded")-1, d.count("lost"))
		}
		p.save("turn.go", version(1))
		d.await("reloaded", 2)
		d.await("drained", 1)
		if d.count("restarted") != 1 {
			t.Errorf("its own reload was told as a restart by somebody else")
		}
	})
}

// TestDevEndsSaysHow: the last event of all says what is left, and the same SIGTERM
// twice is one.
func TestDevEndsSaysHow(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	for _, c := range []struct {
		outcome string
		args    []string
		signals []syscall.Signal
		code    int
	}{
		{"ended", nil, []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, 0},
		{"left-running", []string{"--keep"}, []syscall.Signal{syscall.SIGINT}, 0},
		{"killed", nil, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, 130},
	} {
		d := p.dev(c.args...)
		d.await("reloaded", 1)
		answered := make(chan int, 1)
		turns := d.count("log")
		go func() {
			a, _ := p.post(t.Context(), "bot", fmt.Sprintf("%q", "3s "+c.outcome), http.Header{turn.HeaderSession: {"s" + c.outcome}}) // its status is 0 otherwise
			answered <- a.status
		}()
		eventually(t, 20*time.Second, "the turn runs", func() bool { return d.count("log") > turns && d.said("turn runs") })
		for _, sig := range c.signals {
			if sig == syscall.SIGINT && len(c.signals) > 1 {
				d.await("stopping", 1)
			}
			d.signal(sig)
		}
		if code := d.ended(); code != c.code {
			t.Errorf("%s: exit code %d\n%s", c.outcome, code, d.err.String())
		}
		if status := <-answered; (status == http.StatusOK) != (c.outcome != "killed") {
			t.Errorf("%s: the turn in flight: %d", c.outcome, status)
		}
		d.mu.Lock()
		last := d.events[len(d.events)-1]
		d.mu.Unlock()
		if last.Event != "stopped" || last.Outcome != c.outcome || (last.URL != "") != (c.outcome == "left-running") {
			t.Errorf("%s: the last event is %+v", c.outcome, last)
		}
	}
}

// TestDevNamesWhoIsBroken: all agents that do not build, and what became of files.
func TestDevNamesWhoIsBroken(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	if err := os.Mkdir(filepath.Join(p.dir, "clerk"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("clerk/main.go", p.readFile("main.go"))
	p.write("clerk/turn.go", slowCode)
	p.edit("flisk.yaml", regexp.MustCompile(`(?m)^agents:\n`), "agents:\n  clerk: {path: clerk}\n")
	d := p.dev()
	d.await("reloaded", 1)
	p.save("clerk/turn.go", strings.Replace(version(1), "cp.Turn ==", "cp.Turns ==", 1))
	first := d.await("failed", 1)
	p.save("turn.go", strings.Replace(version(1), "cp.Turn ==", "cp.Turns ==", 1))
	second := d.await("failed", 2)
	if strings.Join(first.Broken, " ") != "clerk" || first.Step != "build" || strings.Contains(first.Error.Message, p.dir) {
		t.Errorf("the first: %+v", first)
	}
	if strings.Join(second.Broken, " ") != "bot clerk" || strings.Count(second.Error.Detail, "cp.Turns undefined") != 2 {
		t.Errorf("the second: %+v", second)
	}
	p.save("turn.go", slowCode)
	if e := d.await("failed", 3); strings.Join(e.Broken, " ") != "clerk" {
		t.Errorf("the third: %+v", e)
	}
	p.save("clerk/turn.go", version(2))
	d.await("reloaded", 2)
	p.edit("flisk.yaml", regexp.MustCompile(`(?m)^  clerk:.*\n`), "")
	if e := d.await("reloaded", 3); strings.Join(e.Left, " ") != "clerk" {
		t.Errorf("an agent that left: %+v", e)
	}
}
