package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// devLoop is a "flisk dev" that runs, and what it said.
type devLoop struct {
	p     *project
	cmd   *exec.Cmd
	plain bool // not --json: every line is an event "line"
	err   bytes.Buffer

	over chan struct{} // closed when it has ended

	mu     sync.Mutex
	events []devEvent
	news   chan struct{} // closed, and replaced, at every event
}

type devEvent struct {
	Event  string
	Reload int
	Paths  []string
	Files  int
	Agents []string
	Steps  []string
	Spans  map[string]int64 `json:"spans_ms"`
	Drain  int64            `json:"drain_ms"`
	URL    string
	Error  struct{ Message, Hint, Detail string }
	Log    struct{ Replica, Text string }

	New, Removed, Left, Broken []string
	Step, Outcome              string
	Replica                    struct {
		Name, State, Exit string
		Restarts          int
	}
	seen time.Time
}

// dev starts the loop with --json, and ends it with the test.
func (p *project) dev(args ...string) *devLoop {
	p.t.Helper()
	return p.loop(&devLoop{}, append([]string{"dev", "--json"}, args...))
}

// plainDev is the same for people, off a terminal.
func (p *project) plainDev(args ...string) *devLoop {
	p.t.Helper()
	return p.loop(&devLoop{plain: true}, append([]string{"dev"}, args...))
}

func (p *project) loop(d *devLoop, args []string) *devLoop {
	p.t.Helper()
	d.p, d.cmd, d.over, d.news = p, p.command(p.dir, args...), make(chan struct{}), make(chan struct{})
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	d.cmd.Stderr = &d.err
	if err := d.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go d.read(bufio.NewScanner(out))
	p.t.Cleanup(func() {
		select {
		case <-d.over:
		default:
			d.signal(syscall.SIGINT)
			d.ended()
		}
		d.onlyDocumented()
		if p.t.Failed() {
			p.t.Logf("the loop said:\n%s%s", d.told(), d.err.String())
		}
	})
	return d
}

func (d *devLoop) read(lines *bufio.Scanner) {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e devEvent
		if d.plain {
			e.Event, e.Log.Text = "line", lines.Text()
		} else if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e.Event = "not JSON: " + lines.Text()
		}
		e.seen = time.Now()
		d.mu.Lock()
		d.events = append(d.events, e)
		close(d.news)
		d.news = make(chan struct{})
		d.mu.Unlock()
	}
	_ = d.cmd.Wait() // ended looks at how
	close(d.over)
}

// onlyDocumented fails the test for a line that is no JSON, or an event that
// docs/DEV_LOOP.md does not know.
func (d *devLoop) onlyDocumented() {
	d.p.t.Helper()
	content, err := os.ReadFile("../../docs/DEV_LOOP.md")
	if err != nil {
		d.p.t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(content), "| event | means |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if !ok {
		d.p.t.Fatal("docs/DEV_LOOP.md has no table of events")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if !d.plain && !strings.Contains(table, "`"+e.Event+"`") {
			d.p.t.Errorf("an event that is not documented: %s", e.Event)
		}
	}
}

func (d *devLoop) told() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var b strings.Builder
	for _, e := range d.events {
		fmt.Fprintf(&b, "%s %s %d %q %v %s %s %s\n", e.seen.Format("15:04:05.000"), e.Event, e.Reload, e.Paths, e.Spans, e.Error.Message, e.Error.Detail, e.Log.Text)
	}
	return b.String()
}

// await waits for the n-th event of a kind, counted from 1.
func (d *devLoop) await(kind string, n int) devEvent {
	d.p.t.Helper()
	deadline := time.After(90 * time.Second)
	for {
		d.mu.Lock()
		left, news := n, d.news
		for _, e := range d.events {
			if e.Event == kind {
				if left--; left == 0 {
					d.mu.Unlock()
					return e
				}
			}
		}
		d.mu.Unlock()
		select {
		case <-news:
		case <-d.over:
			d.p.t.Fatalf("the loop ended (%s) before %s %d:\n%s%s", d.cmd.ProcessState, kind, n, d.told(), d.err.String())
		case <-deadline:
			d.p.t.Fatalf("no event %s %d:\n%s", kind, n, d.told())
		}
	}
}

