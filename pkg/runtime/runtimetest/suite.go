package runtimetest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
)

// Suite is what every runtime does, a subtest each. place makes the place of one
// subtest.
func Suite(t *testing.T, place func(t *testing.T) Place) {
	for name, test := range map[string]func(*testing.T, Place){
		"up and down":              testUpDown,
		"restart":                  testRestart,
		"kill":                     testKill,
		"code":                     testCode,
		"settings":                 testSettings,
		"C12 C15 turn in flight":   testInFlight,
		"C14 open connections":     testOpenConnections,
		"C20 agent that ends":      testBroken,
		"C20 change that ends":     testBrokenChange,
		"C20 agent never ready":    testNeverReady,
		"logs":                     testLogs,
		"follow":                   testFollow,
		"two projects":             testTwoProjects,
		"port moves":               testPortMoves,
		"C18 directory moves":      testMove,
		"C18 volume renamed":       testVolumeRenamed,
		"C19 port in use":          testPortInUse,
		"second directory":         testSecondDirectory,
		"instance":                 testInstance,
		"agents come and go":       testAgents,
		"plan changes nothing":     testPlan,
		"interrupted up is undone": testInterrupted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, place(t))
		})
	}
}

// said fails the test unless a reply is of that turn and has all inputs in it.
func said(t *testing.T, a Answer, turn int, inputs string) {
	t.Helper()
	if want := fmt.Sprintf("%d: %s;", turn, inputs); a.Turn != turn || !strings.HasPrefix(a.Reply, want) {
		t.Errorf("turn %d said %q, want %q", a.Turn, a.Reply, want)
	}
}

