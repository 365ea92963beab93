package cli

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

var update = flag.Bool("update", false, "write the golden files anew")

// tempDirs are the directories of [projectDir]: all of one length, so that lines
// break at the same place in every run.
var tempDirs = regexp.MustCompile("/tmp/fs-[0-9a-f]{8}")

// golden compares with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	got = tempDirs.ReplaceAllString(got, "/tmp/fs-XXXXXXXX")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./pkg/cli -update writes it anew); got\n%s\nwant\n%s", path, got, want)
	}
}

// fakeDriver answers what a test sets, and panics on what it does not expect.
type fakeDriver struct {
	observe func() (runtime.Observed, error)
	examine func() []runtime.Finding
	up      func(context.Context, runtime.Progress) (runtime.Report, error)
	down    func(context.Context, runtime.Progress) (runtime.Report, error)
	logs    func(context.Context, runtime.LogOptions, func(runtime.Line) error) error
	restart func(context.Context, string, runtime.Progress) (runtime.Report, error)
	plan    func(context.Context, runtime.Op, ...string) (runtime.Plan, error)
	kill    func(context.Context, string) ([]runtime.Change, error)
	retire  func(context.Context, runtime.Ref) (runtime.Change, error)
}

func (f *fakeDriver) Observe(context.Context) (runtime.Observed, error) { return f.observe() }
func (f *fakeDriver) Examine(context.Context) []runtime.Finding         { return f.examine() }
func (f *fakeDriver) Up(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	return f.up(ctx, p)
}
func (f *fakeDriver) Down(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	return f.down(ctx, p)
}
func (f *fakeDriver) Logs(ctx context.Context, o runtime.LogOptions, emit func(runtime.Line) error) error {
	return f.logs(ctx, o, emit)
}

func (f *fakeDriver) Restart(ctx context.Context, agent string, p runtime.Progress) (runtime.Report, error) {
	return f.restart(ctx, agent, p)
}

func (f *fakeDriver) Plan(ctx context.Context, op runtime.Op, agents ...string) (runtime.Plan, error) {
	return f.plan(ctx, op, agents...)
}

func (f *fakeDriver) Kill(ctx context.Context, agent string) ([]runtime.Change, error) {
	return f.kill(ctx, agent)
}

func (f *fakeDriver) Retire(ctx context.Context, ref runtime.Ref) (runtime.Change, error) {
	return f.retire(ctx, ref)
}

// run is one command line of a test.
type run struct {
	driver   runtime.Driver
	driverOn map[project.Runtime]runtime.Driver                       // by runtime, where driver is nil
	prover   func(context.Context, *app, proving) (VerifyJSON, error) // nil finds nothing
	stdin    string
	terminal bool // stdout and stderr are terminals of 80 columns
	colour   bool
	environ  []string
	engine   bool            // a Docker engine answers
	ctx      context.Context // of the test, when nil
}

// answering is an engine that answers, or none.
func answering(yes bool) func(context.Context, *app, *project.Project) (bool, string) {
	return func(context.Context, *app, *project.Project) (bool, string) { return yes, "" }
}

type result struct {
	code     int
	out, err string
}

func (r run) do(t *testing.T, args ...string) result {
	t.Helper()
	options := console.OutputOptions{Terminal: r.terminal, Redraw: r.terminal, Colour: r.colour}
	if r.terminal {
		options.Width = func() int { return 80 }
	}
	var stdout, stderr bytes.Buffer
	a := &app{
		streams: &console.Streams{
			In:  console.Input{Reader: strings.NewReader(r.stdin), Terminal: r.terminal},
			Out: console.NewOutput(&stdout, options),
			Err: console.NewOutput(&stderr, options),
		},
		environ: append([]string{"FLISK_HOME=/nonexistent/flisk"}, r.environ...),
		newDriver: func(_ *app, on project.Runtime, _ *project.Project, _ <-chan struct{}) (runtime.Driver, error) {
			if d := r.driverOn[on]; d != nil {
				return d, nil
			}
			if r.driver == nil {
				t.Error("the command asked for a driver")
			}
			return r.driver, nil
		},
		askEngine: answering(r.engine),
		prover:    r.prover,
	}
	if a.prover == nil {
		a.prover = func(context.Context, *app, proving) (VerifyJSON, error) { return VerifyJSON{}, nil }
	}
	ctx := r.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	code := a.run(ctx, args)
	got := result{code, stdout.String(), stderr.String()}
	if r.terminal {
		for line := range strings.Lines(got.out + got.err) {
			if w := console.Width(strings.TrimSuffix(line, "\n")); w > 80 {
				t.Errorf("%q prints a line of %d columns: %q", args, w, line)
			}
		}
	}
	return got
}

