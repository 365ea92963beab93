package main_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestC07_WhatRunsIsTheLastSave: saves at random moments among a few versions, so
// that files go back and forth while they are read and built. When they rest, what
// runs is what is on disk. With FLISK_TEST_LONG=1 it is 100 seconds of that.
func TestC07_WhatRunsIsTheLastSave(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	p.save("turn.go", version(0))
	d := p.dev()
	d.await("reloaded", 1)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	rounds := 2
	if os.Getenv("FLISK_TEST_LONG") == "1" {
		rounds = 15
	}
	for round := range rounds {
		last := 0
		for range 1 + random.IntN(25) {
			last = 1 + random.IntN(3)
			p.save("turn.go", version(last))
			pause := random.IntN(160)
			if random.IntN(8) == 0 {
				pause += random.IntN(700)
			}
			<-time.After(time.Duration(pause) * time.Millisecond) // the moment is what is random
		}
		eventually(t, time.Minute, fmt.Sprintf("v%d runs, which is on disk after round %d", last, round), func() bool {
			return strings.HasPrefix(p.say(fmt.Sprint("s", round), "hi"), fmt.Sprintf("v%d ", last))
		})
	}
}

// TestDevUndoesNoDown: what another command stops stays stopped, whatever is saved
// during its drain or after it, and the loop ends.
func TestDevUndoesNoDown(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		d := p.dev()
		d.await("reloaded", 1)
		answered := make(chan int, 1)
		go func() {
			a, _ := p.post(t.Context(), "bot", `"4s long"`, http.Header{turn.HeaderSession: {"s1"}}) // its status is 0 otherwise
			answered <- a.status
		}()
		d.log("turn runs")
		down := make(chan string, 1)
		go func() {
			_, errOut, code := p.try(p.dir, "down")
			down <- fmt.Sprint(code, errOut)
		}()
		d.log("msg=draining")
		p.save("turn.go", version(1))
		if said := <-down; !strings.HasPrefix(said, "0") {
			t.Errorf("down: %s", said)
		}
		p.save("turn.go", version(2))
		if code := d.ended(); code != 0 || d.count("stopped") != 1 || d.count("reloaded") != 1 {
			t.Errorf("exit code %d, and it said %d times that it was stopped, %d times that it reloaded", code, d.count("stopped"), d.count("reloaded"))
		}
		if status := <-answered; status != http.StatusOK {
			t.Errorf("the turn in flight: %d", status)
		}
	})
}

// TestDevThatCannotStart stops nothing that ran before.
func TestDevThatCannotStart(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	p.do("up")
	before := p.pid()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	good := p.readFile("flisk.yaml")
	p.edit("flisk.yaml", regexp.MustCompile(`port: \d+`), fmt.Sprintf("port: %d", l.Addr().(*net.TCPAddr).Port))
	if out, errOut, code := p.try(p.dir, "dev"); code != 3 || strings.Count(errOut, "is in use") != 1 {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	p.save("flisk.yaml", good)
	if after := p.pid(); after != before || after == 0 {
		t.Errorf("process %d ran, and now %d does", before, after)
	}
}

// TestDevKeepsItsProject: another id in flisk.yaml is another project, and a new
// agent that does not build is no reason to lose the others.
func TestDevKeepsItsProject(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	before := p.pid()
	good := p.readFile("flisk.yaml")
	p.save("flisk.yaml", regexp.MustCompile(`(?m)^id: \w+`).ReplaceAllString(good, "id: 0123456789ab"))
	if e := d.await("failed", 1); !strings.Contains(e.Error.Message, "id") {
		t.Errorf("another id: %+v", e.Error)
	}
	p.save("flisk.yaml", good)
	d.await("unchanged", 1)
	if err := os.Mkdir(filepath.Join(p.dir, "clerk"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("clerk/main.go", "package main\n\nfunc main() { nonsense() }\n")
	p.edit("flisk.yaml", regexp.MustCompile(`(?m)^agents:\n`), "agents:\n  clerk: {path: clerk}\n")
	e := d.await("failed", 2)
	for !strings.Contains(e.Error.Detail, "nonsense") { // the file came before the agent
		e = d.await("failed", d.count("failed")+1)
	}
	failed := d.count("failed")
	<-time.After(6 * time.Second) // three looks
	if d.count("failed") != failed || d.count("lost") != 0 || p.pid() != before {
		t.Errorf("failed %d times more, lost %d times, process %d is now %d", d.count("failed")-failed, d.count("lost"), before, p.pid())
	}
}