func isFault(t *testing.T, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	if fault.KindOf(err) != kind {
		t.Errorf("%q is of kind %d, want %d", err, fault.KindOf(err), kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func testUpDown(t *testing.T, place Place) {
	p := NewProject(t, place)
	first := p.Up()
	if !first.Changed || !first.Created || first.URL != p.Setup.Stack.Gateway.URL() || first.Volume != p.Setup.Stack.Volume.Name || len(first.Replaced) > 0 {
		t.Errorf("the first up: %+v", first)
	}
	said(t, p.MustTurn("s1", "a"), 1, "a")
	before := p.Replica()
	if before.State != runtime.Ready || !before.Serving || before.Code != "c1" || before.PID == 0 || before.Generation != 1 {
		t.Errorf("the replica: %+v", before)
	}
	if again := p.Up(); again.Changed || again.Created || len(again.Replaced) > 0 {
		t.Errorf("the second up: %+v", again)
	}
	if after := p.Replica(); after.PID != before.PID || after.Start != before.Start {
		t.Errorf("the second up replaced %+v by %+v", before, after)
	}
	if down := p.Down(); !down.Changed {
		t.Errorf("down: %+v", down)
	}
	if o := p.Observe(); o.Running || o.URL != "" || len(o.Replicas) > 0 || len(o.Stale) > 0 {
		t.Errorf("after down: %+v", o)
	}
	if again := p.Down(); again.Changed {
		t.Errorf("the second down: %+v", again)
	}
	if up := p.Up(); !up.Changed || up.Created {
		t.Errorf("up after down: %+v", up)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
}

func testRestart(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	report := p.Restart()
	after := p.Replica()
	if len(report.Replaced) != 1 || !report.Changed {
		t.Fatalf("restart: %+v", report)
	}
	c := report.Replaced[0]
	if c.Agent != "bot" || c.Replica != "bot-1" || c.Exit != (runtime.Exit{}) ||
		c.Before != (runtime.Process{PID: before.PID, Start: before.Start}) || c.After != (runtime.Process{PID: after.PID, Start: after.Start}) {
		t.Errorf("replaced %+v, before %+v, after %+v", c, before, after)
	}
	if after.Generation != before.Generation+1 || after.Name != before.Name {
		t.Errorf("after the restart: %+v", after)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	if up := p.Up(); up.Changed {
		t.Errorf("up after a restart: %+v", up)
	}
	_, err := p.Driver().Restart(t.Context(), "nobody", p.P)
	isFault(t, err, fault.Usage, `no agent "nobody"`)
}

func testKill(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	changes, err := p.Driver().Kill(t.Context(), "bot")
	if err != nil || len(changes) != 1 {
		t.Fatalf("kill: %+v, %v", changes, err)
	}
	c := changes[0]
	if c.Exit.Signal != 9 || c.Exit.Code != -1 || c.Before != (runtime.Process{PID: before.PID, Start: before.Start}) || c.After == (runtime.Process{}) || c.After == c.Before {
		t.Errorf("kill: %+v of %+v", c, before)
	}
	Eventually(t, "the agent to be back", func() bool { return p.Replica().State == runtime.Ready })
	if n := p.Replica().Restarts; n != 1 {
		t.Errorf("a kill counts as %d restarts", n)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	if up := p.Up(); len(up.Replaced) > 0 {
		t.Errorf("up after a kill: %+v", up)
	}
	_, err = p.Driver().Kill(t.Context(), "nobody")
	isFault(t, err, fault.Failed, `agent "nobody" has no running process`)
	p.Down()
	_, err = p.Driver().Kill(t.Context(), "bot")
	isFault(t, err, fault.Failed, "nothing runs")
}

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

// Two checkouts of one name, with ids of their own.
func testTwoProjects(t *testing.T, place Place) {
	a, b := NewProject(t, place), NewProject(t, place)
	b.Setup.Stack.Name = a.Setup.Stack.Name
	a.Up()
	b.Up()
	a.MustTurn("s1", "a")
	if got := b.MustTurn("s1", "b"); got.Turn != 1 {
		t.Errorf("the other project's turn: %+v", got)
	}
	before := b.Replica()
	a.Restart()
	if _, err := a.Driver().Kill(t.Context(), "bot"); err != nil {
		t.Error(err)
	}
	a.Down()
	if after := b.Replica(); after.PID != before.PID || after.State != runtime.Ready {
		t.Errorf("the other project was touched: %+v, %+v", before, after)
	}
	said(t, b.MustTurn("s1", "c"), 2, "b c")
	b.Down()
	a.Up()
	said(t, a.MustTurn("s1", "d"), 2, "a d")
}

func testPortMoves(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	p.Setup.Stack.Gateway.Port = porttest.Free(t)
	report := p.Up()
	if !report.Changed || report.URL != p.Setup.Stack.Gateway.URL() {
		t.Errorf("up on another port: %+v", report)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	if up := p.Up(); up.Changed {
		t.Errorf("up again: %+v", up)
	}
}

func testMove(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	to := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(p.Setup.Stack.Dir, to); err != nil {
		t.Fatal(err)
	}
	p.Setup.Stack.Dir = to
	p.Setup.Stack.Agents[0].Dir = to
	p.Up()
	if o := p.Observe(); o.Dir != to {
		t.Errorf("it runs from %q", o.Dir)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	p.Down()
	p.Up()
	said(t, p.MustTurn("s1", "c"), 3, "a b c")
}

func testVolumeRenamed(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	name := p.Setup.Stack.Volume.Name
	p.Setup.Stack.Volume.Name = name + "-2"
	_, err := p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Environment, name, "flisk.yaml names")
	p.Setup.Stack.Volume.Name = name
	said(t, p.MustTurn("s1", "b"), 2, "a b")
}

func testPortInUse(t *testing.T, place Place) {
	p := NewProject(t, place)
	port := p.Setup.Stack.Gateway.Port
	free := Occupy(t, port)
	_, err := p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Environment, fmt.Sprintf("port %d is in use", port))
	if o := p.Observe(); o.Running || len(o.Stale) > 0 {
		t.Errorf("a failed up left %+v", o)
	}
	free()
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
}

func testSecondDirectory(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	dir := p.Setup.Stack.Dir
	p.Setup.Stack.Dir = t.TempDir()
	p.Setup.Stack.Agents[0].Dir = p.Setup.Stack.Dir
	for name, change := range map[string]func() error{
		"up":      func() error { _, err := p.Driver().Up(t.Context(), p.P); return err },
		"down":    func() error { _, err := p.Driver().Down(t.Context(), p.P); return err },
		"restart": func() error { _, err := p.Driver().Restart(t.Context(), "", p.P); return err },
		"kill":    func() error { _, err := p.Driver().Kill(t.Context(), "bot"); return err },
		"plan":    func() error { _, err := p.Driver().Plan(t.Context(), runtime.OpUp); return err },
	} {
		if err := change(); err == nil || fault.KindOf(err) != fault.Environment || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s from another directory: %v", name, err)
		}
	}
	p.Setup.Stack.Dir, p.Setup.Stack.Agents[0].Dir = dir, dir
	p.MustTurn("s1", "a")
}

// An instance runs beside the project, with conversations and a port of its own.
func testInstance(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	second := p.Setup
	second.Stack.Instance = "two"
	second.Stack.Volume.Name += "-two"
	for _, a := range second.Stack.Agents {
		place.Install(t, second, a.Name, "c1", place.Program.Path(t))
	}
	d := place.New(t, second)
	t.Cleanup(func() {
		if _, err := d.Down(context.Background(), p.P); err != nil {
			t.Error(err)
		}
		place.Clean(t, second)
	})
	report, err := d.Up(t.Context(), p.P)
	if err != nil {
		t.Fatal(err)
	}
	if report.URL == p.Setup.Stack.Gateway.URL() {
		t.Errorf("the instance has the project's port: %+v", report)
	}
	a := Send(t.Context(), http.DefaultClient, report.URL, "bot", "s1", "", "b")
	said(t, a, 1, "b")
	said(t, p.MustTurn("s1", "c"), 2, "a c")
	if again, err := place.New(t, second).Up(t.Context(), p.P); err != nil || again.Changed || again.URL != report.URL {
		t.Errorf("the second up of the instance: %+v, %v", again, err)
	}
}

func testAgents(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	bot := p.Replica()
	clerk := Agent(p.Setup.Stack.Dir, "clerk")
	p.Setup.Stack.Agents = append(p.Setup.Stack.Agents, clerk)
	p.Code("c1")
	if report := p.Up(); !report.Changed || len(report.Replaced) > 0 {
		t.Errorf("up with another agent: %+v", report)
	}
	o := p.Observe()
	if len(o.Replicas) != 2 || o.Replicas[0].PID != bot.PID || o.Replicas[1].Name != "clerk-1" || o.Replicas[1].State != runtime.Ready {
		t.Errorf("with another agent: %+v", o.Replicas)
	}
	if a := p.Turn("clerk", "s1", "", "x"); a.Status != http.StatusOK || a.Turn != 1 {
		t.Errorf("the other agent's turn: %+v", a)
	}
	p.Setup.Stack.Agents = p.Setup.Stack.Agents[:1]
	_, err := p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Environment, `1 session of agent "clerk"`, "no such agent")
	p.Setup.LeaveAgents = true
	p.Up()
	p.Setup.LeaveAgents = false
	if up := p.Up(); up.Changed {
		t.Errorf("up without the agent, again: %+v", up)
	}
	if now := p.Replica(); now.PID != bot.PID {
		t.Errorf("the other agent was replaced: %+v", now)
	}
	p.Setup.Stack.Agents = append(p.Setup.Stack.Agents, clerk)
	p.Code("c1")
	p.Up()
	if a := p.Turn("clerk", "s1", "", "y"); a.Turn != 2 {
		t.Errorf("the agent that is back: %+v", a)
	}
}

func testPlan(t *testing.T, place Place) {
	p := NewProject(t, place)
	plan, err := p.Driver().Plan(t.Context(), runtime.OpUp)
	if err != nil || !plan.Changes() {
		t.Errorf("the plan of the first up: %v\n%s", err, plan)
	}
	if o := p.Observe(); o.Running {
		t.Errorf("a plan started %+v", o)
	}
	p.Up()
	before := p.Replica()
	if plan, err = p.Driver().Plan(t.Context(), runtime.OpUp); err != nil || len(plan) > 0 {
		t.Errorf("the plan of the second up: %v\n%s", err, plan)
	}
	if plan, err = p.Driver().Plan(t.Context(), runtime.OpRestart, "bot"); err != nil || !plan.Changes() {
		t.Errorf("the plan of a restart: %v\n%s", err, plan)
	}
	if plan, err = p.Driver().Plan(t.Context(), runtime.OpDown); err != nil || len(plan) != 2 {
		t.Errorf("the plan of a down: %v\n%s", err, plan)
	}
	_, err = p.Driver().Plan(t.Context(), runtime.OpRestart, "nobody")
	isFault(t, err, fault.Usage, `no agent "nobody"`)
	if after := p.Replica(); after.PID != before.PID {
		t.Errorf("a plan replaced %+v by %+v", before, after)
	}
}

// Ctrl-C while an up waits: what it had started is stopped again.
func testInterrupted(t *testing.T, place Place) {
	p := NewProject(t, place)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	steps := &interrupter{Progress: p.P, cancel: cancel}
	_, err := p.Driver().Up(ctx, steps)
	isFault(t, err, fault.Interrupted, "interrupted")
	if o := p.Observe(); o.Running || len(o.Replicas) > 0 || len(o.Stale) > 0 {
		t.Errorf("an interrupted up left %+v", o)
	}
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
}

// interrupter ends a context when the first agent is waited for.
type interrupter struct {
	runtime.Progress
	cancel func()
}

func (i *interrupter) Begin(step string) func(string, error) {
	if strings.HasPrefix(step, "start bot") {
		i.cancel()
	}
	return i.Progress.Begin(step)
}
