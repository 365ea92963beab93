package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
)

// containers is a driver whose volume this process does not reach, like Docker's.
type containers struct {
	*fakeDriver
	volume string // "" is not there yet
	change func(c docker.Command) int
}

func (c containers) Engine(context.Context) (docker.Engine, error) {
	return docker.Engine{
		Endpoint: docker.Endpoint{Host: "unix:///var/run/docker.sock", Why: `context "colima" (DOCKER_CONTEXT)`, Context: "colima"},
		ID:       "ENGINE", Version: "20.10.24", API: "1.41",
	}, nil
}

func (c containers) ServiceContainer(name string) string { return "shop-9f2c41-" + name + "-1" }

func (c containers) ReadVolume(_ context.Context, read func(dir string) error) error {
	if c.volume == "" {
		return fmt.Errorf("there is no volume: %w", fs.ErrNotExist)
	}
	return read(c.volume)
}

func (c containers) ReadFiles(ctx context.Context, files []string, read func(dir string) error) error {
	return c.ReadVolume(ctx, func(dir string) error {
		part, err := os.MkdirTemp("", "part")
		if err != nil {
			return err
		}
		for _, file := range append(files, checkpoint.VolumeFile) {
			if data, reading := os.ReadFile(filepath.Join(dir, file)); reading == nil {
				err = errors.Join(err, os.MkdirAll(filepath.Dir(filepath.Join(part, file)), 0o700), os.WriteFile(filepath.Join(part, file), data, 0o600))
			}
		}
		if err == nil {
			err = read(part)
		}
		return errors.Join(err, os.RemoveAll(part))
	})
}

func (c containers) Survey(context.Context) (*checkpoint.Survey, error) {
	if c.volume == "" {
		return nil, fmt.Errorf("there is no volume: %w", fs.ErrNotExist)
	}
	file, err := os.Open(filepath.Join(c.volume, checkpoint.VolumeFile))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s, err := checkpoint.NewSurvey(file)
	if err != nil {
		return nil, err
	}
	root := os.DirFS(c.volume)
	return s, fs.WalkDir(root, checkpoint.AgentsDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return errors.Join(err, s.Add(name, nil))
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(s.Add(name, f), f.Close())
	})
}

func (c containers) ChangeVolume(_ context.Context, _ runtime.Progress, command docker.Command) (int, error) {
	return c.change(command), nil
}

// onDocker is a driver with the sessions of volume.
func onDocker(t *testing.T, o runtime.Observed) containers {
	place := volume(t)
	reached, err := place.observe()
	if err != nil {
		t.Fatal(err)
	}
	o.Volume, o.Place = "flisk-shop-9f2c41d07a3e", "Docker volume flisk-shop-9f2c41d07a3e at unix:///var/run/docker.sock"
	return containers{fakeDriver: observing(o), volume: reached.Place}
}

func TestStatusOnDockerGolden(t *testing.T) {
	t.Parallel()
	o := running(time.Now().Add(-5*time.Minute - time.Second))
	o.Stale, o.Replicas = nil, o.Replicas[:1]
	o.Services = []runtime.Service{{Name: "db"}, {Name: "cache", Stopped: true}}
	got := run{driver: onDocker(t, o), terminal: true}.do(t, "status", "-C", projectDir(t, false), "--runtime", "docker")
	golden(t, "status-docker", got.out+"-- stderr\n"+got.err)
	if got.code != 0 {
		t.Errorf("code %d", got.code)
	}
	got = run{driver: onDocker(t, o)}.do(t, "status", "-C", projectDir(t, false), "--runtime", "docker", "--json")
	var v StatusJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || v.Runtime != "docker" || v.Engine == nil || v.Engine.Context != "colima" || v.Volume.Sessions != 3 || len(v.Services) != 2 || v.Services[1].Running {
		t.Errorf("%v in %+v", err, got)
	}
}

