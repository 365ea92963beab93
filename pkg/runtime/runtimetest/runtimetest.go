// Package runtimetest says what every runtime does with a stack, as one suite
// that any [runtime.Driver] is held against. Its agent is a real one, built from
// testdata; its stacks have ids, names and ports of their own.
package runtimetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Setup is what a driver is made from for one call.
type Setup struct {
	Stack      stack.Stack
	Home       string
	SourceHash func(agent string) (string, error)
	Force      <-chan struct{}

	// ReadyTimeout is how long an up waits for one agent; 0 is the place's own.
	ReadyTimeout time.Duration

	// LeaveAgents is what the driver's option of that name says.
	LeaveAgents bool
}

// Place is a runtime under test.
type Place struct {
	// New makes a driver. It is called for every command anew.
	New func(t *testing.T, s Setup) runtime.Driver

	// Program is what agents run.
	Program *Program

	// Install puts the agent's program where a build of that code would, so that
	// nothing is built.
	Install func(t *testing.T, s Setup, agent, code, program string)

	// Clean is called when a project's test has ended and everything was stopped.
	// It removes what the runtime keeps, and fails the test when more is left than
	// it should.
	Clean func(t *testing.T, s Setup)
}

// Program is the agent of the suite, as a static program. It is built when it is
// first needed; whoever has one calls Remove at the end of the test process.
type Program struct {
	once sync.Once
	dir  string
	err  error
}

// Path builds the program.
func (p *Program) Path(t testing.TB) string {
	t.Helper()
	p.once.Do(p.build)
	if p.err != nil {
		t.Fatal(p.err)
	}
	return filepath.Join(p.dir, "agent")
}

func (p *Program) build() {
	_, file, _, _ := goruntime.Caller(0)
	if p.dir, p.err = os.MkdirTemp("", "runtimetest"); p.err != nil {
		return
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(p.dir, "agent"), "./testdata/agent")
	cmd.Dir = filepath.Dir(file)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.err = fmt.Errorf("%w: %s", err, out)
	}
}

// Remove removes the program, if it was built.
func (p *Program) Remove() error {
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}

// Project is one project on a place.
type Project struct {
	T     *testing.T
	Place Place
	Setup Setup
	P     *Progress

	mu   sync.Mutex
	code string
}

// NewProject makes a project with one agent, "bot". Its end stops what runs.
func NewProject(t *testing.T, place Place) *Project {
	t.Helper()
	id := make([]byte, 6)
	_, _ = rand.Read(id) // never fails
	name := "rt-" + hex.EncodeToString(id[:3])
	p := &Project{T: t, Place: place, P: &Progress{}, code: "c1"}
	dir := t.TempDir()
	p.Setup = Setup{
		Stack: stack.Stack{
			Name: name, ID: hex.EncodeToString(id), Dir: dir,
			Gateway: stack.Gateway{Bind: "127.0.0.1", Port: porttest.Free(t)},
			Agents:  []stack.Agent{Agent(dir, "bot")},
			Volume:  stack.Volume{Name: "flisk-" + name + "-" + hex.EncodeToString(id)},
		},
		Home: t.TempDir(),
	}
	p.Setup.SourceHash = func(string) (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.code, nil
	}
	p.Code("c1")
	t.Cleanup(p.end)
	return p
}

// Agent is an agent of a project.
func Agent(dir, name string) stack.Agent {
	return stack.Agent{
		Name: name, Dir: dir, Replicas: 1, TurnTimeout: 20 * time.Second, Drain: 25 * time.Second,
		StopGrace: 30 * time.Second, OnBusy: turn.BusyQueue, MaxBody: 1 << 20,
	}
}

// Code changes what the agents' source is.
func (p *Project) Code(code string) {
	p.T.Helper()
	p.mu.Lock()
	p.code = code
	p.mu.Unlock()
	for _, a := range p.Setup.Stack.Agents {
		p.Place.Install(p.T, p.Setup, a.Name, code, p.Place.Program.Path(p.T))
	}
}

// end stops what a test left, and looks whether nothing is.
func (p *Project) end() {
	force := make(chan struct{})
	close(force)
	s := p.Setup
	s.Force = force
	if _, err := p.Place.New(p.T, s).Down(context.Background(), p.P); err != nil {
		p.T.Errorf("down at the end: %v", err)
	}
	p.Place.Clean(p.T, p.Setup)
	if p.T.Failed() {
		p.T.Logf("progress:\n%s", p.P)
	}
}

