package docker

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/stack"
)

// Options configure a [Driver]. Stack, Home and Surroundings are required. A
// stack without a volume's name, and one without agents, is for looking and
// stopping only: the name is then what is remembered of the project.
type Options struct {
	Stack        stack.Stack
	Home         string       // $FLISK_HOME: live routes, built programs, and what is remembered
	Surroundings Surroundings // what the choice of an engine depends on

	// Room, when not "", is the directory that a stack lives in which is made to be
	// thrown away. Labels say so: see [LeftRooms].
	Room string

	// Environ, as os.Environ gives it, fills in the variables of
	// compose.override.yaml. Agents do not inherit it.
	Environ []string

	// SourceHash names the present source of an agent. Up needs it.
	SourceHash func(agent string) (string, error)

	// SourceStill, if not nil, reports whether the source of an agent is what
	// SourceHash has named last, and was all the time since then. nil compares the
	// names.
	SourceStill func(agent, code string) (bool, error)

	// LeaveAgents lets Up go on without agents that have sessions on the volume
	// and are not in the stack. It is remembered, so that one Up needs it.
	LeaveAgents bool

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

	// ReadyTimeout is how long Up waits for one agent, or for one service that can
	// say whether it is healthy; 0 is 30 s.
	ReadyTimeout time.Duration

	// GatewayTimeout is how long the gateway may take to read new routes, and half of
	// what it may take to reach an agent that is ready; 0 is 5 s.
	GatewayTimeout time.Duration

	// Force, once closed, makes a Down or an Up that waits for a drain stop
	// waiting: SIGKILL instead. The context of those calls never does that.
	Force <-chan struct{}

	// Warn, if not nil, takes what is odd but harmless, for people: a variable
	// that turns something off, an env file that plain Compose reads otherwise.
	// Each text comes once in a driver's life.
	Warn func(text string)
}

// defaultReadyTimeout is that of Options.ReadyTimeout.
const defaultReadyTimeout = 30 * time.Second

// defaultGatewayTimeout is that of Options.GatewayTimeout. Measured, half a second
// is the gateway's worst on a busy machine.
const defaultGatewayTimeout = 5 * time.Second

// Driver runs one stack as containers. Nothing that it decides by is in its own
// memory: several drivers, in several processes, may work on one project. It
// connects to the engine when it is first needed; Close gives the connections up.
type Driver struct {
	o     Options
	place place

	warned *warnings

	mu     sync.Mutex
	engine *engine // once it has answered
}

// warnings are what Options.Warn was told.
type warnings struct {
	mu   sync.Mutex
	told map[string]bool
}

var _ runtime.Driver = (*Driver)(nil)

// New makes a driver. It changes nothing, and connects to nothing.
func New(o Options) (*Driver, error) {
	if o.Home == "" || o.Stack.ID == "" || o.Surroundings.Getenv == nil {
		return nil, errors.New("docker driver: Home, Stack.ID and Surroundings are required")
	}
	home, err := filepath.Abs(o.Home)
	if err != nil {
		return nil, err
	}
	o.Home = home
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = defaultReadyTimeout
	}
	if o.GatewayTimeout == 0 {
		o.GatewayTimeout = defaultGatewayTimeout
	}
	if o.Stack.Volume.Name == "" {
		o.Stack.Volume.Name = memory.Of(o.Home, o.Stack.ID, o.Stack.Instance).VolumeName(runtimeName, o.Stack)
	}
	return &Driver{o: o, place: placeOf(o.Home, o.Stack), warned: &warnings{told: map[string]bool{}}}, nil
}

// Close gives the connections to the engine up. The driver can be used on.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.engine == nil {
		return nil
	}
	err := d.engine.close()
	d.engine = nil
	return err
}

// Engine is the engine that a driver works with, for people and for decisions.
type Engine struct {
	Endpoint        // where it listens, and why this one
	ID       string // another one has other volumes
	Version  string // "20.10.24"
	API      string // the version that is spoken
}

// Engine connects to the engine and says who it is. An engine that does not
// answer, or that flisk cannot use, is a fault of kind Environment; one that is
// remote is one of kind Usage.
func (d *Driver) Engine(ctx context.Context) (Engine, error) {
	e, err := d.connected(ctx)
	if err != nil {
		return Engine{}, err
	}
	return Engine{Endpoint: e.endpoint, ID: e.facts.ID, Version: e.facts.Version, API: e.facts.API}, nil
}

// connected is the engine, connected to once.
func (d *Driver) connected(ctx context.Context) (*engine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.engine != nil {
		return d.engine, nil
	}
	endpoint, err := Resolve(d.o.Surroundings)
	if err != nil {
		return nil, err
	}
	e, err := connect(ctx, endpoint, d.o.Surroundings.Getenv("DOCKER_API_VERSION"))
	if err != nil {
		return nil, err
	}
	d.engine = e
	return e, nil
}

// warn tells Options.Warn what it was not told yet.
func (d *Driver) warn(texts ...string) {
	d.warned.mu.Lock()
	defer d.warned.mu.Unlock()
	for _, text := range texts {
		if d.o.Warn != nil && !d.warned.told[text] {
			d.o.Warn(text)
		}
		d.warned.told[text] = true
	}
}

// userOnly is the mode of every directory that nobody else needs to read.
const userOnly = 0o700