// C18: up says which engine has the conversations, and whether there are any.
func TestC18_UpOnDockerSaysWhere(t *testing.T) {
	t.Parallel()
	d := onDocker(t, running(time.Now()))
	d.up = func(context.Context, runtime.Progress) (runtime.Report, error) {
		return runtime.Report{Changed: true, URL: "http://127.0.0.1:8080"}, nil
	}
	got := run{driver: d}.do(t, "up", "-C", projectDir(t, false), "--runtime", "docker")
	for _, text := range []string{`engine   unix:///var/run/docker.sock (context "colima" (DOCKER_CONTEXT)), Docker 20.10.24`, "existing (3 sessions)"} {
		if got.code != 0 || !strings.Contains(got.out, text) {
			t.Errorf("it does not say %q: %+v", text, got)
		}
	}
	d.volume = ""
	if got := (run{driver: d}).do(t, "up", "-C", projectDir(t, false), "--runtime", "docker"); !strings.Contains(got.out, "not there yet") {
		t.Errorf("without a volume: %+v", got)
	}
}

// What is looked at is a copy; what changes the volume is an agent's own program.
func TestSessionsOnDocker(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, true)
	d := onDocker(t, runtime.Observed{})
	on := func(args ...string) result {
		return run{driver: d}.do(t, append([]string{"sessions", "-C", dir, "--runtime", "docker"}, args...)...)
	}
	if got := on("list"); got.code != 0 || strings.Count(got.out, "\n") != 4 {
		t.Errorf("list: %+v", got)
	}
	if got := on("show", "s1", "--agent", "clerk"); got.code != 0 || !strings.Contains(got.out, "another s1") {
		t.Errorf("show: %+v", got)
	}
	file := filepath.Join(t.TempDir(), "all.flisk.jsonl")
	if got := on("export", "-o", file); got.code != 0 {
		t.Fatalf("export: %+v", got)
	}
	exported, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	answer := func(exit int, said string, report any) func(docker.Command) int {
		return func(c docker.Command) int {
			t.Helper()
			_ = json.NewEncoder(c.Stdout).Encode(report)
			_, _ = fmt.Fprint(c.Stderr, said)
			return exit
		}
	}
	session := func(agent, id string) []checkpoint.ImportedSession {
		return []checkpoint.ImportedSession{{Agent: agent, Session: id, Turns: 2}}
	}
	d.change = func(c docker.Command) int {
		got, err := io.ReadAll(c.Input)
		if args := strings.Join(c.Args, " "); err != nil || string(got) != string(exported) || args != "sessions import --agents bot,clerk --agent clerk --skip-existing" {
			t.Errorf("asked %q with %d bytes, %v", args, len(got), err)
		}
		return answer(0, "", checkpoint.ImportReport{Imported: session("clerk", "s9")})(c)
	}
	if got := on("import", file, "--agent", "clerk", "--skip-existing"); got.code != 0 || !strings.Contains(got.out, "1 session, 2 turns") {
		t.Errorf("import: %+v", got)
	}
	for _, c := range []struct {
		exit   int
		said   string
		report checkpoint.ImportReport
		code   int
		says   string
	}{
		{1, "x", checkpoint.ImportReport{Taken: session("bot", "s1")}, 1, `session "s1" exists already`},
		{2, "x", checkpoint.ImportReport{Unknown: "clark", Known: []string{"bot", "clerk"}}, 2, `has no agent "clark"` + "\n" + `hint: give the sessions to an agent that there is with --agent; did you mean "clerk"?`},
		{3, "level=INFO msg=x\nno space left on the volume\n", checkpoint.ImportReport{Left: session("bot", "s1")}, 3, "no space left on the volume\n"},
		{1, "it broke", checkpoint.ImportReport{Imported: session("bot", "s1"), Left: session("bot", "s2")}, 1, "1 of 2 sessions were imported, and then: it broke"},
		{2, "", checkpoint.ImportReport{}, 2, "ended with 2 and said nothing"},
	} {
		d.change = answer(c.exit, c.said, c.report)
		if got := on("import", file); got.code != c.code || !strings.Contains(got.err, c.says) {
			t.Errorf("%+v: %+v", c, got)
		}
	}

	d.change = func(c docker.Command) int {
		if args := strings.Join(c.Args, " "); c.Input != nil || args != "sessions rm --agent clerk -- s1" {
			t.Errorf("asked %q", args)
		}
		return answer(0, "", checkpoint.RemovalReport{Removed: []string{"s1"}})(c)
	}
	if got := on("rm", "s1", "--agent", "clerk", "--yes"); got.code != 0 || !strings.Contains(got.out, "1 session") {
		t.Errorf("rm: %+v", got)
	}
	d.change = answer(3, "the volume cannot be written", checkpoint.RemovalReport{})
	if got := on("rm", "s1", "--agent", "clerk", "--yes"); got.code != 3 || !strings.Contains(got.err, "0 of 1 sessions were removed") {
		t.Errorf("rm that fails: %+v", got)
	}
	d.change = func(docker.Command) int { t.Error("it asked for what is not there"); return 1 }
	if got := on("rm", "s8", "--agent", "clerk", "--yes"); got.code != 1 {
		t.Errorf("rm of nothing: %+v", got)
	}
	d.volume = ""
	if got := on("list"); got.code != 0 || !strings.Contains(got.err, "no conversation yet") {
		t.Errorf("list before the first up: %+v", got)
	}
}

