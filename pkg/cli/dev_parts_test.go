package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/source"
)

// TestDevQuotesNothingTwice: what an agent printed before it failed is there once,
// whether the log or the error comes first.
func TestDevQuotesNothingTwice(t *testing.T) {
	t.Parallel()
	stack := []string{"panic: no key", "", "goroutine 1 [running]:", "main.main()", "[flisk] ended before it was ready (exit code 2)"}
	failed := dev.Event{
		Kind: dev.Failed, Agents: []string{"bot"}, Step: runtime.Await,
		Err: &fault.Fault{Kind: fault.Failed, Message: "bot-1 ended before it was ready (exit code 2)", Detail: strings.Join(stack, "\n")},
	}
	for first := range len(stack) + 1 { // so many lines of the log come before the error
		var out bytes.Buffer
		s := newDevScreen(&app{streams: &console.Streams{Out: console.NewOutput(&out, console.OutputOptions{})}}, console.NewProgress(console.NewOutput(&out, console.OutputOptions{}), ""))
		s.show([]string{"bot"})
		for again := range 2 { // also when it happens again
			out.Reset()
			s.tell(dev.Event{Kind: dev.Reloading, Agents: []string{"bot"}})
			for i, line := range append(stack, "and on it goes") {
				if i == first {
					s.tell(failed)
				}
				if err := s.log(runtime.Line{Replica: "bot-1", Text: line}); err != nil {
					t.Fatal(err)
				}
			}
			for _, line := range []string{"panic: no key", "goroutine 1", "main.main", "exit code 2", "and on it goes"} {
				if n := strings.Count(out.String(), line); n != 1 {
					t.Errorf("%d lines before the error, attempt %d: %q is there %d times:\n%s", first, again, line, n, out.String())
				}
			}
		}
		s.close()
	}
}

// TestDevJSONLog: a line of a log has the number of the reload whose code serves.
func TestDevJSONLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{streams: &console.Streams{Out: console.NewOutput(&out, console.OutputOptions{})}}
	a.global.json = true
	s := newDevScreen(a, console.Silent())
	s.show([]string{"bot", "my-clerk"})
	both := []string{"bot", "my-clerk"}
	log := func(replica string, want int) {
		t.Helper()
		out.Reset()
		if err := s.log(runtime.Line{Replica: replica, Text: "hi"}); err != nil {
			t.Fatal(err)
		}
		var line DevJSON
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Reload != want || line.Log.Replica != replica {
			t.Errorf("got %+v, %v; want reload %d", line, err, want)
		}
	}
	log("bot-1", 0)
	s.tell(dev.Event{Kind: dev.Reloaded, Agents: both})
	s.tell(dev.Event{Kind: dev.Reloaded, Reload: 1, Agents: both[1:]})
	log("bot-1", 0)
	log("my-clerk-12", 1)
	s.tell(dev.Event{Kind: dev.Failed, Reload: 2, Agents: both, Err: errDeclined})
	log("my-clerk-1", 1)
	s.tell(dev.Event{Kind: dev.Reloaded, Reload: 2, Agents: both})
	log("bot-1", 2)
	log("nobody", 0)
}

// TestDevJSONSteps: a step without an object has no gap in its text.
func TestDevJSONSteps(t *testing.T) {
	t.Parallel()
	j := devJSON(dev.Event{Kind: dev.Reloading, Steps: runtime.Plan{{Do: runtime.StartGateway, Cause: "nothing listens yet"}}})
	if want := []string{"start gateway: nothing listens yet"}; !slices.Equal(j.Steps, want) {
		t.Errorf("got %q", j.Steps)
	}
}

