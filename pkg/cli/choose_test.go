package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
)

const shopID = "9f2c41d07a3e" // of projectDir

// ranOn is a FLISK_HOME where the project ran on a runtime; "" is nowhere.
func ranOn(t *testing.T, on string) string {
	t.Helper()
	home := t.TempDir()
	if on != "" {
		if err := memory.Of(home, shopID, "").Write(memory.Project{}.Keep(on, memory.Volume{Name: "v", ID: "1"})); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestRuntimeIsChosenInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flag, file, last string
		engine           bool
		up, look         project.Runtime
	}{
		{flag: "process", file: "docker", last: "docker", engine: true, up: "process", look: "process"},
		{flag: "docker", file: "process", last: "process", up: "docker", look: "docker"},
		{file: "docker", last: "process", up: "docker", look: "process"},
		{file: "process", last: "docker", engine: true, up: "process", look: "docker"},
		{file: "docker", up: "docker", look: "docker"},
		{file: "auto", last: "process", engine: true, up: "process", look: "process"},
		{file: "auto", last: "docker", up: "docker", look: "docker"},
		{flag: "auto", file: "process", engine: true, up: "process", look: "process"},
		{file: "auto", engine: true, up: "docker", look: "docker"},
		{file: "auto", up: "process", look: "process"},
	} {
		a := quietApp()
		a.global.runtime = c.flag
		a.environ = []string{"FLISK_HOME=" + ranOn(t, c.last)}
		a.askEngine = answering(c.engine)
		p := &project.Project{ID: shopID, Runtime: project.Runtime(c.file)}
		up, err := a.chooseRuntime(t.Context(), p)
		if err != nil || up.on != c.up {
			t.Errorf("%+v: up on %q, %v", c, up, err)
		}
		if look, err := a.lookAtRuntime(t.Context(), p); err != nil || look.on != c.look {
			t.Errorf("%+v: looked at %q, %v", c, look, err)
		}
	}
}

// volumeWith has sessions of bot, each a name with a dot for every turn.
func volumeWith(t *testing.T, sessions ...string) runtime.Observed {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "v")
	for _, s := range sessions {
		store, err := checkpoint.Open(dir, checkpoint.Options{Agent: "bot"})
		if err != nil {
			t.Fatal(err)
		}
		id, turns, _ := strings.Cut(s, " ")
		for range len(turns) {
			converse(t, store, id, "hello", false)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return runtime.Observed{Volume: "v", Place: dir}
}

// Where both runtimes have a copy of a session, and it went on on one of them, the
// refusal names the commands for either way, and they work as they are printed.
func TestC18_TheWayOnWorks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to string // the hint's words around the commands
		turns    map[string]int
	}{
		"the newer": {"older copies here: ", "; or keep", map[string]int{"s1": 3, "s2": 1, "s3": 2, "s4": 2, "mine": 1}},
		"the older": {"the newer ones: ", "\n", map[string]int{"s1": 1, "s3": 1, "s4": 2, "mine": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := ranOn(t, "process")
			here := observing(volumeWith(t, "s1 .", "s3 .", "s4 ..", "mine ."))
			there := observing(volumeWith(t, "s1 ...", "s3 ..", "s4 ..", "s2 ."))
			here.up = func(context.Context, runtime.Progress) (runtime.Report, error) { return runtime.Report{}, nil }
			dir := projectDir(t, false)
			do := func(stdin string, args ...string) result {
				return run{stdin: stdin, environ: []string{"FLISK_HOME=" + home}, engine: true, driverOn: map[project.Runtime]runtime.Driver{"process": there, "docker": here}}.do(t, args...)
			}
			refused := do("", "up", "-C", dir, "--runtime", "docker")
			_, commands, ok := strings.Cut(refused.err, c.from)
			commands, _, end := strings.Cut(commands, c.to)
			if refused.code != 3 || !ok || !end {
				t.Fatalf("the refusal is %+v", refused)
			}
			for _, line := range strings.Split(commands, " && ") {
				out := ""
				for _, command := range strings.Split(line, " | ") {
					args := strings.Fields(command)
					got := do(out, append(args[1:], "--yes")...) // without "flisk"
					if got.code != 0 {
						t.Fatalf("%s: %+v", command, got)
					}
					out = got.out
				}
			}
			got := do("", "up", "-C", dir, "--runtime", "docker")
			if strings.HasPrefix(name, "the older") { // what is only there can be copied now
				if got.code != 3 || !strings.Contains(got.err, "1 session is there that Docker would not have\n") || !strings.Contains(got.err, "import - --skip-existing") {
					t.Errorf("up: %+v", got)
				}
			} else if got.code != 0 {
				t.Errorf("up: %+v", got)
			}
			var list SessionsJSON
			if err := json.Unmarshal([]byte(do("", "sessions", "list", "-C", dir, "--runtime", "docker", "--json").out), &list); err != nil {
				t.Fatal(err)
			}
			turns := map[string]int{}
			for _, s := range list.Sessions {
				turns[s.ID] = s.Turns
			}
			if !maps.Equal(turns, c.turns) {
				t.Errorf("Docker has %v, want %v", turns, c.turns)
			}
		})
	}
}

