package main_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestDemo runs the whole story as a newcomer does.
func TestDemo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tmp := t.TempDir()
	w.env = append(w.env, "TMPDIR="+tmp)
	start := time.Now()
	out := w.flisk(t.TempDir(), "demo")
	took := time.Since(start)
	t.Logf("%s\ntook %v", out, took)
	// A minute is what people are told; a busy machine gets five times that.
	if took > 5*time.Minute {
		t.Errorf("the demo took %v", took)
	}
	if left := append(files(t, tmp), append(files(t, w.run), files(t, w.home)...)...); len(left) != 0 {
		for _, path := range left {
			if !strings.HasPrefix(path, filepath.Join(w.home, "modcache")) {
				t.Errorf("the demo left %s", path)
			}
		}
	}
}

// TestOfflineInAnOddDirectory is the first promise of the README: a directory
// with a space and a letter outside ASCII, no network, and the conversation
// goes on after down and up.
func TestOfflineInAnOddDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.project(filepath.Join(t.TempDir(), "My Bot \u00fc"))
	p.do("up")
	p.say("s1", "remember 17")
	p.say("s1", "and 18")
	p.do("down")
	p.do("up")
	reply := p.say("s1", "what did I say?")
	if !strings.Contains(reply, "remember 17") || !strings.Contains(reply, "and 18") {
		t.Errorf("after down and up the third reply does not reflect the first two turns: %s", reply)
	}
	if fresh := p.say("s2", "hello"); strings.Contains(fresh, "17") {
		t.Errorf("a new session is not fresh: %s", fresh)
	}
}

// TestTwoProjectsSideBySide: each answers for itself, under one agent name and
// one session id.
func TestTwoProjectsSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	one, two := w.project(filepath.Join(dir, "one")), w.project(filepath.Join(dir, "two"))
	one.do("up")
	two.do("up")
	one.say("s", "I am one")
	two.say("s", "I am two")
	if reply := one.say("s", "who?"); !strings.Contains(reply, "I am one") || strings.Contains(reply, "two") {
		t.Errorf("the first project answers %s", reply)
	}
	if reply := two.say("s", "who?"); !strings.Contains(reply, "I am two") || strings.Contains(reply, "one") {
		t.Errorf("the second project answers %s", reply)
	}
	one.do("down")
	two.say("s", "still there?")
}

// TestC18_RemovedProjectLosesNoConversation: rm -rf, then the same flisk.yaml in a
// new directory of another name (C18).
func TestC18_RemovedProjectLosesNoConversation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	p := w.project(filepath.Join(dir, "bot"))
	p.do("up")
	p.say("s1", "remember 17")
	p.do("down")
	kept := filepath.Join(dir, "kept")
	if err := os.CopyFS(kept, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, filepath.Join(dir, "bot2")); err != nil {
		t.Fatal(err)
	}
	again := &project{world: w, dir: filepath.Join(dir, "bot2"), port: p.port}
	t.Cleanup(func() {
		again.do("down")
		if err := os.Rename(again.dir, p.dir); err != nil { // for the clean-up of p
			t.Fatal(err)
		}
	})
	if list := again.do("sessions", "list"); !strings.Contains(list, "s1") {
		t.Errorf("sessions list, with nothing running, does not show s1:\n%s", list)
	}
	again.do("up")
	if reply := again.say("s1", "what did I say?"); !strings.Contains(reply, "remember 17") {
		t.Errorf("the conversation is lost: %s", reply)
	}
}

// TestC29_IDs: what is no id is 400 and leaves no file; what looks dangerous
// and is one is an ordinary session.
func TestC29_IDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.project(filepath.Join(t.TempDir(), "bot"))
	p.do("up")
	volume := filepath.Join(w.home, "volumes")
	before := files(t, volume)
	for _, id := range []string{"../x", "a/b", "", "..", strings.Repeat("a", 5000)} {
		a, err := p.post(t.Context(), "bot", `"x"`, http.Header{turn.HeaderSession: {id}})
		if err != nil || a.status != http.StatusBadRequest || a.problem.Code != turn.BadSessionID {
			t.Errorf("id %.20q: status %d, problem %q, %v; want 400 %s", id, a.status, a.problem.Code, err, turn.BadSessionID)
		}
	}
	if after := files(t, volume); len(after) != len(before) {
		t.Errorf("refused ids left files:\n%s", strings.Join(after, "\n"))
	}
	valid := []string{"CON", "x.tmp", "A", "a"}
	for _, id := range valid {
		p.say(id, "I am "+id+".")
	}
	for _, id := range valid {
		view := p.session(id)
		if view.Turns != 1 || view.Messages[0].Text() != "I am "+id+"." {
			t.Errorf("session %q holds %d turns, first %q", id, view.Turns, view.Messages[0].Text())
		}
	}
	for _, path := range append(files(t, w.home), files(t, w.run)...) {
		if name := filepath.Base(path); name == "x" || name == "b" || strings.HasPrefix(name, "CON") || strings.HasPrefix(name, "x.tmp") {
			t.Errorf("a session id became a file name: %s", path)
		}
	}
}

// TestSessionsOfTwoAgents: s1 of one agent and s1 of another are two sessions.
func TestSessionsOfTwoAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.project(filepath.Join(t.TempDir(), "bot"))
	p.secondAgent("billing")
	p.do("up")
	p.do("turn", "for the bot", "-s", "s1", "--agent", "bot")
	a, err := p.post(t.Context(), "billing", `"for billing"`, http.Header{turn.HeaderSession: {"s1"}})
	if err != nil || a.status != http.StatusOK || a.result.Turn != 1 {
		t.Fatalf("billing answers %d %+v, %v", a.status, a.problem, err)
	}
	if view := p.session("s1"); view.Turns != 1 || view.Messages[0].Text() != "for the bot" {
		t.Errorf("s1 of the bot holds %d turns, first %q", view.Turns, view.Messages[0].Text())
	}
}

// TestC12_SIGTERMDuringATurn: a turn that takes five seconds, SIGTERM in its
// middle: the client gets 200, the turn is saved, the agent exits 0.
func TestC12_SIGTERMDuringATurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	p.do("up")
	pid := p.pid()
	got := make(chan answer, 1)
	go func() {
		a, err := p.post(context.Background(), "bot", `"5s"`, http.Header{turn.HeaderSession: {"s1"}})
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	eventually(t, 10*time.Second, "the turn runs", func() bool { return strings.Contains(p.do("logs"), "turn runs 5s") })
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.status != http.StatusOK || a.result.Turn != 1 {
		t.Errorf("the client got %d %+v", a.status, a.problem)
	}
	eventually(t, 10*time.Second, "the agent is replaced", func() bool { next := p.pid(); return next != 0 && next != pid })
	if view := p.session("s1"); view.Turns != 1 {
		t.Errorf("the session holds %d turns, want 1", view.Turns)
	}
	if logs := p.do("logs"); !strings.Contains(logs, "ended (exit code 0)") {
		t.Errorf("no word of exit code 0 in the logs:\n%s", logs)
	}
}
