package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
)

func running(started time.Time) runtime.Observed {
	return runtime.Observed{
		Running: true, GatewayPID: 4242,
		Dir:    "/home/ann/shop",
		URL:    "http://127.0.0.1:8080",
		Volume: "flisk-shop-9f2c41d07a3e",
		Place:  "/home/ann/.local/share/flisk/volumes/flisk-shop-9f2c41d07a3e",
		Replicas: []runtime.Replica{
			{Agent: "bot", Name: "bot-1", State: runtime.Ready, PID: 4711, Started: started, Code: "9f2c41d07a3e9f2c"},
			{Agent: "clerk", Name: "clerk-1", State: runtime.Failing, Started: started, Restarts: 12, Code: "0a1b2c3d4e5f0a1b", Detail: "exit status 1 \x1b[31mpanic"},
		},
		Stale: []string{"what a killed process left"},
	}
}

func observing(o runtime.Observed) *fakeDriver {
	return &fakeDriver{observe: func() (runtime.Observed, error) { return o, nil }}
}

func TestStatusGolden(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, true)
	r := run{driver: observing(running(time.Now().Add(-5*time.Minute - time.Second))), terminal: true}
	got := r.do(t, "status", "-C", dir)
	golden(t, "status", got.out+"-- stderr\n"+got.err)
	if got.code != 0 {
		t.Errorf("code %d", got.code)
	}
	stopped := runtime.Observed{Volume: "flisk-shop-9f2c41d07a3e", Place: "/home/ann/volumes/flisk-shop-9f2c41d07a3e"}
	got = run{driver: observing(stopped), terminal: true}.do(t, "status", "-C", dir)
	golden(t, "status-stopped", got.out+"-- stderr\n"+got.err)
	if got.code != 0 {
		t.Errorf("code %d when nothing runs", got.code)
	}
}

// What a killed gateway process left is told as what it is, with the way back.
func TestStatusAfterTheGatewayWasKilled(t *testing.T) {
	t.Parallel()
	left := runtime.Observed{Running: true, Replicas: []runtime.Replica{{Agent: "bot", Name: "bot-1", State: runtime.Draining, PID: 4711}}, Stale: []string{"it was killed; flisk up"}}
	got := run{driver: observing(left)}.do(t, "status", "-C", projectDir(t, false))
	if got.code != 0 || !strings.Contains(got.out, " 4711  -  ") || !strings.Contains(got.out, "\ngateway  does not run\n") || got.err != "warning: it was killed; flisk up\n" {
		t.Errorf("got %+v", got)
	}
	hung := runtime.Observed{Running: true, GatewayPID: 4242}
	got = run{driver: observing(hung)}.do(t, "status", "-C", projectDir(t, false))
	if !strings.Contains(got.out, "gateway  does not answer (process 4242)\n") {
		t.Errorf("got %+v", got)
	}
}

func TestStatusJSON(t *testing.T) {
	t.Parallel()
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := run{driver: observing(running(started))}.do(t, "status", "-C", projectDir(t, true), "--json")
	golden(t, "status.json", got.out)
	if got.code != 0 || got.err != "" {
		t.Errorf("got %+v", got)
	}
}

// upDriver changes something when changed is set.
func upDriver(changed, created bool) *fakeDriver {
	d := observing(running(time.Now()))
	d.up = func(_ context.Context, p runtime.Progress) (runtime.Report, error) {
		if changed {
			p.Begin("build bot")("1.2 s", nil)
			p.Begin("start bot-1")("", nil)
		}
		return runtime.Report{Changed: changed, URL: "http://127.0.0.1:8080", Volume: "flisk-shop-9f2c41d07a3e", Created: created}, nil
	}
	return d
}

func TestUpGolden(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for name, d := range map[string]*fakeDriver{
		"up-new":       upDriver(true, true),
		"up-existing":  upDriver(true, false),
		"up-unchanged": upDriver(false, false),
	} {
		got := run{driver: d, terminal: true}.do(t, "up", "-C", dir)
		golden(t, name, got.out+"-- stderr\n"+got.err)
		if got.code != 0 {
			t.Errorf("%s: code %d", name, got.code)
		}
	}
}

