package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// devEvents is a day's work.
func devEvents() []dev.Event {
	at := time.Date(2026, 11, 29, 15, 4, 5, 0, time.Local)
	ms := time.Millisecond
	step := func(do runtime.Action, agent string, cause string) runtime.Step {
		return runtime.Step{Do: do, Agent: agent, Replica: agent + "-1", Generation: 2, Cause: cause}
	}
	bot, both := []string{"bot"}, []string{"bot", "clerk"}
	replica := func(state runtime.State, restarts int, exit *runtime.Exit) runtime.Replica {
		return runtime.Replica{Agent: "bot", Name: "bot-1", State: state, Restarts: restarts, Exit: exit}
	}
	three := &runtime.Exit{Code: 3}
	moved := "the gateway moves from 127.0.0.1:8080 to 127.0.0.1:9090"
	return []dev.Event{
		{Kind: dev.Reloaded, Report: runtime.Report{URL: "http://127.0.0.1:8080"}, Agents: []string{"bot", "clerk"}},
		{Kind: dev.Reloading, Time: at, Reload: 1, Paths: []string{"new.go", "old.go", "turn.go"}, New: []string{"new.go"}, Removed: []string{"old.go"}, Agents: bot, Steps: runtime.Plan{step(runtime.Start, "bot", "its code changed")}},
		{Kind: dev.Doing, Time: at, Reload: 1, Agents: bot, Step: runtime.Build},
		{Kind: dev.Doing, Time: at.Add(-12 * time.Second), Reload: 1, Agents: bot, Step: runtime.Await},
		{
			Kind: dev.Reloaded, Time: at.Add(time.Second), Reload: 1, Paths: []string{"turn.go"}, Agents: bot,
			Spans: dev.Spans{Detect: 104 * ms, Plan: 6 * ms, Build: 612 * ms, Start: 31 * ms, Switch: 4 * ms},
		},
		{Kind: dev.Waiting, Time: at.Add(time.Second), Reload: 1, Paths: []string{"turn.go"}, Draining: map[string]int{"bot": 8}},
		{Kind: dev.Reloaded, Time: at.Add(time.Second), Reload: 2, Agents: bot, Unsettled: true, Draining: map[string]int{"bot": 1}},
		{Kind: dev.Drained, Time: at.Add(2 * time.Second), Reload: 1, Agents: bot, Took: 20 * ms, Replaced: []runtime.Change{{Agent: "bot", Replica: "bot-1"}}},
		{Kind: dev.Drained, Time: at.Add(2 * time.Second), Reload: 1, Agents: bot, Took: 62 * time.Second, Replaced: []runtime.Change{{Agent: "bot", Replica: "bot-1"}}},
		{Kind: dev.Drained, Time: at.Add(2 * time.Second), Reload: 1, Agents: bot, Took: 20 * ms, Replaced: []runtime.Change{{Agent: "bot", Replica: "bot-1", Exit: runtime.Exit{Code: -1, Signal: 9}}}},
		{Kind: dev.Drained, Time: at.Add(2 * time.Second), Reload: 1, Agents: bot, Err: errors.New("the Docker engine went away")},
		{Kind: dev.Unchanged, Time: at.Add(3 * time.Second), Reload: 2, Paths: []string{"a.md", "b.md", "c.md", "d.md", "e.md"}},
		{Kind: dev.Reloading, Time: at.Add(4 * time.Second), Reload: 2, Paths: []string{"flisk.yaml"}, Agents: bot, Steps: runtime.Plan{step(runtime.Start, "bot", "turn_timeout 1m40s → 1m30s")}},
		{
			Kind: dev.Failed, Time: at.Add(5 * time.Second), Reload: 2, Paths: []string{"turn.go"}, Agents: both, Step: runtime.Build, Broken: bot,
			Err: &fault.Fault{
				Kind: fault.Failed, Message: `agent "bot" does not build`, Hint: "correct it and try again; what ran before still runs",
				Detail: "# example.com/bot\n./turn.go:12:2: undefined: " + strings.Repeat("x", 80) + "\x1b[2J",
			},
		},
		{Kind: dev.Dropped, Time: at.Add(6 * time.Second), Reload: 2, Agents: bot},
		{Kind: dev.Unchanged, Time: at.Add(6 * time.Second), Reload: 2, Paths: []string{"turn.go"}},
		{Kind: dev.Reloading, Time: at.Add(6 * time.Second), Reload: 3, Paths: []string{"flisk.yaml"}, Agents: both, Steps: runtime.Plan{
			step(runtime.Start, "bot", moved), step(runtime.Start, "clerk", moved),
			{Do: runtime.SwapGateway, Cause: moved},
		}},
		{Kind: dev.Reloading, Time: at.Add(6 * time.Second), Reload: 3, Paths: []string{"flisk.yaml"}, Agents: both, Steps: runtime.Plan{
			{Do: runtime.StopGateway, Cause: moved}, {Do: runtime.StartGateway, Cause: "nothing listens on 127.0.0.1:9090 yet"},
			step(runtime.Start, "bot", moved), step(runtime.Start, "clerk", moved),
		}},
		{Kind: dev.Reloaded, Time: at.Add(6 * time.Second), Reload: 3, Paths: []string{"flisk.yaml"}, Agents: both, Spans: dev.Spans{Start: 9 * ms}},
		{Kind: dev.Failing, Time: at.Add(6 * time.Second), Reload: 3, Agents: bot, Replica: replica(runtime.Ready, 1, three)},
		{Kind: dev.Failing, Time: at.Add(6 * time.Second), Reload: 3, Agents: bot, Replica: replica(runtime.Failing, 7, three)},
		{Kind: dev.Ready, Time: at.Add(6 * time.Second), Reload: 3, Agents: bot, Replica: replica(runtime.Ready, 7, three)},
		{Kind: dev.Failing, Time: at.Add(6 * time.Second), Reload: 3, Agents: bot, Replica: replica(runtime.Starting, 8, nil)},
		{Kind: dev.Ready, Time: at.Add(6 * time.Second), Reload: 3, Agents: bot, Replica: replica(runtime.Ready, 1, three)},
		{Kind: dev.Restarted, Time: at.Add(6 * time.Second), Reload: 3, Agents: both},
		{Kind: dev.Lost, Time: at.Add(7 * time.Second), Agents: bot, Err: errors.New("bot-1: its container was removed, and not by flisk; bringing it back")},
		{Kind: dev.Back, Time: at.Add(8 * time.Second)},
		{Kind: dev.Lost, Time: at.Add(7 * time.Second), Err: fault.New(fault.Environment, "start Docker", "no Docker engine answers")},
		{Kind: dev.Back, Time: at.Add(8 * time.Second)},
		{Kind: dev.Failed, Time: at.Add(8 * time.Second), Reload: 4, Agents: bot, Err: fault.New(fault.Environment, "start Docker", "no Docker engine answers"), Known: true},
		{Kind: dev.Unchanged, Time: at.Add(8 * time.Second), Reload: 4},
		{Kind: dev.Paused, Time: at.Add(9 * time.Second), Paths: []string{"state.json"}, Agents: bot, Wait: 16 * time.Second, Most: 30 * time.Second},
		{Kind: dev.Paused, Time: at.Add(9 * time.Second), Paths: []string{"state.json"}, Agents: bot, Wait: 30 * time.Second, Most: 30 * time.Second, Known: true},
		{Kind: dev.Reloaded, Time: at.Add(9 * time.Second), Reload: 4, Left: []string{"clerk"}, Draining: map[string]int{"clerk": 1}},
		{Kind: dev.Stopping, Time: at.Add(10 * time.Second), Agents: both},
		{Kind: dev.Stopping, Time: at.Add(10 * time.Second), Agents: []string{"clerk"}},
		{Kind: dev.Stopped, Time: at.Add(10 * time.Second), Outcome: dev.Elsewhere},
	}
}

