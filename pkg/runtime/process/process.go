// Package process runs a stack as local processes, without Docker.
//
// A supervisor, a process in a session of its own, owns the built-in gateway
// and keeps the replicas alive. It is started by [Driver.Up] from a copy of the
// flisk executable and serves a control API on a Unix socket; the driver's
// methods talk to it and decide nothing that the planner of pkg/runtime has not
// decided.
//
// # What is where
//
// A run directory outside the project (short, because the names of Unix sockets
// end at 104 bytes) holds the sockets and one record a child: process id, start
// time and group. A record is a claim, never a fact: it is checked against the
// live process before anything is signalled, because process ids are reused.
// $FLISK_HOME holds what outlives a run: volumes, logs, built programs, and what
// is remembered of a project's volume.
//
// # What a SIGKILL leaves
//
// Each replica holds the read end of a pipe whose write end only the supervisor
// has. A supervisor that is killed closes it, and the replicas drain and exit.
// The next up or down waits for them, ends those that do not listen, and removes
// the run directory.
package process

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/stack"
)

// Budgets of starting and looking.
const (
	defaultReadyTimeout = 30 * time.Second
	observeTimeout      = 2 * time.Second  // for one question to the supervisor
	startTimeout        = 20 * time.Second // for the supervisor to listen
)

// Options configure a [Driver]. Stack, Home, RunBase and Executable are
// required. A stack without a volume's name, and one without agents, is for
// looking and stopping only: the name is then what is remembered of the project,
// and the agents are those that left logs.
type Options struct {
	Stack      stack.Stack
	Home       string   // $FLISK_HOME; see [DefaultHome]
	RunBase    string   // where run directories are; see [DefaultRunBase]
	Executable string   // the program whose "supervise DIR" calls [Supervise]
	Env        []string // what agents inherit, as os.Environ gives it; FLISK_ names are dropped

	// SourceHash names the present source of an agent. Up needs it.
	SourceHash func(agent string) (string, error)

	// SourceStill, if not nil, reports whether the source of an agent is what
	// SourceHash has named last, and was all the time since then. nil compares the
	// names.
	SourceStill func(agent, code string) (bool, error)

	// LeaveAgents lets Up go on without agents that have sessions on the volume
	// and are not in the stack. It is remembered, so that one Up needs it.
	LeaveAgents bool

	// Owner, if not nil, is the read end of a pipe. When the other end is closed,
	// as it is when the process that has it dies, the stack that Up started ends
	// without a drain. It must be open whenever Up is called.
	Owner *os.File

	// Leave makes Up and Restart end when what they replace gets no requests any
	// more, and leave the rest to Retire.
	Leave bool

	// Attached makes Up and Restart end with [runtime.ErrStopped] where nothing of
	// the stack is left: they keep up what runs, and do not undo a Down.
	Attached bool

	// Restless lets Up go on with a build whose source changed meanwhile, after it
	// has built anew once. It runs under a name that no source has, so that the
	// next Up replaces it.
	Restless bool

	// Told, if not nil, hears of each step of a plan, from the goroutine of the
	// call that does it.
	Told func(runtime.Event)

	// ReadyTimeout is how long Up waits for one agent to get ready; 0 is 30 s.
	ReadyTimeout time.Duration

	// Force, once closed, makes a Down or an Up that waits for a drain stop
	// waiting: SIGKILL instead. The context of those calls never does that.
	Force <-chan struct{}
}

// Driver runs one stack as local processes. It has no state of its own: several
// drivers, in several processes, may work on one project.
type Driver struct {
	o     Options
	place place
}

var _ runtime.Driver = (*Driver)(nil)

// New makes a driver. It changes nothing.
func New(o Options) (*Driver, error) {
	if o.Home == "" || o.RunBase == "" || o.Executable == "" || o.Stack.ID == "" {
		return nil, errors.New("process driver: Home, RunBase, Executable and Stack.ID are required")
	}
	for _, dir := range []*string{&o.Home, &o.RunBase, &o.Executable} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return nil, err
		}
		*dir = abs
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = defaultReadyTimeout
	}
	if o.Stack.Volume.Name == "" {
		o.Stack.Volume.Name = memory.Of(o.Home, o.Stack.ID, o.Stack.Instance).VolumeName(runtimeName, o.Stack)
	}
	p := placeOf(o.Home, o.RunBase, o.Stack)
	if n := len(p.longestSocket()); n > maxSocketPath {
		return nil, fault.New(fault.Environment, "set FLISK_RUN_DIR to a shorter path",
			"the run directory %q is too long: a socket in it would have %d bytes in its name, and %d is the limit", p.run, n, maxSocketPath)
	}
	return &Driver{o, p}, nil
}

// userOnly is the mode of every directory that this package makes.
const userOnly os.FileMode = 0o700
