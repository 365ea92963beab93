package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// rig is one project with everything it needs, in directories of its own.
type rig struct {
	t    *testing.T
	o    Options
	code *string // source hash of every agent
	p    *progress

	excused string // what a supervisor may say of why it did not start; "" for nothing
}

func newRig(t *testing.T) *rig {
	t.Helper()
	// Sockets have short names, and t.TempDir has the test's name in it.
	base, err := os.MkdirTemp("/tmp", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	code := "c1"
	r := &rig{t: t, code: &code, p: &progress{}}
	r.o = Options{
		Stack: stack.Stack{
			Name: "shop", ID: "9f2c41d07a3e", Dir: t.TempDir(),
			Gateway: stack.Gateway{Bind: "127.0.0.1", Port: porttest.Free(t)},
			Agents:  []stack.Agent{testAgentSpec(t, "bot")},
			Volume:  stack.Volume{Name: "flisk-shop-9f2c41d07a3e"},
		},
		Home: t.TempDir(), RunBase: base, Executable: self, Env: os.Environ(),
		SourceHash:   func(string) (string, error) { return code, nil },
		ReadyTimeout: 20 * time.Second,
	}
	t.Cleanup(r.tearDown)
	r.install("bot", code)
	return r
}

func testAgentSpec(t *testing.T, name string) stack.Agent {
	return stack.Agent{
		Name: name, Dir: t.TempDir(), Replicas: 1, TurnTimeout: 5 * time.Second, Drain: 10 * time.Second,
		StopGrace: 12 * time.Second, OnBusy: turn.BusyQueue, MaxBody: 1 << 20,
	}
}

// install puts the test binary where a build of the agent would.
func (r *rig) install(agent, code string) {
	r.t.Helper()
	path := filepath.Join(r.place().build, agent+"-"+code)
	if err := os.MkdirAll(filepath.Dir(path), userOnly); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Symlink(r.o.Executable, path); err != nil && !os.IsExist(err) {
		r.t.Fatal(err)
	}
}

func (r *rig) change(code string) {
	r.t.Helper()
	*r.code = code
	for _, a := range r.o.Stack.Agents {
		r.install(a.Name, code)
	}
}

func (r *rig) mode(mode string) { r.o.Env = append(r.o.Env, modeVar+"="+mode) }

func (r *rig) place() place { return placeOf(r.o.Home, r.o.RunBase, r.o.Stack) }

func (r *rig) memory() memory.File { return memory.Of(r.o.Home, r.o.Stack.ID, r.o.Stack.Instance) }

func (r *rig) driver() *Driver {
	r.t.Helper()
	d, err := New(r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func (r *rig) up() runtime.Report {
	r.t.Helper()
	report, err := r.driver().Up(r.t.Context(), r.p)
	if err != nil {
		r.t.Fatalf("up: %v\n%s", err, r.p)
	}
	return report
}

// upOptions is what a process of its own needs to know for an up.
type upOptions struct {
	Stack                     stack.Stack
	Home, RunBase, Executable string
	Env                       []string
	Code                      string
}

// startUp begins an up in a process of its own, which can be killed.
func (r *rig) startUp() *exec.Cmd {
	r.t.Helper()
	options, err := json.Marshal(upOptions{r.o.Stack, r.o.Home, r.o.RunBase, r.o.Executable, r.o.Env, *r.code})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), r.o.Executable, "up")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(options), os.Stderr
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	return cmd
}

func upFromStdin() error {
	var in upOptions
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	d, err := New(Options{
		Stack: in.Stack, Home: in.Home, RunBase: in.RunBase, Executable: in.Executable, Env: in.Env,
		SourceHash: func(string) (string, error) { return in.Code, nil },
	})
	if err != nil {
		return err
	}
	_, err = d.Up(context.Background(), &progress{})
	return err
}

func (r *rig) down() runtime.Report {
	r.t.Helper()
	report, err := r.driver().Down(r.t.Context(), r.p)
	if err != nil {
		r.t.Fatalf("down: %v\n%s", err, r.p)
	}
	r.mustBeClean()
	return report
}

func (r *rig) observe() runtime.Observed {
	r.t.Helper()
	o, err := r.driver().Observe(r.t.Context())
	if err != nil {
		r.t.Fatalf("observe: %v", err)
	}
	return o
}

// replica is the only one that runs.
func (r *rig) replica() runtime.Replica {
	r.t.Helper()
	o := r.observe()
	if len(o.Replicas) != 1 {
		r.t.Fatalf("%d replicas run, want 1: %+v", len(o.Replicas), o)
	}
	return o.Replicas[0]
}

func (r *rig) supervisor() proc.Identity {
	r.t.Helper()
	id, ok := r.place().supervisor()
	if !ok {
		r.t.Fatal("there is no supervisor")
	}
	return id
}

// tearDown stops what a failed test left running, and looks at what the
// supervisor has to say: a race report, for example.
func (r *rig) tearDown() {
	force := make(chan struct{})
	close(force)
	r.o.Force = force
	if _, err := r.driver().Down(context.Background(), r.p); err != nil {
		r.t.Errorf("down: %v", err)
	}
	r.mustBeClean()
	for _, name := range []string{"supervisor.out", "supervisor.out.1"} {
		out, _ := os.ReadFile(filepath.Join(r.place().logs, name))
		if len(out) > 0 && (r.excused == "" || !strings.Contains(string(out), r.excused)) {
			r.t.Errorf("the supervisor wrote:\n%s", out)
		}
	}
	if r.t.Failed() {
		log, _ := os.ReadFile(r.place().supervisorLog())
		r.t.Logf("the supervisor's log:\n%s", log)
		log, _ = os.ReadFile(r.place().agentLog("bot"))
		r.t.Logf("bot.log:\n%.4000s", log[max(0, len(log)-4000):])
		r.t.Logf("progress:\n%s", r.p)
	}
}

func (r *rig) mustBeClean() {
	r.t.Helper()
	left, err := os.ReadDir(r.o.RunBase)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range left {
		r.t.Errorf("left in the run base: %s", e.Name())
	}
}

func (r *rig) url() string { return r.o.Stack.Gateway.URL() }

// turn sends one turn and returns status and body.
func (r *rig) turn(agent, input string) (int, string) {
	return post(r.t.Context(), r.url()+turn.TurnPath(agent), input)
}

func (r *rig) mustTurn(agent, input string) string {
	r.t.Helper()
	status, body := r.turn(agent, input)
	if status != http.StatusOK {
		r.t.Fatalf("turn: %d %s", status, body)
	}
	return body
}

func post(ctx context.Context, url, body string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", turn.JSONType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// sent sends a turn, returns when the request is on its way, and its answer
// later.
func (r *rig) sent(agent, input string) (answer <-chan string) {
	r.t.Helper()
	wrote, end := make(chan struct{}), make(chan string, 1)
	ctx := httptrace.WithClientTrace(r.t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(wrote) },
	})
	go func() {
		status, body := post(ctx, r.url()+turn.TurnPath(agent), input)
		end <- fmt.Sprint(status, " ", body)
	}()
	select {
	case <-wrote:
	case early := <-end:
		r.t.Fatalf("the turn could not be sent: %s", early)
	}
	return end
}