func TestUpJSON(t *testing.T) {
	t.Parallel()
	got := run{driver: upDriver(true, true)}.do(t, "up", "-C", projectDir(t, false), "--json")
	var v UpJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.err != "" {
		t.Fatalf("%v in %+v", err, got)
	}
	if !v.Changed || strings.Join(v.Steps, ", ") != "build bot, start bot-1" || !v.Volume.Created || len(v.Agents) != 2 {
		t.Errorf("got %+v", v)
	}
}

func TestUpShowsACompileErrorAsTheCompilerDoes(t *testing.T) {
	t.Parallel()
	d := observing(runtime.Observed{})
	d.up = func(_ context.Context, p runtime.Progress) (runtime.Report, error) {
		err := &fault.Fault{
			Kind: fault.Failed, Message: `cannot build agent "bot"`, Hint: "mend it, then run flisk up again",
			Detail: "./turn.go:12:2: undefined: answer\n",
		}
		p.Begin("build bot")("", err)
		return runtime.Report{}, err
	}
	got := run{driver: d, terminal: true}.do(t, "up", "-C", projectDir(t, false))
	want := "✗ build bot\nflisk: cannot build agent \"bot\"\n  ./turn.go:12:2: undefined: answer\nhint: mend it, then run flisk up again\n"
	if got.code != 1 || got.out != "" || got.err != want {
		t.Errorf("got %+v, want\n%s", got, want)
	}
}

func TestDownGolden(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for name, changed := range map[string]bool{"down": true, "down-nothing": false} {
		d := observing(runtime.Observed{Volume: "flisk-shop-9f2c41d07a3e"})
		d.down = func(_ context.Context, p runtime.Progress) (runtime.Report, error) {
			if changed {
				p.Begin("stop bot-1")("", nil)
			}
			return runtime.Report{Changed: changed}, nil
		}
		got := run{driver: d, terminal: true}.do(t, "down", "-C", dir)
		golden(t, name, got.out+"-- stderr\n"+got.err)
		if got.code != 0 {
			t.Errorf("%s: code %d", name, got.code)
		}
	}
}

// The first signal only says that the drain goes on; the second one forces.
func TestC13SecondSignalForcesADrain(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	progress := console.NewProgress(console.NewOutput(&said, console.OutputOptions{}), "")
	ctx, force := context.WithCancel(t.Context())
	signals, over, done := make(chan os.Signal), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		quietApp().watchDrain(progress, signals, force, over)
	}()
	signals <- syscall.SIGINT
	if ctx.Err() != nil {
		t.Fatal("the first signal forced")
	}
	signals <- syscall.SIGINT
	<-ctx.Done()
	signals <- syscall.SIGTERM // a third one changes nothing
	close(over)
	<-done
	if got := said.String(); strings.Count(got, "draining:") != 1 || strings.Count(got, "forced:") != 1 {
		t.Errorf("it said %q", got)
	}
}

// A terminal that closes interrupts like Ctrl-C; the second hangup, which the
// shell sends, does not cut the clean-up off. Not parallel: the signal reaches
// every test that waits for one.
func TestC13AClosedTerminalInterrupts(t *testing.T) {
	hangUp := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	again := make(chan os.Signal, 2)
	cleaned := false
	err := quietApp().interruptible(t.Context(), func(ctx context.Context) error {
		hangUp()
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			return errors.New("the hangup was not noticed")
		}
		hangUp() // by its default it ends this process
		signal.Notify(again, syscall.SIGHUP)
		defer signal.Stop(again)
		hangUp()
		<-again
		cleaned = true
		return ctx.Err()
	})
	if f := asFault(err); f.Kind != fault.Interrupted || !cleaned {
		t.Errorf("it ended with %+v, cleaned up: %t", f, cleaned)
	}
}