// An engine that went away is told, also where only the volume would be looked
// at.
func TestVolumeOfAnEngineThatWentAway(t *testing.T) {
	t.Parallel()
	gone := errors.New("cannot reach the Docker engine")
	d := unreachable{onDocker(t, runtime.Observed{}), gone}
	got := run{driver: d}.do(t, "sessions", "list", "-C", projectDir(t, false), "--runtime", "docker")
	if got.code == 0 || !strings.Contains(got.err, gone.Error()) {
		t.Errorf("got %+v", got)
	}
}

type unreachable struct {
	containers
	err error
}

func (u unreachable) ReadVolume(context.Context, func(string) error) error { return u.err }

func (u unreachable) ReadFiles(context.Context, []string, func(string) error) error { return u.err }

func (u unreachable) Survey(context.Context) (*checkpoint.Survey, error) { return nil, u.err }

// An empty volume is there, whoever made it.
func TestEmptyVolumeIsThere(t *testing.T) {
	t.Parallel()
	d := unreachable{onDocker(t, runtime.Observed{}), fmt.Errorf("x: %w", docker.ErrEmpty)}
	got := run{driver: d}.do(t, "status", "-C", projectDir(t, false), "--runtime", "docker")
	if got.code != 0 || !strings.Contains(got.out, "new, no session yet") {
		t.Errorf("got %+v", got)
	}
}

// refusing is a driver whose Up would refuse the volume.
type refusing struct {
	containers
	why error
}

func (r refusing) CheckVolume(context.Context) (refused, err error) { return r.why, nil }

// C18: status says itself what up would refuse, and does not advise it.
func TestC18_StatusSaysWhatUpRefuses(t *testing.T) {
	t.Parallel()
	d := refusing{onDocker(t, runtime.Observed{}), fault.New(fault.Environment, "put it back", "the volume is another one")}
	got := run{driver: d}.do(t, "status", "-C", projectDir(t, false), "--runtime", "docker")
	for _, text := range []string{"flisk up refuses it", "the volume is another one", "hint: put it back"} {
		if got.code != 0 || !strings.Contains(got.out+got.err, text) {
			t.Errorf("it does not say %q: %+v", text, got)
		}
	}
	if strings.Contains(got.err, "start it") {
		t.Errorf("it says to start it: %+v", got)
	}
	got = run{driver: d}.do(t, "status", "-C", projectDir(t, false), "--runtime", "docker", "--json")
	var v StatusJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || v.Volume.Refused != "the volume is another one" {
		t.Errorf("%v in %+v", err, got)
	}
}

// vanished is a driver whose volume was removed by somebody.
type vanished struct{ refusing }

func (v vanished) ReadVolume(context.Context, func(string) error) error { return fs.ErrNotExist }

