package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
	"github.com/flisk-go/flisk/pkg/turn"
)

// wellFormed is a message or a hint: one line that begins in lower case, with a
// name in quotes, a number, a flag, a variable or a proper noun, and has no full
// stop.
var wellFormed = regexp.MustCompile(`^([a-z0-9"]|-|/|FLISK_|HTTP|SIGKILL)[^\n]*[^.!\s]$`)

// TestMessages meets every error that a command line leads to, as far as no
// process is needed for it, and looks at its form and its exit code. What flisk
// says about the work of others (compilers, agents) is in the scripts.
func TestMessages(t *testing.T) {
	t.Parallel()
	one, two := projectDir(t, false), projectDir(t, true)
	wrong := projectDir(t, false)
	writeText(t, filepath.Join(wrong, "flisk.yaml"), "version: 1\nname: Shop\nagent: {}\n")
	text := filepath.Join(t.TempDir(), "text")
	writeText(t, text, "hello\n")
	export, cut := filepath.Join(t.TempDir(), "export"), filepath.Join(t.TempDir(), "cut")
	if got := (run{driver: volume(t)}).do(t, "sessions", "export", "-C", one, "-o", export); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	whole, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, cut, string(whole[:len(whole)/2]))
	writeText(t, text+"2", `{"kind":"flisk-sessions","version":9}`+"\n")

	failing := errors.New("the disk is on fire")
	broken := &fakeDriver{observe: func() (runtime.Observed, error) { return runtime.Observed{}, failing }}
	nothing := observing(runtime.Observed{Volume: "v", Place: filepath.Join(t.TempDir(), "v")})
	noVolume := observing(runtime.Observed{Volume: "v", Place: text})
	problem := func(code turn.Code) runtime.Driver {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			(&turn.Problem{Code: code, Detail: "so it is", SessionID: "s1"}).Write(w)
		})
	}
	down := func(report runtime.Report, err error) *fakeDriver {
		d := observing(runtime.Observed{})
		d.down = func(context.Context, runtime.Progress) (runtime.Report, error) { return report, err }
		return d
	}

	for _, c := range []struct {
		driver  runtime.Driver
		environ string
		code    int
		args    string // ONE, TWO and so on are directories and files
	}{
		{code: 2, args: "trun"},
		{code: 2, args: "sessions lst"},
		{code: 2, args: "help nix"},
		{code: 2, args: "turn"},
		{code: 2, args: "turn a b"},
		{code: 2, args: "turn a --sesion x"},
		{code: 2, args: "turn a -Z"},
		{code: 2, args: "turn a -s"},
		{code: 2, args: "turn a -s ../x -C ONE"},
		{code: 2, args: "turn a --key ö -C ONE"},
		{code: 2, args: "turn {a --input-json -C ONE"},
		{code: 2, args: "logs -n x"},
		{code: 2, args: "logs -n -7"},
		{code: 2, args: "version --runtime moon"},
		{code: 2, args: "status -C ONE --instance A!"},
		{code: 2, args: "version", environ: "FLISK_YES=perhaps"},
		{code: 2, args: "demo -C ONE"},
		{code: 2, args: "init --update-library --port 1"},
		{code: 2, args: "init ONE"},
		{code: 2, args: "init --name A! NEW"},
		{code: 2, args: "supervise nowhere"},
		{code: 2, args: "verify --run nix"},
		{code: 2, args: "status -C EMPTY"},
		{code: 2, args: "status -C TEXT"},
		{code: 2, args: "status -C EMPTY/nix"},
		{code: 2, args: "up -C WRONG"},
		{code: 2, args: "config -C WRONG"},

		{code: 3, driver: nothing, args: "turn hello -C ONE"},
		{code: 3, driver: nothing, args: "chat -C ONE"},
		{code: 3, driver: nothing, args: "kill bot -C ONE"},
		{code: 2, driver: nothing, args: "kill bott -C ONE"},
		{code: 2, driver: nothing, args: "chat -s ../x -C ONE"},
		{code: 2, driver: nothing, args: "turn hello -C TWO"},
		{code: 2, driver: nothing, args: "turn hello -C TWO --agent nix"},
		{code: 2, driver: nothing, args: "turn hello -C TWO --agent boot"},
		{code: 1, driver: nothing, args: "sessions show s1 -C ONE"},
		{code: 1, driver: nothing, args: "sessions export -C ONE -o OUT"},
		{code: 1, driver: nothing, args: "sessions rm s1 -C ONE --yes"},
		{code: 2, driver: nothing, args: "sessions rm ../x -C ONE"},
		{code: 2, driver: nothing, args: "sessions export -C ONE"},
		{code: 2, driver: nothing, args: "sessions export ../x -C ONE -o OUT"},
		{code: 2, driver: nothing, args: "sessions import EMPTY/nix -C ONE"},
		{code: 2, driver: nothing, args: "sessions import TEXT -C ONE"},
		{code: 1, driver: nothing, args: "sessions import TEXT2 -C ONE"},
		{code: 1, driver: nothing, args: "sessions import CUT -C ONE"},
		{code: 2, driver: nothing, args: "sessions import EXPORT -C ONE"}, // has an agent clerk
		{code: 2, driver: nothing, args: "sessions import EXPORT -C ONE --agent nix"},
		{code: 1, driver: nothing, args: "sessions import EXPORT -C ONE --agent bot"}, // s1 of bot and of clerk
		{code: 1, driver: volume(t), args: "sessions import EXPORT -C TWO"},
		{code: 2, driver: volume(t), args: "sessions rm s1 -C ONE"},
		{code: 2, driver: volume(t), args: "down -C ONE --volumes"},
		{code: 2, driver: volume(t), args: "sessions rm s1 -C ONE --no-input"},
		{code: 1, driver: volume(t), args: "sessions rm s1 nix -C ONE --yes"},
		{code: 1, driver: volume(t), args: "sessions export nix -C ONE -o OUT"},
		{code: 2, driver: volume(t), args: "sessions export s1 -C ONE -o EXPORT"},
		{code: 2, driver: volume(t), args: "sessions export s1 -C ONE -o EMPTY"},
		{code: 1, driver: volume(t), args: "sessions export s1 -C ONE -o EMPTY/nix/out"},
		{code: 2, driver: volume(t), args: "sessions show s1 -C TWO"},
		{code: 1, driver: noVolume, args: "sessions list -C ONE"},
		{code: 1, driver: broken, args: "status -C ONE"},
		{code: 1, driver: down(runtime.Report{}, failing), args: "down -C ONE"},

		{code: 2, driver: problem(turn.KeyReused), args: "turn hello -C ONE"},
		{code: 2, driver: problem(turn.SessionRequired), args: "turn hello -C ONE"},
		{code: 2, driver: problem(turn.TooLarge), args: "turn hello -C ONE"},
		{code: 1, driver: problem(turn.Busy), args: "turn hello -C ONE"},
		{code: 1, driver: problem(turn.RunFailed), args: "turn hello -C ONE"},
		{code: 1, driver: problem(turn.TurnTimeout), args: "turn hello -C ONE"},
		{code: 1, driver: problem(turn.SessionDamaged), args: "turn hello -C ONE"},
	} {
		names := strings.NewReplacer("ONE", one, "TWO", two, "WRONG", wrong, "EMPTY", t.TempDir(), "NEW", filepath.Join(t.TempDir(), "new"),
			"TEXT", text, "EXPORT", export, "CUT", cut, "OUT", filepath.Join(t.TempDir(), "out"))
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = names.Replace(args[i])
		}
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			got := run{driver: c.driver, environ: strings.Fields(c.environ)}.do(t, append(args, "--json")...)
			var e ErrorJSON
			if err := json.Unmarshal([]byte(got.err), &e); err != nil {
				t.Fatalf("no error but %+v", got)
			}
			if got.code != c.code || e.Error.ExitCode != c.code || got.out != "" {
				t.Errorf("code %d and %d, want %d; stdout %q, %+v", got.code, e.Error.ExitCode, c.code, got.out, e.Error)
			}
			if !wellFormed.MatchString(e.Error.Message) || strings.Contains(e.Error.Message, "%!") {
				t.Errorf("the message is %q", e.Error.Message)
			}
			if h := e.Error.Hint; h != "" && !wellFormed.MatchString(h) {
				t.Errorf("the hint is %q", h)
			}
			if e.Error.Hint+e.Error.Detail == "" && c.code == 2 && c.driver == nil {
				t.Errorf("nothing says how to do it right: %q", e.Error.Message)
			}
		})
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestConfirm: yes does it, everything else leaves it; a screen of 80 columns.
func TestConfirm(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for answer, removed := range map[string]bool{"y\n": true, "\n": false, "no\n": false, "": false} {
		driver := volume(t)
		got := run{driver: driver, terminal: true, stdin: answer}.do(t, "sessions", "rm", "s1", strings.Repeat("long-id.", 16), "-C", dir)
		if removed == (got.code != 0) || !strings.Contains(got.err, "remove these 2 sessions of agent bot for good? [y/N] ") {
			t.Errorf("%q: got %+v", answer, got)
		}
		if !removed && (!strings.HasSuffix(got.err, "nothing was removed\n") || strings.Contains(got.err, "flisk:")) {
			t.Errorf("%q: stderr is %q", answer, got.err)
		}
		observed, err := driver.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, err := checkpoint.CountSessions(observed.Place)
		if want := map[bool]int{true: 1, false: 3}[removed]; err != nil || n != want {
			t.Errorf("%q: %d sessions are left (%v), want %d", answer, n, err, want)
		}
	}
}