// TestDevScreen: the lines of every event, on a terminal of 80 columns and into a
// pipe.
func TestDevScreen(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]console.OutputOptions{
		"terminal": {Terminal: true, Width: func() int { return 80 }},
		"pipe":     {},
	} {
		var out bytes.Buffer
		a := &app{streams: &console.Streams{Out: console.NewOutput(&out, options)}}
		s := newDevScreen(a, console.NewProgress(a.streams.Out, ""))
		s.show([]string{"bot", "clerk"})
		for _, e := range devEvents() {
			s.tell(e)
		}
		for _, text := range []string{
			"level=INFO msg=started agent=bot", "level=INFO msg=draining in_flight=0", // the loop says the same
			"thinking about\tit \x1b[31m" + strings.Repeat("and about it ", 10), "level=WARN msg=careful",
		} {
			if err := s.log(runtime.Line{Time: devEvents()[1].Time, Replica: "bot-1", Text: text}); err != nil {
				t.Fatal(err)
			}
		}
		s.close()
		golden(t, "dev-"+name, out.String())
		for line := range strings.Lines(out.String()) {
			if w := console.Width(strings.TrimSuffix(line, "\n")); options.Width != nil && w > 80 {
				t.Errorf("a line of %d columns: %q", w, line)
			}
		}
	}
}