// Driver is a new one, as every command makes.
func (p *Project) Driver() runtime.Driver { return p.Place.New(p.T, p.Setup) }

// Up brings the project up.
func (p *Project) Up() runtime.Report {
	p.T.Helper()
	report, err := p.Driver().Up(p.T.Context(), p.P)
	if err != nil {
		p.T.Fatalf("up: %v\n%s", err, p.P)
	}
	return report
}

// Down stops the project.
func (p *Project) Down() runtime.Report {
	p.T.Helper()
	report, err := p.Driver().Down(p.T.Context(), p.P)
	if err != nil {
		p.T.Fatalf("down: %v\n%s", err, p.P)
	}
	return report
}

// Restart replaces every replica.
func (p *Project) Restart() runtime.Report {
	p.T.Helper()
	report, err := p.Driver().Restart(p.T.Context(), "", p.P)
	if err != nil {
		p.T.Fatalf("restart: %v\n%s", err, p.P)
	}
	return report
}

// Observe looks at the project.
func (p *Project) Observe() runtime.Observed {
	p.T.Helper()
	o, err := p.Driver().Observe(p.T.Context())
	if err != nil {
		p.T.Fatalf("observe: %v", err)
	}
	return o
}

// Replica is the only one that runs.
func (p *Project) Replica() runtime.Replica {
	p.T.Helper()
	o := p.Observe()
	if len(o.Replicas) != 1 {
		p.T.Fatalf("%d replicas run, want 1: %+v", len(o.Replicas), o)
	}
	return o.Replicas[0]
}

// Answer is what a client got for a turn.
type Answer struct {
	Status int
	Err    error
	Code   string // of the agent that answered
	Turn   int
	Reply  string
	Body   string
}

// Turn sends one turn, and returns whatever came of it.
func (p *Project) Turn(agent, session, key, input string) Answer {
	return Send(p.T.Context(), http.DefaultClient, p.Setup.Stack.Gateway.URL(), agent, session, key, input)
}

// MustTurn sends one turn, which is answered.
func (p *Project) MustTurn(session, input string) Answer {
	p.T.Helper()
	a := p.Turn("bot", session, "", input)
	if a.Err != nil || a.Status != http.StatusOK {
		p.T.Fatalf("turn %q of %s: %+v", input, session, a)
	}
	return a
}

// Send sends one turn. A key is left out when it is "".
func Send(ctx context.Context, client *http.Client, url, agent, session, key, input string) Answer {
	body, err := json.Marshal(map[string]string{"input": input})
	if err != nil {
		return Answer{Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+turn.TurnPath(agent), bytes.NewReader(body))
	if err != nil {
		return Answer{Err: err}
	}
	req.Header.Set("Content-Type", turn.JSONType)
	req.Header.Set(turn.HeaderSession, session)
	if key != "" {
		req.Header.Set(turn.HeaderKey, key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	text, err := io.ReadAll(resp.Body)
	a := Answer{Status: resp.StatusCode, Err: err, Code: resp.Header.Get(turn.HeaderCode), Body: string(text)}
	var said struct {
		Turn  int    `json:"turn"`
		Reply string `json:"reply"`
	}
	if err == nil && resp.StatusCode == http.StatusOK {
		a.Err = json.Unmarshal(text, &said)
		a.Turn, a.Reply = said.Turn, said.Reply
	}
	return a
}

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.Tick(10 * time.Millisecond); !ok(); <-tick {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Progress writes down what it is told.
type Progress struct {
	mu    sync.Mutex
	began time.Time
	lines strings.Builder
}

// Begin implements runtime.Progress.
func (p *Progress) Begin(step string) func(string, error) {
	p.say("begin " + step)
	return func(detail string, err error) { p.say(fmt.Sprintf("end %s: %s %v", step, detail, err)) }
}

// Output implements runtime.Progress.
func (p *Progress) Output() io.Writer { return sayWriter{p} }

type sayWriter struct{ p *Progress }

func (w sayWriter) Write(b []byte) (int, error) {
	w.p.say(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

func (p *Progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = time.Now()
	}
	fmt.Fprintf(&p.lines, "%6d ms  %s\n", time.Since(p.began).Milliseconds(), line)
}

func (p *Progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines.String()
}

// Occupy listens on a port, as somebody else's program does, until the returned
// function is called.
func Occupy(t testing.TB, port int) (free func()) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	free = sync.OnceFunc(func() { _ = ln.Close() }) // nobody connected
	t.Cleanup(free)
	return free
}

func asFault(err error) (*fault.Fault, bool) { return errors.AsType[*fault.Fault](err) }