// projectDir makes a project with the agents bot and, for two, clerk.
func projectDir(t *testing.T, two bool) string {
	t.Helper()
	dir := "/tmp/fs-" + turn.NewKey()[:8]
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	agents := "agents:\n  bot: {path: .}\n"
	if two {
		agents += "  clerk: {path: .}\n"
	}
	content := "version: 1\nname: shop\nid: 9f2c41d07a3e\ngateway: {port: 8080}\n" + agents +
		"volumes:\n  checkpoints: {name: flisk-shop-9f2c41d07a3e}\n"
	if err := os.WriteFile(filepath.Join(dir, "flisk.yaml"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	p, _, err := project.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := regenerate(p, console.Silent()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// walk visits every command that people see.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			walk(c, visit)
		}
	}
}

// quietApp is an app that nobody listens to.
func quietApp() *app {
	return &app{streams: &console.Streams{
		Out: console.NewOutput(io.Discard, console.OutputOptions{}),
		Err: console.NewOutput(io.Discard, console.OutputOptions{}),
	}}
}

func tree() *cobra.Command { return newRoot(quietApp()) }

func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	walk(tree(), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		got := run{terminal: true, colour: true}.do(t, append(path, "--help")...)
		if got.code != 0 || got.err != "" || !strings.Contains(strings.ToLower(got.out), "exit status") {
			t.Errorf("%q --help: code %d, stderr %q", path, got.code, got.err)
		}
		for line := range strings.Lines(got.out) {
			if strings.HasSuffix(line, " \n") {
				t.Errorf("%q --help has the line %q", path, line)
			}
		}
		if !strings.Contains(got.out, " [FLAGS]\n") {
			t.Errorf("%q --help has no [FLAGS]", path)
		}
		if cmd.Name() == "help" || len(path) > 0 && path[0] == "completion" {
			return
		}
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%q has no examples or no description", cmd.CommandPath())
		}
		for i, line := range strings.Split(cmd.Example, "\n") {
			if i%2 == 0 && !strings.HasPrefix(line, "flisk ") {
				t.Errorf("%q: example %q is not a flisk command line", cmd.CommandPath(), line)
			}
		}
	})
}

