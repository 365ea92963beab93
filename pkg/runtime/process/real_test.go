package process

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/scaffold"
	"github.com/flisk-go/flisk/pkg/source"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// scaffolded is a rig whose project is a real one, built by the toolchain.
func scaffolded(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	made, err := scaffold.Init(filepath.Join(t.TempDir(), "my böt"), scaffold.Options{Port: r.o.Stack.Gateway.Port})
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := project.Load(made.Dir)
	if err != nil {
		t.Fatal(err)
	}
	r.o.Stack, r.o.SourceHash = stack.Of(p, ""), func(agent string) (string, error) { return source.Hash(p, agent) }
	return r
}

// say sends a turn of a session and returns the reply.
func (r *rig) say(session, text string) string {
	r.t.Helper()
	body, err := json.Marshal(map[string]string{"input": text})
	if err != nil {
		r.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url()+turn.TurnPath("bot"), bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", turn.JSONType)
	req.Header.Set(turn.HeaderSession, session)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		r.t.Fatalf("turn: %s %s, %v", resp.Status, answer, err)
	}
	var result turn.Result
	if err := json.Unmarshal(answer, &result); err != nil {
		r.t.Fatal(err)
	}
	return turn.Text(result.Reply)
}

// One life of a real project: every way in which its agent can end, and the
// conversation goes on.
func TestC08_C09_C18_ARealProject(t *testing.T) {
	t.Parallel()
	r := scaffolded(t)
	r.up()
	r.say("s", "remember 17")
	remembers := func() {
		t.Helper()
		if got := r.say("s", "what did I say?"); !strings.Contains(got, "remember 17") {
			t.Errorf("it answered %q", got)
		}
	}
	if _, err := r.driver().Kill(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	remembers()

	// A change that does not compile leaves the old code serving.
	source := filepath.Join(r.o.Stack.Agents[0].Dir, "turn.go")
	good, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := r.replica()
	write(string(good) + "\nfunc broken() { return 1 }\n")
	_, err = r.driver().Up(t.Context(), r.p)
	if f, ok := asFault(err); !ok || f.Kind != fault.Failed || !strings.Contains(f.Detail, "turn.go:") {
		t.Errorf("up: %v", err)
	}
	if after := r.replica(); !reflect.DeepEqual(after, before) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	remembers()

	write(string(good) + "\n// another hash\n")
	r.up()
	after := r.replica()
	if now, err := r.o.SourceHash("bot"); err != nil || after.Code != now || after.Code == before.Code {
		t.Errorf("what runs is %q, the source is %q: %v", after.Code, now, err)
	}
	remembers()
	r.down()

	// Up again without a build, and it is still the same conversation (C18).
	if report := r.up(); report.Created {
		t.Error("the volume is a new one")
	}
	if n := strings.Count(r.p.String(), "begin build bot"); n != 3 {
		t.Errorf("%d builds, want 3:\n%s", n, r.p)
	}
	remembers()
	if n, err := checkpoint.CountSessions(r.place().volume); n != 1 || err != nil {
		t.Errorf("%d sessions: %v", n, err)
	}
	r.down()
}

// A program must not be kept under the hash of a source that it was not built
// from.
func TestC09_SourceThatChangesDuringTheBuild(t *testing.T) {
	t.Parallel()
	r := scaffolded(t)
	hashes := []string{"before", "meanwhile", "after", "after"}
	asked := 0
	r.o.SourceHash = func(string) (string, error) {
		h := hashes[min(asked, len(hashes)-1)]
		asked++
		return h, nil
	}
	r.up()
	if got := r.replica().Code; got != "after" {
		t.Errorf("what runs is %q", got)
	}
	programs, err := filepath.Glob(filepath.Join(r.place().build, "*"))
	if err != nil || len(programs) != 1 || filepath.Base(programs[0]) != "bot-after" {
		t.Errorf("programs: %q, %v", programs, err)
	}
}
