package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/verify"
)

// found is a prover that does the first checks and comes to these verdicts.
func found(verdicts ...verify.Verdict) func(context.Context, *app, proving) (VerifyJSON, error) {
	return func(_ context.Context, _ *app, p proving) (VerifyJSON, error) {
		result := VerifyJSON{Project: p.opened.project.Name, Verdict: verify.Worst(verdicts...), Millis: 12_345}
		for _, agent := range p.agents {
			p.agent(agent, len(p.agents))
			report := verify.Report{Agent: agent, Code: "9f2c41d07a3e", Seed: p.seed, Turns: 7, Verdict: verify.Worst(verdicts...)}
			for i, v := range verdicts {
				c := verify.Checks()[i]
				r := verify.Result{Check: c.Name, Promise: c.Name + " holds", Verdict: v, Seen: []string{"seen this", "and that, which takes rather many words to say"}, Millis: 1500, Turns: 3}
				switch v {
				case verify.Broken:
					r.Broken = []verify.Finding{{Kind: verify.Lost, What: "turn 2 was answered and is not in the checkpoint, which is at turn 1", Session: "s"}}
					report.Kept = filepath.Join(p.keep, "bot-1")
				case verify.Unchecked, verify.Skipped:
					r.Reason = "the \x1b[31magent was not ready"
				}
				if v != verify.Skipped {
					p.begin(c)(r)
				}
				report.Checks = append(report.Checks, r)
			}
			p.ended(report)
			result.Turns += report.Turns
			result.Agents = append(result.Agents, report)
		}
		return result, nil
	}
}

func TestVerifyGolden(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verdicts []verify.Verdict
		two      bool
		code     int
	}{
		"verify-held":      {[]verify.Verdict{verify.Held, verify.Held, verify.Skipped}, false, 0},
		"verify-broken":    {[]verify.Verdict{verify.Held, verify.Held, verify.Broken, verify.Unchecked}, false, 1},
		"verify-unchecked": {[]verify.Verdict{verify.Held, verify.Held, verify.Unchecked}, true, 4},
	} {
		got := run{driver: observing(runtime.Observed{}), terminal: true, prover: found(c.verdicts...), environ: []string{"FLISK_HOME=/home/ann/flisk"}}.
			do(t, "verify", "-C", projectDir(t, c.two), "--seed", "4711", "--yes")
		golden(t, name, scrubbed(got.out)+"-- stderr\n"+got.err)
		if got.code != c.code {
			t.Errorf("%s: code %d, want %d", name, got.code, c.code)
		}
	}
}

// scrubbed takes out the name of a test's directory.
func scrubbed(text string) string {
	const name = "/tmp/fs-"
	for at := strings.Index(text, name); at >= 0; at = strings.Index(text, name) {
		text = text[:at] + "/tmp/project" + text[at+len(name)+8:]
	}
	return text
}

func TestVerifyJSONAndJUnit(t *testing.T) {
	t.Parallel()
	report := filepath.Join(t.TempDir(), "report.xml")
	r := run{driver: observing(runtime.Observed{}), prover: found(verify.Held, verify.Broken), environ: []string{"FLISK_HOME=/home/ann/flisk"}}
	got := r.do(t, "verify", "-C", projectDir(t, false), "--json", "--junit", report)
	var v VerifyJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != 1 || got.err != "" {
		t.Fatalf("%v in %+v", err, got)
	}
	if v.Verdict != verify.Broken || v.Turns != 7 || len(v.Agents) != 1 || v.Agents[0].Checks[1].Broken[0].Kind != verify.Lost {
		t.Errorf("got %+v", v)
	}
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), `failures="1"`) {
		t.Errorf("%s, %v", text, err)
	}
	var list []CheckJSON
	got = run{}.do(t, "verify", "--list", "--json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != len(verify.Checks())+len(verify.NeverChecked()) || list[0].Turns == 0 {
		t.Errorf("%v in %+v", err, got)
	}
	if last := list[len(list)-1]; last.Skipped == "" || last.How != "" {
		t.Errorf("what is never checked is listed as %+v", last)
	}
	got = run{}.do(t, "verify", "--list", "--json", "--run", "crash")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 1 || list[0].Check != "crash" {
		t.Errorf("%v in %+v", err, got)
	}
}