func (v vanished) ReadFiles(context.Context, []string, func(string) error) error {
	return fs.ErrNotExist
}

// C18: a project whose volume is not there any more had conversations: there is no
// list without them.
func TestC18_NoListOfAVolumeThatIsGone(t *testing.T) {
	t.Parallel()
	d := vanished{refusing{onDocker(t, runtime.Observed{}), fault.New(fault.Environment, "put it back", "the volume is gone")}}
	for _, args := range [][]string{{"sessions", "list"}, {"sessions", "list", "--json"}, {"sessions", "show", "s1"}} {
		got := run{driver: d}.do(t, append(args, "-C", projectDir(t, false), "--runtime", "docker")...)
		if got.code != 3 || got.out != "" || !strings.Contains(got.err, "the volume is gone") || !strings.Contains(got.err, "put it back") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	d.why = nil // there was none yet
	if got := (run{driver: d}).do(t, "sessions", "list", "-C", projectDir(t, false), "--runtime", "docker"); got.code != 0 || !strings.Contains(got.err, "there is no conversation yet") {
		t.Errorf("got %+v", got)
	}
}

// An import that could not even ask where the volume is names none.
func TestImportedIntoNothing(t *testing.T) {
	t.Parallel()
	err := (&opened{}).notImported("", checkpoint.ImportReport{}, errors.New("no engine"))
	if text := asFault(err).Message; text != "nothing was imported: no engine" {
		t.Errorf("%q", text)
	}
}

// checking is a driver that is asked about the volume.
type checking struct {
	containers
	check func() (refused, err error)
}

func (c checking) CheckVolume(context.Context) (refused, err error) { return c.check() }

// C18: what keeps status from telling is no refusal, and a Ctrl-C meanwhile is an
// interruption and no success.
func TestC18_StatusThatCannotTell(t *testing.T) {
	t.Parallel()
	gone := checking{onDocker(t, runtime.Observed{}), func() (error, error) { return nil, errors.New("the engine took too long") }}
	got := run{driver: gone}.do(t, "status", "-C", projectDir(t, false), "--runtime", "docker")
	if got.code != 0 || strings.Contains(got.out+got.err, "refuses") || !strings.Contains(got.out, "cannot be read: the engine took too long") {
		t.Errorf("got %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := checking{onDocker(t, runtime.Observed{}), func() (error, error) { cancel(); return nil, nil }}
	got = run{driver: stopped, ctx: ctx}.do(t, "status", "-C", projectDir(t, false), "--runtime", "docker")
	if got.code != 130 || got.out != "" {
		t.Errorf("a status that was interrupted: %+v", got)
	}
}

// uncopied is a driver whose volume must not be copied.
type uncopied struct {
	containers
	t *testing.T
}

func (u uncopied) ReadVolume(context.Context, func(string) error) error {
	u.t.Error("the volume was copied")
	return nil
}

func (u uncopied) ReadFiles(context.Context, []string, func(string) error) error {
	u.t.Error("a part of the volume was copied")
	return nil
}

// What counts or names sessions copies nothing of a volume that is out of reach.
func TestCountingCopiesNothing(t *testing.T) {
	t.Parallel()
	d := uncopied{onDocker(t, runtime.Observed{}), t}
	d.up = func(context.Context, runtime.Progress) (runtime.Report, error) { return runtime.Report{}, nil }
	d.down = func(context.Context, runtime.Progress) (runtime.Report, error) { return runtime.Report{}, nil }
	dir := projectDir(t, true)
	for _, command := range []string{"up", "status", "down"} {
		if got := (run{driver: d}).do(t, command, "-C", dir, "--runtime", "docker"); got.code != 0 || !strings.Contains(got.out, "3 sessions") {
			t.Errorf("%s: %+v", command, got)
		}
	}
	got := run{driver: d, environ: []string{"FLISK_RUNTIME=docker"}}.do(t, "__complete", "-C", dir, "sessions", "show", "--agent", "bot", "")
	if !strings.Contains(got.out, "\ns1\n") {
		t.Errorf("completion: %+v", got)
	}
}