// count is how many events of a kind there were.
func (d *devLoop) count(kind string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, e := range d.events {
		if e.Event == kind {
			n++
		}
	}
	return n
}

func (d *devLoop) signal(sig syscall.Signal) {
	d.p.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		d.p.t.Error(err)
	}
}

// ended waits for the end of the loop and returns its exit code.
func (d *devLoop) ended() int {
	d.p.t.Helper()
	select {
	case <-d.over:
	case <-time.After(90 * time.Second):
		_ = d.cmd.Process.Kill()
		<-d.over
		d.p.t.Errorf("the loop does not end:\n%s", d.told())
	}
	return d.cmd.ProcessState.ExitCode()
}

// save writes a file as editors do: beside it first, then over it.
func (p *project) save(name, content string) {
	p.t.Helper()
	p.write(name+"___jb_tmp___", content)
	if err := os.Rename(filepath.Join(p.dir, name+"___jb_tmp___"), filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

// version is the agent's code with a number in every reply: "v3 turn 1 …".
func version(n int) string {
	return strings.Replace(slowCode, `fmt.Sprintf("turn`, fmt.Sprintf(`fmt.Sprintf("v%d turn`, n), 1)
}

// holding is the agent's code, as it is written to turn.go, with one more kind of turn:
// one whose input begins with "held" runs until release.
func holding(code string) string {
	return strings.NewReplacer(`"time"`, "\"os\"\n\t\"os/signal\"\n\t\"syscall\"\n\t\"time\"",
		"first, _, _ := cutSpace(input.Text())", `first, _, _ := cutSpace(input.Text())
	if first == "held" {
		released := make(chan os.Signal, 1)
		signal.Notify(released, syscall.SIGUSR1)
		fmt.Println("turn runs", first)
		select {
		case <-released:
		case <-ctx.Done():
			return agent.Reply{}, context.Cause(ctx)
		}
	}`).Replace(code)
}

// release ends the turns that are held by a process, which any test may send a
// signal to, in a container or not.
func release(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
}

// onEach runs a test with a scaffolded project on local processes and on Docker.
func onEach(t *testing.T, run func(t *testing.T, p *project)) {
	t.Helper()
	t.Parallel()
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		run(t, newWorld(t).project(filepath.Join(t.TempDir(), "bot")))
	})
	t.Run("docker", func(t *testing.T) {
		t.Parallel()
		run(t, newDockerWorld(t).dockerProject(filepath.Join(t.TempDir(), "bot")))
	})
}

// readFile is a file of the project.
func (p *project) readFile(name string) string {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(content)
}

// gatewayPID is the gateway's process, as status knows it.
func (p *project) gatewayPID() int {
	p.t.Helper()
	return p.pids()["gateway"]
}

// pids are the main processes of the gateway and of every agent that is ready, as
// status knows them, on either runtime.
func (p *project) pids() map[string]int {
	p.t.Helper()
	var status struct {
		Gateway  int `json:"gateway_pid"`
		Replicas []struct {
			Agent, State string
			PID          int
		}
	}
	if err := json.Unmarshal([]byte(p.do("status", "--json")), &status); err != nil || status.Gateway == 0 {
		p.t.Fatalf("the gateway's process: %+v, %v", status, err)
	}
	all := map[string]int{"gateway": status.Gateway}
	for _, r := range status.Replicas {
		if r.State == "ready" {
			all[r.Agent] = r.PID
		}
	}
	return all
}

// times is in how many lines an agent printed a text.
func (d *devLoop) times(text string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if strings.Contains(e.Log.Text, text) {
			n++
		}
	}
	return n
}

// said reports whether an agent printed a text.
func (d *devLoop) said(text string) bool { return d.times(text) > 0 }

// log waits until an agent has printed a text.
func (d *devLoop) log(text string) {
	d.p.t.Helper()
	eventually(d.p.t, 20*time.Second, fmt.Sprintf("a line %q", text), func() bool { return d.said(text) })
}

// code is the hash of what the only replica runs, as every answer says.
func (p *project) code() string {
	p.t.Helper()
	resp, err := http.Get(p.url(turn.AgentReadyPath("bot")))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.Header.Get(turn.HeaderCode)
}
