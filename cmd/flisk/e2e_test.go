// Tests of flisk as a user has it: the built binary, real agents, real signals,
// real files, over HTTP. They need a Go toolchain and nothing else.
package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// binary builds flisk once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "flisk-e2e-")
	if err != nil {
		return "", err
	}
	// The go command keeps a result until what a test has read changes. It does not
	// see what another go command reads, so these directories are read here.
	for _, sources := range []string{".", "../../pkg", "../../templates"} {
		if err := filepath.WalkDir(sources, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "flisk")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// world is a user's machine: a home of its own and no network for Go.
type world struct {
	t    testing.TB
	home string // FLISK_HOME
	run  string // FLISK_RUN_DIR, short: socket names end at 104 bytes
	env  []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	home := t.TempDir()
	run, err := os.MkdirTemp("", "fr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	w := &world{t: t, home: home, run: run}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "FLISK_") && name != "GOFLAGS" {
			w.env = append(w.env, kv)
		}
	}
	w.env = append(w.env,
		"FLISK_HOME="+home, "FLISK_RUN_DIR="+run, "FLISK_RUNTIME=process", "NO_COLOR=1",
		// No network: no proxy, no checksum database, no other toolchain, and
		// no module cache that could stand in for one.
		"GOPROXY=off", "GONOSUMDB=*", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOMODCACHE="+filepath.Join(home, "modcache"))
	return w
}

// command prepares `flisk args…` in dir.
func (w *world) command(dir string, args ...string) *exec.Cmd {
	w.t.Helper()
	path, err := binary()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = w.env
	return cmd
}

// flisk runs a command that must succeed and returns its standard output.
func (w *world) flisk(dir string, args ...string) string {
	w.t.Helper()
	out, errOut, code := w.try(dir, args...)
	if code != 0 {
		w.t.Fatalf("flisk %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errOut)
	}
	return out
}

// try runs a command and returns its output and exit code.
func (w *world) try(dir string, args ...string) (stdout, stderr string, code int) {
	w.t.Helper()
	cmd := w.command(dir, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		w.t.Fatalf("flisk %s: %v", strings.Join(args, " "), err)
	} else if ok {
		code = exit.ExitCode()
	}
	return out.String(), errOut.String(), code
}

// project scaffolds a project, on a port that is free now, and takes it down
// when the test ends.
func (w *world) project(dir string) *project {
	w.t.Helper()
	w.flisk(filepath.Dir(dir), "init", filepath.Base(dir))
	p := &project{world: w, dir: dir, port: porttest.Free(w.t)}
	p.edit("flisk.yaml", regexp.MustCompile(`port: \d+`), fmt.Sprintf("port: %d", p.port))
	w.t.Cleanup(func() {
		if out, errOut, code := w.try(dir, "down"); code != 0 {
			w.t.Errorf("down at the end of the test: exit code %d\n%s%s", code, out, errOut)
		}
	})
	return p
}

// project is one scaffolded project.
type project struct {
	*world
	dir  string
	port int
}

func (p *project) do(args ...string) string {
	p.t.Helper()
	return p.flisk(p.dir, args...)
}

// edit replaces what pattern finds in a file of the project; it must find
// something.
func (p *project) edit(name string, pattern *regexp.Regexp, with string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	old, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	if !pattern.Match(old) {
		p.t.Fatalf("%s has nothing that matches %s", name, pattern)
	}
	if err := os.WriteFile(path, pattern.ReplaceAll(old, []byte(with)), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// write puts a file into the project.
func (p *project) write(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) url(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", p.port, path) }

// say sends one turn through the command and returns its reply.
func (p *project) say(session, message string) string {
	p.t.Helper()
	return strings.TrimSpace(p.do("turn", message, "-s", session))
}

// answer is what a turn over HTTP came to.
type answer struct {
	status  int
	result  turn.Result
	problem turn.Problem
	header  http.Header
}

// post sends one turn over HTTP. Header values of "" are sent as empty, absent
// names not at all.
func (p *project) post(ctx context.Context, agent, input string, header http.Header) (answer, error) {
	body, err := json.Marshal(turn.Request{Input: json.RawMessage(input)})
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url(turn.TurnPath(agent)), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", turn.JSONType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	if a.status == http.StatusOK {
		return a, json.Unmarshal(reply, &a.result)
	}
	if err := json.Unmarshal(reply, &a.problem); err != nil {
		return a, fmt.Errorf("status %d without a problem of the contract: %w: %s", a.status, err, reply)
	}
	return a, nil
}

// session reads one checkpoint over HTTP.
func (p *project) session(id string) turn.SessionView {
	p.t.Helper()
	var view turn.SessionView
	p.get(turn.SessionPath("bot", id), &view)
	return view
}

func (p *project) get(path string, v any) {
	p.t.Helper()
	resp, err := http.Get(p.url(path))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.t.Fatalf("GET %s: %d, %v\n%s", path, resp.StatusCode, err, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		p.t.Fatal(err)
	}
}

// pid is the process id of the project's only replica, as status knows it.
func (p *project) pid() int {
	p.t.Helper()
	var status struct {
		Replicas []struct {
			PID   int    `json:"pid"`
			State string `json:"state"`
		} `json:"replicas"`
	}
	out := p.do("status", "--json")
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		p.t.Fatalf("status --json: %v\n%s", err, out)
	}
	for _, r := range status.Replicas {
		if r.State == "ready" {
			return r.PID
		}
	}
	return 0
}

// eventually waits for a condition, or fails the test after limit.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after %v still not: %s", limit, what)
		case <-tick.C:
		}
	}
}

// files lists every path below dir that is not a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}