// A drain goes on without the terminal. Not parallel: see above.
func TestC13AClosedTerminalCutsNoDrainOff(t *testing.T) {
	noticed := make(chan os.Signal, 1)
	err := quietApp().draining(t.Context(), console.Silent(), func(ctx context.Context) error {
		signal.Notify(noticed, syscall.SIGHUP)
		defer signal.Stop(noticed)
		for range 2 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil { // by its default it ends this process
				return err
			}
			<-noticed
		}
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestC13AForcedDownIsAnInterruption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		message string
	}{
		{nil, "stopped by force; turns that were running are cut off, saved ones are safe"},
		{context.Canceled, "interrupted"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := quietApp().draining(ctx, console.Silent(), func(context.Context) error { cancel(); return c.err })
		if f := asFault(err); f.Kind != fault.Interrupted || f.Message != c.message {
			t.Errorf("%v became %+v", c.err, f)
		}
	}
	failed := errors.New("exit status 1")
	if err := quietApp().draining(t.Context(), console.Silent(), func(context.Context) error { return failed }); err != failed {
		t.Errorf("without a signal: %v", err)
	}
}

func logDriver() *fakeDriver {
	return &fakeDriver{logs: func(_ context.Context, o runtime.LogOptions, emit func(runtime.Line) error) error {
		at := time.Date(2026, 1, 2, 4, 4, 5, 120_000_006, time.FixedZone("", 3600))
		for _, text := range []string{"listening", "\x1b[31mred\tand " + strings.Repeat("long ", 20)} {
			if err := emit(runtime.Line{Time: at, Replica: "bot-1", Text: text}); err != nil {
				return err
			}
		}
		return nil
	}}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	got := run{driver: logDriver()}.do(t, "logs", "-C", dir)
	want := "2026-01-02T03:04:05.120Z bot-1 listening\n2026-01-02T03:04:05.120Z bot-1 " + `\x1b[31mred    and ` + strings.Repeat("long ", 20) + "\n"
	if got.code != 0 || got.out != want || got.err != "" {
		t.Errorf("on a pipe: %+v", got)
	}
	got = run{driver: logDriver(), terminal: true}.do(t, "logs", "bot", "-C", dir)
	if got.code != 0 || !strings.Contains(got.out, `bot-1  \x1b[31mred    and long`) {
		t.Errorf("on a terminal: %+v", got)
	}
	got = run{driver: logDriver()}.do(t, "logs", "-C", dir, "--json")
	var v LogsJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || len(v.Lines) != 2 || v.Lines[0].Replica != "bot-1" {
		t.Errorf("%v in %+v", err, got)
	}
	got = run{driver: logDriver()}.do(t, "logs", "-f", "-C", dir, "--json")
	if lines := strings.Split(strings.TrimSpace(got.out), "\n"); len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &LogLineJSON{}) != nil {
		t.Errorf("followed as JSON: %+v", got)
	}
	services := logDriver()
	services.observe = func() (runtime.Observed, error) {
		return runtime.Observed{Services: []runtime.Service{{Name: "db"}}}, nil
	}
	got = run{driver: containers{fakeDriver: services}}.do(t, "logs", "db", "-C", dir, "--runtime", "docker")
	if got.code != 2 || got.err != "flisk: \"db\" is a service, and flisk shows what agents print\nhint: docker logs shop-9f2c41-db-1\n" {
		t.Errorf("a service: %+v", got)
	}
	got = run{driver: services}.do(t, "logs", "bt", "-C", dir)
	if got.code != 2 || got.err != "flisk: project \"shop\" has no agent \"bt\"\nhint: did you mean \"bot\"?\n" {
		t.Errorf("an unknown agent: %+v", got)
	}
}

// An interruption is told once, keeps what the error says, and is not a failure
// to hide behind exit code 1.
func TestInterruption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		message string
	}{
		{context.Canceled, "interrupted"},
		{errors.New("wait: signal: killed"), "interrupted"},
		{fault.New(fault.Failed, "run it again", "gave up; nothing is left"), "gave up; nothing is left"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := quietApp().interruptible(ctx, func(context.Context) error { cancel(); return c.err })
		f := asFault(err)
		if f.Kind != fault.Interrupted || f.Message != c.message || !errors.Is(err, c.err) {
			t.Errorf("%v became %+v", c.err, f)
		}
	}
	if err := quietApp().interruptible(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("without an interruption: %v", err)
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"bot": "bot", "a/b-c_d.e": "a/b-c_d.e", "my agents": "'my agents'", "it's": `'it'\''s'`, "日本": "'日本'", "": "''", "$x": "'$x'",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", in, got, want)
		}
	}
}