// logged waits until the agent's log has a line with text, and returns it.
func (r *rig) logged(agent, text string) string {
	r.t.Helper()
	var found string
	eventually(r.t, "a log line with "+strconv.Quote(text), func() bool {
		data, _ := os.ReadFile(r.place().agentLog(agent))
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, text) {
				found = strings.TrimSuffix(line, "\n")
			}
		}
		return found != ""
	})
	return found
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.Tick(10 * time.Millisecond); !ok(); <-tick {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// identify fails the test unless the process runs.
func identify(t *testing.T, pid int) proc.Identity {
	t.Helper()
	id, err := proc.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func mustBeGone(t *testing.T, id proc.Identity) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := id.Wait(ctx); err != nil {
		t.Fatal(err)
	}
}

// progress writes down what it is told.
type progress struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (p *progress) Begin(step string) func(string, error) {
	p.say("begin " + step)
	return func(detail string, err error) { p.say(fmt.Sprintf("end %s: %s %v", step, detail, err)) }
}

func (p *progress) Output() io.Writer { return sayWriter{p.say} }

func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines.WriteString(line + "\n")
}

func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines.String()
}

// interruptible is a context that the test ends like Ctrl-C does.
func interruptible(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// grep fails the test when a file below dir holds the text.
func grep(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == supervisorCopy {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			t.Errorf("%q holds %q", path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
