// Package runtimetest says what every runtime does with a stack, as one suite
// that any [runtime.Driver] is held against. Its agent is a real one, built from
// testdata; its stacks have ids, names and ports of their own.
package runtimetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
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

	// RemoveSession removes a session of an agent while nothing runs.
	RemoveSession func(t *testing.T, s Setup, agent, id string)

	// Clean is called when a project's test has ended and everything was stopped.
	// It removes what the runtime keeps, and fails the test when more is left than
	// it should.
	Clean func(t *testing.T, s Setup)
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

func asFault(err error) (*fault.Fault, bool) { return errors.AsType[*fault.Fault](err) }