// What runs is neither hidden nor unstoppable because flisk.yaml is wrong; up
// says what is wrong.
func TestAWrongFileKeepsNobodyFromLookingAndStopping(t *testing.T) {
	t.Parallel()
	broken := func(from, to string) string {
		dir := projectDir(t, false)
		path := filepath.Join(dir, "flisk.yaml")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(content), from, to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	driver := func() *fakeDriver {
		d := serve(t, echo(t))
		d.logs = logDriver().logs
		d.down = func(context.Context, runtime.Progress) (runtime.Report, error) {
			return runtime.Report{Changed: true}, nil
		}
		return d
	}
	for _, dir := range []string{broken("port: 8080", "prot: many, port: x"), broken("agents:\n", "agents: {\n")} {
		for _, args := range [][]string{{"status"}, {"logs"}, {"sessions", "list"}, {"down"}, {"turn", "hi", "--agent", "bot"}} {
			d := driver()
			if observe := d.observe; args[0] == "turn" {
				d.observe = func() (runtime.Observed, error) {
					o, err := observe()
					o.Replicas = []runtime.Replica{{Agent: "bot"}}
					return o, err
				}
			}
			got := run{driver: d}.do(t, append(args, "-C", dir)...)
			if got.code != 0 || strings.Count(got.err, "warning: flisk.yaml has ") != 1 || !strings.Contains(got.err, "; see flisk -C "+dir+" up\n") {
				t.Errorf("%q: %+v", args, got)
			}
		}
		if got := (run{}).do(t, "up", "-C", dir); got.code != 2 || !strings.Contains(got.err, "flisk.yaml") || strings.Contains(got.err, "warning") {
			t.Errorf("up: %+v", got)
		}
	}
	nameless := broken("id: 9f2c41d07a3e", "id:")
	if got := (run{}).do(t, "status", "-C", nameless); got.code != 2 || !strings.HasPrefix(got.err, "flisk: flisk.yaml:3:4: id is empty\n") {
		t.Errorf("status without an id: %+v", got)
	}
}

// An excerpt fits the terminal; a pipe gets the whole line.
func TestAnExcerptFitsTheTerminal(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	long := "name: shop # " + strings.Repeat("word ", 40) + "end"
	if err := os.WriteFile(filepath.Join(dir, "flisk.yaml"), []byte(long+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := (run{}).do(t, "up", "-C", dir); !strings.Contains(got.err, long+"\n") {
		t.Errorf("on a pipe:\n%s", got.err)
	}
	got := run{terminal: true}.do(t, "up", "-C", dir)
	if strings.Contains(got.err, "end\n") || !strings.Contains(got.err, "…\n       | ^\n") {
		t.Errorf("on a terminal:\n%s", got.err)
	}
}

// The terminal echoed ^C: what is said next is not behind it.
func TestASignalBeginsAFreshLine(t *testing.T) {
	t.Parallel()
	var stderr, stdout bytes.Buffer
	a := &app{streams: &console.Streams{
		Out: console.NewOutput(&stdout, console.OutputOptions{Terminal: true, Redraw: true}),
		Err: console.NewOutput(&stderr, console.OutputOptions{Terminal: true, Redraw: true}),
	}}
	signals, over := make(chan os.Signal, 1), make(chan struct{})
	signals <- syscall.SIGINT
	progress := console.NewProgress(a.streams.Err, "")
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.watchDrain(progress, signals, func() { close(over) }, over)
	}()
	signals <- syscall.SIGINT
	<-done
	if got := stderr.String(); !strings.HasPrefix(got, "\r\x1b[Kdraining: ") || !strings.Contains(got, "\n\r\x1b[Kforced: ") {
		t.Errorf("stderr is %q", got)
	}
	a.streams.Err = console.NewOutput(&stderr, console.OutputOptions{})
	if a.freshLine(); stdout.String() != "\r\x1b[K" {
		t.Errorf("stdout is %q", stdout.String())
	}
}

// gonePipe is an output whose reader went away after some writes.
type gonePipe struct{ left int }

func (p *gonePipe) Write(b []byte) (int, error) {
	if p.left--; p.left < 0 {
		return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	}
	return len(b), nil
}

func TestAReaderThatWentAwayIsNoFailure(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for _, args := range [][]string{{"logs"}, {"logs", "-f"}, {"logs", "-f", "--json"}, {"logs", "--json"}, {"status"}, {"--help"}, {"version"}} {
		var stderr bytes.Buffer
		d := observing(runtime.Observed{})
		d.logs = logDriver().logs
		a := &app{
			streams: &console.Streams{
				Out: console.NewOutput(&gonePipe{}, console.OutputOptions{}),
				Err: console.NewOutput(&stderr, console.OutputOptions{}),
			},
			environ: []string{"FLISK_HOME=/nonexistent/flisk"}, askEngine: answering(false),
			newDriver: func(*app, project.Runtime, *project.Project, <-chan struct{}) (runtime.Driver, error) { return d, nil },
		}
		if code := a.run(t.Context(), append(args, "-C", dir)); code != 141 || strings.Contains(stderr.String(), "flisk:") {
			t.Errorf("%q: code %d, stderr %q", args, code, stderr.String())
		}
	}
	// What went wrong for another reason is still told.
	var stderr bytes.Buffer
	d := observing(runtime.Observed{})
	d.logs = func(_ context.Context, _ runtime.LogOptions, emit func(runtime.Line) error) error {
		_ = emit(runtime.Line{})
		return fmt.Errorf("write: %w", syscall.EPIPE)
	}
	a := &app{
		streams: &console.Streams{Out: console.NewOutput(&gonePipe{}, console.OutputOptions{}), Err: console.NewOutput(&stderr, console.OutputOptions{})},
		environ: []string{"FLISK_HOME=/nonexistent/flisk"}, askEngine: answering(false),
		newDriver: func(*app, project.Runtime, *project.Project, <-chan struct{}) (runtime.Driver, error) { return d, nil },
	}
	if code := a.run(t.Context(), []string{"logs", "-C", dir}); code != 1 || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("another error: code %d, stderr %q", code, stderr.String())
	}
}

// A long cause is told once, and which step it is that has it.
func TestDryRunSaysALongCauseOnce(t *testing.T) {
	t.Parallel()
	moved := "gateway.hosts 127.0.0.1:8080 localhost:8080 → 127.0.0.1:8081 localhost:8081"
	d := observing(runtime.Observed{})
	d.plan = func(context.Context, runtime.Op, ...string) (runtime.Plan, error) {
		return runtime.Plan{
			{Do: runtime.Build, Agent: "bot", Cause: moved},
			{Do: runtime.Start, Agent: "bot", Replica: "bot-1", Generation: 2, Cause: moved},
		}, nil
	}
	for terminal, times := range map[bool]int{true: 1, false: 2} {
		got := run{driver: d, terminal: terminal}.do(t, "up", "--dry-run", "-C", projectDir(t, false))
		flat := strings.Join(strings.Fields(got.out), " ")
		if strings.Count(flat, moved) != times || strings.Contains(flat, "as for build bot") != terminal {
			t.Errorf("got %+v", got)
		}
	}
}

// An override that counts for nothing is told by whoever could be thought to apply it.
func TestOverrideOfLocalProcessesIsTold(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	if err := os.WriteFile(filepath.Join(dir, "compose.override.yaml"), []byte("services: {db: {image: postgres}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const told = "compose.override.yaml counts on Docker only"
	for _, args := range [][]string{{"up"}, {"up", "--dry-run"}, {"restart"}, {"restart", "--dry-run"}, {"doctor"}} {
		for _, on := range []string{"process", "docker"} {
			d := upDriver(false, false)
			d.restart = func(context.Context, string, runtime.Progress) (runtime.Report, error) { return runtime.Report{}, nil }
			d.plan = func(context.Context, runtime.Op, ...string) (runtime.Plan, error) { return nil, nil }
			d.examine = func() []runtime.Finding { return nil }
			got := run{driver: d}.do(t, append(args, "-C", dir, "--runtime", on)...)
			if n := strings.Count(got.out+got.err, told); n != map[string]int{"process": 1, "docker": 0}[on] {
				t.Errorf("%q on %s tells it %d times: %+v", args, on, n, got)
			}
		}
	}
}