func TestHelpGolden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "turn"} {
		args := strings.Fields(name + " --help")
		golden(t, strings.TrimPrefix("help-"+name, "-"), run{terminal: true}.do(t, args...).out)
	}
	if a, b := (run{}).do(t, "help", "turn"), (run{}).do(t, "turn", "-h"); a != b || a.code != 0 {
		t.Errorf("help turn and turn -h differ: %+v, %+v", a, b)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args    string
		environ string
		want    string
	}{
		{args: "trun", want: "flisk: there is no command \"flisk trun\"\nhint: did you mean \"flisk turn\"?\n"},
		{args: "xyzzy", want: "flisk: there is no command \"flisk xyzzy\"\nhint: see flisk --help\n"},
		{args: "help xyzzy", want: "flisk: there is no command \"flisk xyzzy\"\nhint: see flisk --help\n"},
		{args: "turn hi --sesion x", want: "flisk: \"flisk turn\" has no flag \"--sesion\"\nhint: did you mean \"--session\"?\n"},
		{args: "turn hi --zzz", want: "flisk: \"flisk turn\" has no flag \"--zzz\"\nhint: see flisk turn --help\n"},
		{args: "turn hi -Z", want: "flisk: \"flisk turn\" has no flag \"-Z\"\nhint: see flisk turn --help\n"},
		{args: "turn hi -s", want: "flisk: \"-s\" needs a value\nhint: see flisk turn --help\n"},
		{args: "turn -5 -s s1", want: "flisk: \"flisk turn\" has no flag \"-5\"\nhint: if it is the message: flisk turn -- \"-5\"\n"},
		{args: "turn --$x", want: "flisk: \"flisk turn\" has no flag \"--$x\"\nhint: if it is the message: flisk turn -- '--$x'\n"},
		{args: "logs -n -5", want: "flisk: --lines cannot be -5: 0 or more, or -1 for all that is kept\nhint: see flisk logs --help\n"},
		{args: "demo -C x", want: "flisk: \"flisk demo\" has a directory of its own and takes no -C\nhint: see flisk demo --help\n"},
		{args: "turn", want: "flisk: \"flisk turn\" needs MESSAGE\nhint: see flisk turn --help\n"},
		{args: "turn a b", want: "flisk: \"flisk turn\" does not take \"b\"\nhint: quote a message of several words: flisk turn \"a b\"\n"},
		{args: "logs -n x", want: "flisk: \"--lines\" cannot be \"x\"\nhint: see flisk logs --help\n"},
		{args: "version --runtime moon", want: "flisk: there is no runtime \"moon\"\nhint: use docker, process or auto\n"},
		{args: "version", environ: "FLISK_RUNTIME=moon", want: "flisk: there is no runtime \"moon\"\nhint: use docker, process or auto\n"},
		{args: "version", environ: "FLISK_JSON=maybe", want: "flisk: FLISK_JSON cannot be \"maybe\"\nhint: use 1 or 0\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			got := run{environ: strings.Fields(c.environ)}.do(t, strings.Fields(c.args)...)
			if got.code != 2 || got.out != "" || got.err != c.want {
				t.Errorf("code %d, stdout %q, stderr\n%s\nwant code 2 and\n%s", got.code, got.out, got.err, c.want)
			}
		})
	}
}

func TestErrorsAreJSONWhenAsked(t *testing.T) {
	t.Parallel()
	want := `{"error":{"message":"\"flisk turn\" has no flag \"--zzz\"","hint":"see flisk turn --help","exit_code":2}}` + "\n"
	for _, args := range [][]string{{"--json", "turn", "--zzz"}, {"turn", "--zzz", "--json"}} {
		if got := (run{}).do(t, args...); got.code != 2 || got.out != "" || got.err != want {
			t.Errorf("%q: %+v", args, got)
		}
	}
	got := run{environ: []string{"FLISK_JSON=1"}}.do(t, "turn", "hi", "-s", "../x")
	if got.code != 2 || !strings.HasPrefix(got.err, `{"error":{"message":"cannot use --session: invalid session id`) {
		t.Errorf("by FLISK_JSON: %+v", got)
	}
}

func TestFlagBeatsEnvironment(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	driver := &fakeDriver{observe: func() (runtime.Observed, error) { return runtime.Observed{Volume: "v"}, nil }}
	environ := []string{"FLISK_CHDIR=/nonexistent", "FLISK_JSON=1"}
	got := run{driver: driver, environ: environ}.do(t, "status", "-C", dir, "--json=false")
	if got.code != 0 || strings.Contains(got.out, "{") {
		t.Errorf("got %+v", got)
	}
	if got := (run{driver: driver, environ: environ}).do(t, "status"); got.code != 2 || !strings.Contains(got.err, "/nonexistent") {
		t.Errorf("from the environment: %+v", got)
	}
}

func TestAFullDiskIsNotSuccess(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this platform has no /dev/full")
	}
	defer full.Close()
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"--help"}} {
		code := Run(t.Context(), args, &console.Streams{
			In:  console.Input{Reader: strings.NewReader("")},
			Out: console.NewOutput(full, console.OutputOptions{}),
			Err: console.NewOutput(&stderr, console.OutputOptions{}),
		}, nil)
		if code != 1 || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%q: code %d, stderr %q", args, code, stderr.String())
		}
	}
}