// However many sessions are older here, the hint can be read.
func TestC18_TheWayOnOfManySessions(t *testing.T) {
	t.Parallel()
	var older, newer []string
	for i := range 40 {
		older, newer = append(older, fmt.Sprintf("session-%d .", i)), append(newer, fmt.Sprintf("session-%d ..", i))
	}
	got := run{environ: []string{"FLISK_HOME=" + ranOn(t, "process")}, engine: true, driverOn: map[project.Runtime]runtime.Driver{
		"process": observing(volumeWith(t, newer...)), "docker": observing(volumeWith(t, older...)),
	}}.do(t, "up", "-C", projectDir(t, false), "--runtime", "docker")
	if got.code != 3 || strings.Contains(got.err, "session-") || !strings.Contains(got.err, "sessions rm ID… --agent bot --runtime docker") ||
		!strings.Contains(got.err, "ID… are those that have fewer turns in ") {
		t.Errorf("got %+v", got)
	}
}

// A project never begins anew because another runtime was chosen, or happened to
// be there.
func TestC18_ConversationsAreNotMovedByAccident(t *testing.T) {
	t.Parallel()
	volumeWith := func(sessions ...string) runtime.Observed { return volumeWith(t, sessions...) }
	runs := volumeWith("s1 .")
	runs.Running = true
	for name, c := range map[string]struct {
		last        string
		there, here runtime.Observed
		says        string // "" lets it up
	}{
		"first up":          {last: "", there: volumeWith("s1 ."), here: volumeWith()},
		"as before":         {last: "process", there: volumeWith("s1 ."), here: volumeWith()},
		"nothing to lose":   {last: "docker", there: volumeWith(), here: volumeWith()},
		"would be missing":  {last: "docker", there: volumeWith("s1 .", "s2 ."), here: volumeWith("s1 ."), says: "1 session is there that local processes would not have"},
		"would be older":    {last: "docker", there: volumeWith("s1 .."), here: volumeWith("s1 ."), says: "1 session is there with more turns than on local processes"},
		"both":              {last: "docker", there: volumeWith("s1 ..", "s2 ."), here: volumeWith("s1 ."), says: "1 session is there that local processes would not have, and 1 session is there with more turns"},
		"several":           {last: "docker", there: volumeWith("s1 .", "s2 ."), here: volumeWith(), says: "2 sessions are there"},
		"were copied":       {last: "docker", there: volumeWith("s1 .", "s2 ."), here: volumeWith("s1 ..", "s2 .")},
		"runs there":        {last: "docker", there: runs, here: volumeWith("s1 ."), says: "the project runs on Docker"},
		"cannot be told of": {last: "docker", there: runtime.Observed{Place: "\x00"}, here: volumeWith(), says: "cannot be told"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := ranOn(t, c.last)
			here, there := observing(c.here), observing(c.there)
			ups := 0
			here.up = func(context.Context, runtime.Progress) (runtime.Report, error) { ups++; return runtime.Report{}, nil }
			here.plan = func(context.Context, runtime.Op, ...string) (runtime.Plan, error) { return nil, nil }
			dir := projectDir(t, false)
			if err := os.Remove(filepath.Join(dir, "compose.yaml")); err != nil { // what is refused writes nothing
				t.Fatal(err)
			}
			do := func(args ...string) result {
				return run{environ: []string{"FLISK_HOME=" + home}, engine: true, driverOn: map[project.Runtime]runtime.Driver{"process": here, "docker": there}}.
					do(t, append(args, "-C", dir, "--runtime", "process")...)
			}
			if got := do("up", "--dry-run"); c.says != "" && got.code != 3 || c.says == "" && got.code != 0 {
				t.Errorf("dry: %+v", got)
			}
			got := do("up", "--yes")
			_, wrote := os.Stat(filepath.Join(dir, "compose.yaml"))
			if c.says == "" {
				if got.code != 0 || ups != 1 || wrote != nil {
					t.Errorf("%d ups, %v, %+v", ups, wrote, got)
				}
				return
			}
			if got.code != 3 || ups != 0 || wrote == nil || !strings.Contains(got.err, c.says) || !strings.Contains(got.err, "--runtime docker") {
				t.Errorf("%d ups, %v, %+v", ups, wrote, got)
			}
			if strings.Contains(c.says, "session") && (!strings.Contains(got.err, "sessions export") || !strings.Contains(got.err, "sessions import -") || !strings.Contains(got.err, "--runtime process")) {
				t.Errorf("it does not say how to move them: %s", got.err)
			}
		})
	}
}

// A memory that cannot be read is no memory to go by: nothing is chosen.
func TestC18_UnreadableMemoryChoosesNothing(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := memory.Of(home, shopID, "").Path()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"up", "status", "down"} {
		got := run{environ: []string{"FLISK_HOME=" + home}}.do(t, command, "-C", projectDir(t, false))
		if got.code != 3 || !strings.Contains(got.err, path) {
			t.Errorf("%s: %+v", command, got)
		}
	}
}
