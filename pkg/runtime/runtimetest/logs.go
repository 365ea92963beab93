package runtimetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

func testLogs(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "1ms")
	var lines []runtime.Line
	read := func(o runtime.LogOptions) error {
		lines = nil
		return p.Driver().Logs(t.Context(), o, func(l runtime.Line) error { lines = append(lines, l); return nil })
	}
	Eventually(t, "the turn in the log", func() bool {
		return read(runtime.LogOptions{Tail: -1}) == nil && slices.ContainsFunc(lines, func(l runtime.Line) bool { return l.Text == "a turn of 1ms begins" })
	})
	for _, l := range lines {
		if l.Replica != "bot-1" || time.Since(l.Time) > time.Minute {
			t.Errorf("the line %+v", l)
		}
	}
	if err := read(runtime.LogOptions{Tail: 1}); err != nil || len(lines) != 1 {
		t.Errorf("the last line: %v, %+v", err, lines)
	}
	if err := read(runtime.LogOptions{Agent: "bot", Tail: 0}); err != nil || len(lines) != 0 {
		t.Errorf("no lines: %v, %+v", err, lines)
	}
	isFault(t, read(runtime.LogOptions{Agent: "nobody"}), fault.Usage, `no agent "nobody"`)
	stays := func(when string) {
		t.Helper()
		turns := 0
		err := read(runtime.LogOptions{Agent: "bot", Tail: -1})
		for _, l := range lines {
			if l.Replica == "bot-1" && l.Text == "a turn of 1ms begins" {
				turns++
			}
		}
		if err != nil || turns != 1 {
			t.Errorf("%s the turn is %d times in the log, %v", when, turns, err)
		}
	}
	p.Restart()
	stays("after a restart")
	p.Down()
	stays("after down")
}

// A follow goes on over a restart, and ends with its context.
func testFollow(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	texts, ended := make(chan string, 1000), make(chan error, 1)
	go func() {
		ended <- p.Driver().Logs(ctx, runtime.LogOptions{Tail: -1, Follow: true}, func(l runtime.Line) error {
			texts <- l.Text
			return nil
		})
	}()
	await := func(text string) {
		t.Helper()
		for {
			select {
			case got := <-texts:
				if strings.Contains(got, text) {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%q is not in the log", text)
			}
		}
	}
	p.MustTurn("s1", "1ms")
	await("a turn of 1ms begins")
	p.Restart()
	p.MustTurn("s1", "2ms")
	await("a turn of 2ms begins")
	for _, input := range []string{"3ms", "4ms", "5ms"} {
		if input == "4ms" {
			p.Restart()
		}
		if _, err := p.Driver().Kill(t.Context(), "bot"); err != nil {
			t.Fatal(err)
		}
		Eventually(t, "the agent to be back", func() bool { return p.Replica().State == runtime.Ready })
		p.MustTurn("s1", input)
		await("a turn of " + input + " begins")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the follow ended with %v", err)
	}
}

// A follow tells that an agent ended by itself or was killed, behind what that wrote
// last, and of no end that was asked for.
func testFollowEnds(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, ended := make(chan runtime.Line, 1000), make(chan error, 1)
	go func() {
		ended <- p.Driver().Logs(ctx, runtime.LogOptions{Tail: -1, Follow: true}, func(l runtime.Line) error {
			lines <- l
			return nil
		})
	}()
	var told, texts []string
	awaitTold := func(what string) {
		t.Helper()
		for {
			select {
			case l := <-lines:
				texts = append(texts, l.Text)
				text, flisk := strings.CutPrefix(l.Text, "[flisk] ")
				if !flisk {
					continue
				}
				if l.Replica != "bot-1" || time.Since(l.Time) > time.Minute {
					t.Errorf("the line %+v", l)
				}
				if told = append(told, text); text == what {
					return
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%q is not told, only %q", what, told)
			}
		}
	}
	back := func() {
		t.Helper()
		Eventually(t, "the agent to be back", func() bool { r := p.Observe().Replicas; return len(r) == 1 && r[0].State == runtime.Ready })
	}
	kill := func() {
		t.Helper()
		if _, err := p.Driver().Kill(t.Context(), "bot"); err != nil {
			t.Fatal(err)
		}
		awaitTold("ended (signal 9 (killed)); starting it again")
		back()
	}
	<-lines // it goes on from here
	p.MustTurn("s1", "1ms")
	for l := range lines {
		if l.Text == "a turn of 1ms begins" {
			break
		}
	}
	p.Turn("bot", "s2", "", "exit") // whatever comes of it
	awaitTold("ended (exit code 1); starting it again")
	if !slices.Contains(texts, "it exits") {
		t.Errorf("it is not told behind the last words: %q", texts)
	}
	back()
	kill()
	p.Restart()
	p.MustTurn("s1", "b")
	kill()
	if len(told) != 3 {
		t.Errorf("told were %q", told)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the follow ended with %v", err)
	}
}