// A report that cannot be written is found out before anything is sent, and
// finding out leaves nothing behind and harms nothing.
func TestVerifyJUnitIsTriedFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there, missing := filepath.Join(dir, "there.xml"), filepath.Join(dir, "missing.xml")
	if err := os.WriteFile(there, []byte("of an earlier run"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := false
	r := run{driver: observing(runtime.Observed{}), environ: []string{"FLISK_HOME=/home/ann/flisk"}}
	r.prover = func(context.Context, *app, proving) (VerifyJSON, error) {
		ran = true
		return VerifyJSON{}, errors.New("there is no verdict")
	}
	for _, path := range []string{dir, filepath.Join(dir, "no", "such.xml"), filepath.Join(there, "below.xml")} {
		got := r.do(t, "verify", "-C", projectDir(t, false), "--junit", path)
		if got.code != 2 || ran || !strings.Contains(got.err, "no turn was sent") {
			t.Errorf("%s: ran %t, got %+v", path, ran, got)
		}
	}
	for _, path := range []string{there, missing} {
		if ran = false; r.do(t, "verify", "-C", projectDir(t, false), "--junit", path).code != 1 || !ran {
			t.Errorf("%s: ran %t", path, ran)
		}
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "of an earlier run" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty report was left behind: %v", err)
	}
}

// The list says of each check how it is tried, also on a narrow terminal.
func TestVerifyListGolden(t *testing.T) {
	t.Parallel()
	got := run{terminal: true}.do(t, "verify", "--list")
	golden(t, "verify-list", got.out)
	for line := range strings.Lines(got.out) {
		if console.Width(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}

// Evidence is told of also when the run did not come to its end.
func TestVerifyTellsOfEvidenceWhenInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	r := run{driver: observing(runtime.Observed{}), environ: []string{"FLISK_HOME=/home/ann/flisk"}, ctx: ctx}
	r.prover = func(ctx context.Context, _ *app, _ proving) (VerifyJSON, error) {
		cancel(errors.New("enough"))
		<-ctx.Done()
		return VerifyJSON{Agents: []verify.Report{{Agent: "bot", Kept: "/home/ann/flisk/verify/bot-1"}}}, context.Cause(ctx)
	}
	got := r.do(t, "verify", "-C", projectDir(t, false))
	if got.code != 130 || !strings.Contains(got.err, "interrupted\n") || !strings.Contains(got.err, "kept in /home/ann/flisk/verify/bot-1") {
		t.Errorf("got %+v", got)
	}
}

// What a killed verification left is cleared; what one that lives has is not, and
// neither is what only looks like it.
func TestRoomsAreCleared(t *testing.T) {
	t.Parallel()
	room := func() string {
		root, err := makeRoom("fr-") // by no name that others would clear
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(root) })
		return root
	}
	dead, living, begun, cut, halfMade, halfGone := room(), room(), room(), room(), room(), room()
	s := stack.Stack{ID: "9f2c41d07a3e", Volume: stack.Volume{Name: "v"}}
	for _, root := range []string{dead, living} {
		owner, err := claimRoom(root, project.Process, s)
		if err != nil {
			t.Fatal(err)
		}
		if root == dead {
			err = owner.Close()
		} else {
			defer owner.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{cut, halfMade} {
		if err := os.WriteFile(filepath.Join(root, roomOwner), []byte(`{"Name":`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(halfGone, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	longAgo := time.Now().Add(-2 * roomBegins)
	for _, root := range []string{dead, living, cut, halfGone} {
		if err := os.Chtimes(root, longAgo, longAgo); err != nil {
			t.Fatal(err)
		}
	}
	for root, cleared := range map[string]bool{dead: true, living: false, begun: false, cut: true, halfMade: false, halfGone: true} {
		err := quietApp().clearRoom(t.Context(), root, console.Silent())
		if _, gone := os.Lstat(root); err != nil || errors.Is(gone, os.ErrNotExist) != cleared {
			t.Errorf("cleared %t, %v, want %t", gone != nil, err, cleared)
		}
	}
	// One whose file is gone already is still somebody's while it is removed.
	if err := errors.Join(os.Remove(filepath.Join(living, roomOwner)), os.Chtimes(living, longAgo, longAgo), quietApp().clearRoom(t.Context(), living, console.Silent())); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(living); err != nil {
		t.Errorf("a room was cleared that its verification has: %v", err)
	}
}

// Rooms are found in a directory of any name, and only what is named like one.
func TestRoomsIn(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "a[b*")
	for _, name := range []string{roomPrefix + "17", roomPrefix + "notes", roomPrefix, roomPrefix + "1x", "other-17", demoRoomPrefix + "19", demoRoomPrefix + "20-kept"} {
		if err := os.MkdirAll(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(parent, roomPrefix+"18"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rooms, err := roomsIn(parent)
	if want := []string{filepath.Join(parent, demoRoomPrefix+"19"), filepath.Join(parent, roomPrefix+"17")}; err != nil || !slices.Equal(rooms, want) {
		t.Errorf("%q, %v", rooms, err)
	}
	if rooms, err := roomsIn(filepath.Join(parent, "none")); err == nil || len(rooms) != 0 {
		t.Errorf("%q, %v", rooms, err)
	}
}

// What an error advises is told beside where the evidence is.
func TestWithEvidence(t *testing.T) {
	t.Parallel()
	err := fault.New(fault.Failed, "try again", "it failed")
	if got := withEvidence(err, VerifyJSON{}); got != error(err) {
		t.Errorf("got %v", got)
	}
	got := asFault(withEvidence(err, VerifyJSON{Agents: []verify.Report{{Kept: "/kept"}}}))
	if !strings.HasPrefix(got.Hint, "try again; ") || !strings.HasSuffix(got.Hint, "/kept") {
		t.Errorf("the hint is %q", got.Hint)
	}
}

// Many turns are sent only when somebody wants them.
func TestVerifyAsksBeforeManyTurns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stdin    string
		terminal bool
		args     []string
		code     int
	}{
		{"y\n", true, nil, 0},
		{"n\n", true, nil, 1},
		{"\n", true, nil, 1},
		{"", true, nil, 1},
		{"y\n", false, nil, 2},
		{"y\n", true, []string{"--no-input"}, 2},
		{"y\n", false, []string{"--json"}, 2},
		{"", false, []string{"--yes"}, 0},
		{"", false, []string{"--agent", "bot"}, 0},
		{"", false, []string{"--run", "drain,crash"}, 0},
	} {
		r := run{driver: observing(runtime.Observed{}), prover: found(verify.Held), stdin: c.stdin, terminal: c.terminal, environ: []string{"FLISK_HOME=/home/ann/flisk"}}
		got := r.do(t, append([]string{"verify", "-C", projectDir(t, true)}, c.args...)...)
		if got.code != c.code || c.code != 0 && !strings.Contains(got.err, "no turn was sent") {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
}

// What keeps it from a verdict is told as what it is.
func TestVerifyWithoutAVerdict(t *testing.T) {
	t.Parallel()
	r := run{driver: observing(runtime.Observed{}), environ: []string{"FLISK_HOME=/home/ann/flisk"}}
	r.prover = func(context.Context, *app, proving) (VerifyJSON, error) {
		return VerifyJSON{}, fault.New(fault.Environment, "install it", "there is no Go toolchain")
	}
	if got := r.do(t, "verify", "-C", projectDir(t, false)); got.code != 3 || !strings.HasSuffix(got.err, "there is no Go toolchain\nhint: install it\n") {
		t.Errorf("got %+v", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	r.ctx = ctx
	r.prover = func(ctx context.Context, _ *app, _ proving) (VerifyJSON, error) {
		cancel(errors.New("enough"))
		<-ctx.Done()
		return VerifyJSON{}, context.Cause(ctx)
	}
	if got := r.do(t, "verify", "-C", projectDir(t, false)); got.code != 130 || got.err != "flisk: interrupted\n" {
		t.Errorf("got %+v", got)
	}
	for _, args := range [][]string{{"--run", "cash"}, {"--agent", "clerk"}, {"extra"}} {
		if got := (run{driver: observing(runtime.Observed{})}).do(t, append([]string{"verify", "-C", projectDir(t, false)}, args...)...); got.code != 2 {
			t.Errorf("%q: got %+v", args, got)
		}
	}
}

// A verification changes nothing but its own: its stack has another port and
// volume place, a nonce, and the environment of verify:.
func TestStackToProve(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	a := &app{global: globals{dir: dir, runtime: runtimeProcess}, newDriver: driverOf, environ: []string{"FLISK_HOME=" + dir + "/home", "FLISK_RUN_DIR=" + dir + "/run"}}
	o, err := a.open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o.project.Verify.Env = map[string]string{"MODEL": "none", "A": "b"}
	s := stackToProve(o, 4711)
	bot := s.Agents[0]
	if s.Gateway.Port != 4711 || len(s.Verify) != 32 || strings.Join(bot.Env, " ") != "A=b MODEL=none" || bot.Drain != verify.DefaultDrain || bot.StopGrace <= bot.Drain {
		t.Errorf("%+v", s)
	}
	if verify.DefaultDrain <= verify.DefaultHold {
		t.Error("the drain ends before the turn that it must wait for")
	}
	if o.project.Gateway.Port == 4711 {
		t.Error("the project was changed")
	}
	if s.ID != o.project.ID || s.Name != o.project.Name {
		t.Errorf("local processes have their own place, and yet another name: %+v", s)
	}
	o.runtime = project.Docker
	c := stackToProve(o, 4711)
	if c.ID == s.ID || len(c.ID) != len(s.ID) || c.Volume.Name == s.Volume.Name || c.Network() == s.Network() || c.Image("bot") == s.Image("bot") || !project.ValidName(c.Name) {
		t.Errorf("containers must not be taken for the project's: %+v", c)
	}
}

// The source may change while it is verified; what runs does not.
func TestPinnedSource(t *testing.T) {
	t.Parallel()
	now := "one"
	p := newPinned(func(string) (string, error) { return now, nil })
	want := func(want string) {
		t.Helper()
		if got, err := p.of("bot"); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	want("one")
	now = "two"
	want("two")
	p.pin()
	now = "three"
	want("two")
}

// A reload gives the pinned source another name, which stays when it worked, and
// refuses to build from another source.
func TestPinnedSourceIsReloaded(t *testing.T) {
	t.Parallel()
	now := "one"
	p := newPinned(func(string) (string, error) { return now, nil })
	ask := func(of func(string) (string, error), agent, want string) {
		t.Helper()
		if got, err := of(agent); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	ask(p.of, "bot", "one")
	ask(p.of, "clerk", "one")
	p.pin()
	for _, want := range []string{"one-reload-1", "one-reload-2"} {
		if err := p.reload("bot", func() error { ask(p.checked, "bot", want); return nil }); err != nil {
			t.Error(err)
		}
		ask(p.of, "bot", want)
	}
	now = "two"
	err := p.reload("bot", func() error {
		ask(p.checked, "clerk", "one") // it is not built
		_, err := p.checked("bot")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "changed while it was verified") {
		t.Errorf("built from another source: %v", err)
	}
	ask(p.of, "bot", "one-reload-2")
	ask(p.checked, "bot", "one-reload-2")
	ask(p.of, "clerk", "one")
}

func TestOnlyChange(t *testing.T) {
	t.Parallel()
	c := runtime.Change{Before: runtime.Process{PID: 1, Start: "a"}, After: runtime.Process{PID: 2, Start: "b"}, Exit: runtime.Exit{Code: -1, Signal: syscall.SIGKILL}}
	got, err := provenAgent{agent: "bot"}.only([]runtime.Change{c})
	if want := (verify.Change{Before: verify.Process{PID: 1, Started: "a"}, After: verify.Process{PID: 2, Started: "b"}, Exit: verify.Exit{Code: -1, Signal: syscall.SIGKILL}}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, changes := range [][]runtime.Change{nil, {c, c}} {
		if _, err := (provenAgent{agent: "bot"}).only(changes); err == nil {
			t.Errorf("%d changes of one replica", len(changes))
		}
	}
}
