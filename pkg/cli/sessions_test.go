package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// volume makes one with sessions of the agents bot and clerk.
func volume(t *testing.T) *fakeDriver {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "flisk-shop-9f2c41d07a3e")
	dated := map[string]bool{}
	put := func(agent, session string, turns int, text string, age time.Duration) {
		t.Helper()
		defer date(t, dir, dated, time.Now().Add(-age))
		store, err := checkpoint.Open(dir, checkpoint.Options{Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for n := range turns {
			converse(t, store, session, fmt.Sprintf("%s %d", text, n+1), n == 2)
		}
	}
	put("bot", "s1", 3, "hello \x1b[31mred\nand a line", 3*time.Hour)
	put("bot", strings.Repeat("long-id.", 16), 1, "x", 2*time.Minute)
	put("clerk", "s1", 1, "another s1", time.Minute)
	return observing(runtime.Observed{Volume: filepath.Base(dir), Place: dir})
}

// date sets when the session files that are not in dated were last written to.
func date(t *testing.T, dir string, dated map[string]bool, at time.Time) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "a", "*", "s", "*", "*.jsonl"))
	if err != nil || len(files) == len(dated) {
		t.Fatalf("no new session file among %q (%v)", files, err)
	}
	for _, f := range files {
		if !dated[f] {
			dated[f] = true
			if err := os.Chtimes(f, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// converse commits a turn, or begins one that its process never ends.
func converse(t *testing.T, store checkpoint.Store, session, text string, leave bool) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Acquire(t.Context(), session)
	must(err)
	defer s.Release()
	input, err := json.Marshal(text)
	must(err)
	_, err = s.Begin(checkpoint.Begin{Input: input})
	must(err)
	if leave {
		must(s.Fail("the model is on fire"))
		return
	}
	reply, err := json.Marshal(strings.Repeat("a reply of many words ", 5) + text)
	must(err)
	_, err = s.Commit(checkpoint.Commit{
		Messages: s.Checkpoint().Messages,
		Add:      []turn.Message{{Role: "user", Content: input}, {Role: "assistant", Content: reply}},
		State:    json.RawMessage(`{"first":"<hello>","n":17}`),
		Reply:    reply,
	})
	must(err)
}

// sizes differ by a byte or two from run to run: times are in the files.
var sizes = regexp.MustCompile(`\d+(\.\d)? (B|KiB)`)

func TestSessionsGolden(t *testing.T) {
	t.Parallel()
	driver := volume(t)
	two, one := projectDir(t, true), projectDir(t, false)
	for name, args := range map[string][]string{
		"sessions-list":       {"list", "-C", two},
		"sessions-list-agent": {"list", "-C", two, "--agent", "bot"},
		"sessions-show":       {"show", "s1", "-C", one},
		"sessions-show-clerk": {"show", "s1", "-C", two, "--agent", "clerk"},
	} {
		got := run{driver: driver, terminal: true}.do(t, append([]string{"sessions"}, args...)...)
		if got.code != 0 {
			t.Errorf("%s: code %d", name, got.code)
		}
		golden(t, name, sizes.ReplaceAllString(got.out, "# B")+"-- stderr\n"+got.err)
	}
}

// Agents that flisk.yaml does not name any more are there as long as the volume
// has their conversations.
func TestSessionsOfAnAgentThatIsGone(t *testing.T) {
	t.Parallel()
	driver, one := volume(t), projectDir(t, false) // which names bot only
	got := run{driver: driver}.do(t, "sessions", "list", "-C", one)
	if got.code != 0 || !strings.HasPrefix(got.out, "AGENT  SESSION ") || strings.Count(got.out, "\n") != 4 || !strings.Contains(got.out, "\nclerk  s1 ") {
		t.Errorf("list: %+v", got)
	}
	got = run{driver: driver}.do(t, "sessions", "list", "-C", one, "--agent", "clerk")
	if got.code != 0 || !strings.HasPrefix(got.out, "SESSION ") || strings.Count(got.out, "\n") != 2 {
		t.Errorf("list of clerk: %+v", got)
	}
	got = run{driver: driver}.do(t, "sessions", "show", "s1", "-C", one, "--agent", "clerk")
	if got.code != 0 || !strings.Contains(got.out, "another s1 1") {
		t.Errorf("show: %+v", got)
	}
	got = run{driver: driver}.do(t, "sessions", "list", "-C", one, "--agent", "nobody")
	if got.code != 2 || !strings.Contains(got.err, "hint: it has: bot, clerk\n") {
		t.Errorf("list of nobody: %+v", got)
	}
}

func TestSessionsJSON(t *testing.T) {
	t.Parallel()
	driver, dir := volume(t), projectDir(t, true)
	var list SessionsJSON
	got := run{driver: driver}.do(t, "sessions", "list", "-C", dir, "--json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list.Sessions) != 3 || got.err != "" {
		t.Fatalf("%v in %+v", err, got)
	}
	turns := map[string]int{}
	for _, s := range list.Sessions {
		turns[s.Agent+" "+s.ID] = s.Turns
		if s.Bytes == 0 || s.Activity.IsZero() || s.Problem != "" {
			t.Errorf("a row is %+v", s)
		}
	}
	if turns["bot s1"] != 2 || turns["clerk s1"] != 1 {
		t.Errorf("turns are %v", turns)
	}
	var show SessionJSON
	got = run{driver: driver}.do(t, "sessions", "show", "s1", "-C", dir, "--agent", "bot", "--json")
	if err := json.Unmarshal([]byte(got.out), &show); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	if show.Turns != 2 || len(show.Messages) != 4 || len(show.History) != 3 || show.History[2].State != turn.Failed ||
		show.History[2].Reason != "the model is on fire" || show.Messages[0].Text() != "hello \x1b[31mred\nand a line 1" {
		t.Errorf("got %+v", show)
	}
}

// What a pipe leads to is often a terminal.
func TestSessionsOffATerminalHaveNoEscapesEither(t *testing.T) {
	t.Parallel()
	got := run{driver: volume(t)}.do(t, "sessions", "show", "s1", "-C", projectDir(t, false))
	if got.code != 0 || !strings.Contains(got.out, "user       hello "+`\x1b[31mred`+"\n           and a line 1\n") {
		t.Errorf("got %+v", got)
	}
}

// A damaged session is shown as such, and the others are shown all the same.
func TestADamagedSessionIsNamed(t *testing.T) {
	t.Parallel()
	driver, dir := volume(t), projectDir(t, false)
	observed, err := driver.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	err = filepath.WalkDir(filepath.Join(observed.Place, "a", "bot", "s"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(content), "on fire") {
			return err
		}
		damaged++
		content[len(content)/2] ^= 1
		return os.WriteFile(path, content, 0o600)
	})
	if err != nil || damaged != 1 {
		t.Fatalf("damaged %d files: %v", damaged, err)
	}
	got := run{driver: driver, terminal: true}.do(t, "sessions", "list", "-C", dir)
	if got.code != 0 || !strings.Contains(got.out, "long-id.") || !strings.Contains(got.err, `problem: session "s1" is damaged`) {
		t.Errorf("list: %+v", got)
	}
	got = run{driver: driver}.do(t, "sessions", "show", "s1", "-C", dir)
	if got.code != 1 || got.out != "" || !strings.HasPrefix(got.err, `flisk: session "s1" is damaged`) ||
		!strings.Contains(got.err, "hint: its file was left as it is") {
		t.Errorf("show: %+v", got)
	}
}

func TestSessionsThatAreNotThere(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, true)
	got := run{driver: volume(t)}.do(t, "sessions", "show", "nix", "-C", dir, "--agent", "bot")
	if got.code != 1 || !strings.HasPrefix(got.err, "flisk: agent \"bot\" has no session \"nix\"\nhint: see flisk -C ") {
		t.Errorf("got %+v", got)
	}
	got = run{driver: volume(t)}.do(t, "sessions", "show", "s1", "-C", dir)
	if got.code != 2 || !strings.Contains(got.err, `project "shop" has 2 agents`) {
		t.Errorf("got %+v", got)
	}
	// A directory that is no volume is not an empty one, unless nothing ran yet.
	broken := observing(runtime.Observed{Volume: "v", Place: filepath.Join(dir, "flisk.yaml")})
	if got := (run{driver: broken}).do(t, "sessions", "list", "-C", dir); got.code == 0 {
		t.Errorf("a file was taken for a volume: %+v", got)
	}
}

// Errors that a roll-back adds to a fault are shown, too.
func TestJoinedErrorsAreAllShown(t *testing.T) {
	t.Parallel()
	f := asFault(errors.Join(fault.New(fault.Failed, "do this", "first"), errors.New("and the roll-back failed")))
	if f.Message != "first" || f.Detail != "and the roll-back failed" || f.Hint != "do this" {
		t.Errorf("got %+v", f)
	}
}