// TestDevStatusLine: the bottom line of an agent says what it does right now.
func TestDevStatusLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{streams: &console.Streams{Out: console.NewOutput(&out, console.OutputOptions{Terminal: true, Redraw: true, Width: func() int { return 80 }})}}
	s := newDevScreen(a, console.NewProgress(a.streams.Out, ""))
	s.now = func() time.Time { return devEvents()[1].Time }
	s.show([]string{"bot", "clerk"})
	var last []string
	for _, e := range devEvents() {
		out.Reset()
		s.tell(e)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		last = append(last, string(e.Kind)+": "+strings.Join(lines[max(0, len(lines)-2):], " | "))
	}
	s.close()
	golden(t, "dev-status", strings.Join(last, "\n")+"\n")
}

// TestDevWarnsOnce: what is odd at the start is not said again by the first reload,
// and a program is told it, too.
func TestDevWarnsOnce(t *testing.T) {
	t.Parallel()
	const odd = "a stop can cut a turn short"
	for _, args := range [][]string{{"dev"}, {"dev", "--json"}} {
		dir := projectDir(t, false)
		path := filepath.Join(dir, "flisk.yaml")
		settings, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		short := bytes.Replace(settings, []byte("{path: .}"), []byte("{path: ., drain: 5s}"), 1)
		if bytes.Equal(short, settings) {
			t.Fatalf("no agent in\n%s", settings)
		}
		if err := os.WriteFile(path, short, 0o600); err != nil {
			t.Fatal(err)
		}
		got := run{driver: startless(), environ: []string{"FLISK_HOME=" + t.TempDir()}}.do(t, append(args, "-C", dir)...)
		if strings.Count(got.out, odd) != 1 || strings.Contains(got.err, odd) {
			t.Errorf("%q:\n%s%s", args, got.out, got.err)
		}
	}
}

// startless is a driver whose up fails for lack of a port.
func startless() *fakeDriver {
	return &fakeDriver{
		up: func(context.Context, runtime.Progress) (runtime.Report, error) {
			return runtime.Report{}, fault.New(fault.Environment, "free it", "port 8080 is taken")
		},
		down: func(context.Context, runtime.Progress) (runtime.Report, error) { return runtime.Report{}, nil },
		logs: func(ctx context.Context, _ runtime.LogOptions, _ func(runtime.Line) error) error {
			<-ctx.Done()
			return nil
		},
	}
}

// TestDevRefusals: what ends flisk dev before it begins.
func TestDevRefusals(t *testing.T) {
	t.Parallel()
	got := run{}.do(t, "-C", t.TempDir(), "dev", "--json")
	if got.code != int(fault.Usage) || !strings.Contains(got.err, `"exit_code":2`) {
		t.Errorf("no project: exit code %d\n%s%s", got.code, got.out, got.err)
	}
	got = run{driver: startless(), environ: []string{"FLISK_HOME=" + t.TempDir()}}.do(t, "-C", projectDir(t, false), "dev")
	if got.code != int(fault.Environment) || !strings.Contains(got.err, "port 8080 is taken") {
		t.Errorf("a port that is taken: exit code %d\n%s%s", got.code, got.out, got.err)
	}
}