// TestDevRowOfAnAgentThatLeaves is there until it has ended.
func TestDevRowOfAnAgentThatLeaves(t *testing.T) {
	t.Parallel()
	rows := devRows{}.name([]string{"bot", "clerk"})
	rows = rows.note(dev.Event{Kind: dev.Reloaded, Agents: []string{"bot", "clerk"}})
	says := func(want string) {
		t.Helper()
		row := rows.of("clerk")
		got := "gone"
		if row != nil {
			got = row.line(len("clerk"), time.Time{})
			got = strings.TrimSpace(strings.SplitN(got, row.name, 2)[1])
		}
		if !strings.Contains(got, want) {
			t.Errorf("the row says %q, want %q", got, want)
		}
	}
	rows = rows.name([]string{"bot"})
	rows = rows.note(dev.Event{Kind: dev.Failed, Reload: 1, Agents: []string{"bot"}, Broken: []string{"bot"}, Err: errDeclined})
	says("leaving")
	rows = rows.note(dev.Event{Kind: dev.Reloaded, Reload: 1, Draining: map[string]int{"clerk": 1}})
	says("1 draining")
	rows = rows.note(dev.Event{Kind: dev.Drained, Reload: 1})
	says("gone")

	rows = rows.name([]string{"bot", "clerk"})
	rows = rows.note(dev.Event{Kind: dev.Reloaded, Reload: 2, Agents: []string{"clerk"}})
	rows = rows.name([]string{"bot"})
	says("leaving")
	rows = rows.note(dev.Event{Kind: dev.Unchanged, Reload: 2}) // another command took it away
	says("gone")
}

// TestDevRowOfTwoReplicas shows the one in trouble, and which it is.
func TestDevRowOfTwoReplicas(t *testing.T) {
	t.Parallel()
	rows := devRows{}.name([]string{"bot"})
	rows = rows.note(dev.Event{Kind: dev.Reloaded, Agents: []string{"bot"}})
	tell := func(kind dev.Kind, name string, state runtime.State) {
		rows = rows.note(dev.Event{Kind: kind, Agents: []string{"bot"}, Replica: runtime.Replica{Name: name, State: state, Restarts: 2, Exit: &runtime.Exit{Code: -1, Signal: 9}}})
	}
	for _, c := range []struct {
		kind  dev.Kind
		name  string
		state runtime.State
		want  string
	}{
		{dev.Failing, "bot-2", runtime.Ready, "ready · restarted (signal 9 (killed), 2 times) · bot-2"},
		{dev.Failing, "bot-3", runtime.Failing, "restarting (signal 9 (killed), 2 times) · bot-3"},
		{dev.Failing, "bot-1", runtime.Draining, "restarting (signal 9 (killed), 2 times) · bot-3"},
		{dev.Ready, "bot-3", runtime.Ready, "draining · bot-1"},
		{dev.Ready, "bot-2", runtime.Ready, "draining"},
		{dev.Ready, "bot-1", runtime.Ready, "ready"},
	} {
		tell(c.kind, c.name, c.state)
		var out bytes.Buffer
		if _, err := console.NewOutput(&out, console.OutputOptions{}).Write([]byte(rows.of("bot").line(3, time.Time{}))); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != "● bot  "+c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.state, got, c.want)
		}
	}
}

// TestALoneFile: one file that is no source and changes alone again and again is
// named, once.
func TestALoneFile(t *testing.T) {
	t.Parallel()
	file := func(path string, kind source.Kind) []source.Change {
		return []source.Change{{Path: path, Kind: kind, Op: source.Modified}}
	}
	data, notes := file("data.db", source.Code), file("notes.md", source.Code)
	for name, c := range map[string]struct {
		saves [][]source.Change
		want  string
	}{
		"three times in a row":     {[][]source.Change{data, data, data, data, data}, "data.db"},
		"a reload in between":      {[][]source.Change{data, data, nil, data}, "data.db"},
		"another one in between":   {[][]source.Change{data, data, notes, data, data}, ""},
		"others with it":           {[][]source.Change{data, data, append(data, notes...)}, ""},
		"source":                   {[][]source.Change{file("a.go", source.Code), file("a.go", source.Code), file("a.go", source.Code)}, ""},
		"what the go command read": {[][]source.Change{file("lib/go.mod", source.Code), file("lib/go.mod", source.Code), file("lib/go.mod", source.Code)}, ""},
		"a setting":                {[][]source.Change{file(".env", source.EnvFile), file(".env", source.EnvFile), file(".env", source.EnvFile)}, ""},
	} {
		var l lone
		var got []string
		for _, files := range c.saves {
			if named := l.saved(files); named != "" {
				got = append(got, named)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: named %q, want %q", name, got, c.want)
		}
	}
}