// Another runtime is a way out for what starts something, and for nothing else.
func TestHintOfAnEngineThatIsAway(t *testing.T) {
	t.Parallel()
	away := fault.New(fault.Environment, "start Docker, or "+docker.OtherRuntime, "cannot reach the Docker engine")
	dir := projectDir(t, false)
	d := &fakeDriver{observe: func() (runtime.Observed, error) { return runtime.Observed{}, away }}
	d.up = func(context.Context, runtime.Progress) (runtime.Report, error) { return runtime.Report{}, away }
	for command, want := range map[string]string{
		"up": "hint: start Docker, or use --runtime process\n", "turn": "hint: start Docker\n", "chat": "hint: start Docker\n", "down": "hint: start Docker\n",
	} {
		args := []string{command, "-C", dir, "--runtime", "docker"}
		if command == "turn" {
			args = append(args, "hello")
		}
		d.down = d.up
		if got := (run{driver: d}).do(t, args...); got.code != 3 || !strings.HasSuffix(got.err, want) {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

// What was probably meant, and what to do next.
func TestSmallHints(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	edited := projectDir(t, false)
	if err := os.WriteFile(filepath.Join(edited, "compose.yaml"), []byte("services: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"hlep"}, `did you mean "flisk help"?`},
		{[]string{"verify", "continuity", "-C", dir}, "hint: name it with --run: flisk -C " + dir + " verify --run continuity"},
		{[]string{"sessions", "import", "-", "-C", dir}, "nothing came on standard input"},
		{[]string{"up", "-C", edited}, "remove or rename the file; then flisk up"},
	} {
		if got := (run{driver: observing(runtime.Observed{})}).do(t, c.args...); got.code == 0 || !strings.Contains(got.err, c.says) {
			t.Errorf("%q: %+v, want %q", c.args, got, c.says)
		}
	}
}
