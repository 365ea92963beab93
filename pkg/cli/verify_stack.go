package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
	"github.com/flisk-go/flisk/pkg/runtime/process"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
	"github.com/flisk-go/flisk/pkg/verify"
)

// proof is a project's stack as a verification runs it: with a volume, a port
// and a run directory of its own, below one temporary directory, and ended
// without a trace. What runs of the project, and its conversations, are not
// touched.
type proof struct {
	app      *app
	root     string
	stack    stack.Stack
	source   *pinned
	force    chan struct{}    // closed when the end must not wait for a drain
	progress runtime.Progress // of what is built and started
	runtime  project.Runtime
	driver   provenDriver
	reloader runtime.Driver // another one, of the same stack, that does as flisk dev does
	volume   string         // its directory, once it is up; of local processes
	open     []io.Closer    // the claim on root, and the pipe that local processes live by
}

// provenDriver is what a verification needs of a runtime.
type provenDriver interface {
	runtime.Driver
	Signal(ctx context.Context, agent string, sig syscall.Signal) ([]runtime.Change, error)
}

// stopMargin is what a process may take to end beyond its drain.
const stopMargin = 5 * time.Second

// newProof makes the room for a stack, and starts nothing.
func (a *app) newProof(o *opened, progress runtime.Progress) (*proof, error) {
	p := o.project
	root, err := makeRoom(roomPrefix)
	if err != nil {
		return nil, err
	}
	v := &proof{app: a, root: root, runtime: o.runtime, force: make(chan struct{}), progress: progress, source: newPinned(hashes(p))}
	port, err := steadyPort()
	if err == nil {
		v.stack = stackToProve(o, port)
		err = v.claim()
	}
	if err == nil {
		err = v.newDriver()
	}
	if err != nil {
		return nil, errors.Join(err, v.remove())
	}
	return v, nil
}

// remove takes away what the stack had, once it has ended.
func (v *proof) remove() error {
	return errors.Join(os.RemoveAll(v.root), v.unclaim())
}

// unclaim gives up what keeps others from clearing the stack away.
func (v *proof) unclaim() (err error) {
	for _, c := range v.open {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (v *proof) claim() error {
	f, err := claimRoom(v.root, v.runtime, v.stack)
	if err == nil {
		v.open = append(v.open, f)
	}
	return err
}

// stackToProve is a project's stack with what a verification needs.
//
// Containers are told apart by the project's id, local processes by the room that
// they are in.
func stackToProve(o *opened, port int) stack.Stack {
	p, s := o.project, stack.Of(o.project, "")
	if o.runtime == project.Docker {
		s.Name = s.Name[:min(len(s.Name), longestProvenName)] + "-verify"
		s.ID = turn.NewKey()[:idLength]
		s.Volume.Name = project.VolumeName(s.Name, s.ID)
	}
	s.Gateway.Port, s.Verify = port, turn.NewKey()
	var env []string
	for _, name := range slices.Sorted(maps.Keys(p.Verify.Env)) {
		env = append(env, name+"="+p.Verify.Env[name])
	}
	for i := range s.Agents {
		agent := &s.Agents[i]
		agent.Env = slices.Clip(env)
		agent.Drain, agent.StopGrace = verify.DefaultDrain, verify.DefaultDrain+stopMargin
	}
	return s
}

// idLength is that of a project's id.
const idLength = 12

// longestProvenName keeps the name of a verification's stack as short as that of
// a project may be.
const longestProvenName = project.MaxName - len("-verify")

// turnTimeout is how long an agent lets a turn run.
func (v *proof) turnTimeout(agent string) time.Duration {
	i := slices.IndexFunc(v.stack.Agents, func(a stack.Agent) bool { return a.Name == agent })
	return v.stack.Agents[i].TurnTimeout
}

// newDriver makes the driver. Local processes end with this one, also when that is
// killed: the pipe whose other end they hold is closed then. Containers go on, and
// the next verification removes them.
func (v *proof) newDriver() (err error) {
	if v.runtime == project.Docker {
		o := docker.Options{Stack: v.stack, Environ: v.app.environ, SourceHash: v.source.of, Force: v.force, Warn: v.app.warn}
		if v.driver, err = v.app.roomContainers(v.root, o); err != nil {
			return err
		}
		o.Leave, o.SourceHash, o.Warn = true, v.source.checked, nil // that would say the same again
		v.reloader, err = v.app.roomContainers(v.root, o)
		return err
	}
	held, mine, err := os.Pipe()
	if err != nil {
		return err
	}
	v.open = append(v.open, held, mine)
	o := process.Options{Stack: v.stack, Env: v.app.environ, SourceHash: v.source.of, Force: v.force, Owner: held}
	if v.driver, err = roomProcesses(v.root, o); err != nil {
		return err
	}
	o.Leave, o.SourceHash = true, v.source.checked
	v.reloader, err = roomProcesses(v.root, o)
	return err
}

// up starts what does not run. From the first time on the code stays the same,
// and what else is started and stopped belongs to a check.
func (v *proof) up(ctx context.Context) error {
	report, err := v.driver.Up(ctx, v.progress)
	if err != nil {
		return v.withLog(ctx, err)
	}
	v.volume = report.Place
	v.source.pin()
	v.progress = console.Silent()
	return nil
}

// lastLines is how much of a log is quoted.
const lastLines = 10

// withLog makes an error stand on its own: with what the agents wrote last, and
// without advice to look for more in a log that goes with the stack.
func (v *proof) withLog(ctx context.Context, err error) error {
	said, ok := errors.AsType[*fault.Fault](err)
	if ctx.Err() != nil || !ok || said.Kind != fault.Failed {
		return err
	}
	var lines []string
	reading := v.driver.Logs(ctx, runtime.LogOptions{Tail: lastLines}, func(l runtime.Line) error {
		lines = append(lines, l.Text)
		return nil
	})
	if reading != nil || len(lines) == 0 {
		return err // it did not come to an agent
	}
	told := *said
	told.Hint = v.app.command("up") + " runs it with a log that stays"
	told.Detail = cmp.Or(said.Detail, strings.Join(lines, "\n"))
	return &told
}

// end stops what runs and removes everything. force does not wait for a drain.
func (v *proof) end(ctx context.Context, force bool) error {
	if force {
		close(v.force)
	}
	_, err := v.driver.Down(ctx, v.progress)
	if containers, ok := v.driver.(*docker.Driver); ok {
		err = errors.Join(err, containers.Erase(ctx, console.Silent()), containers.Close(), v.reloader.(*docker.Driver).Close())
		if err != nil { // the next verification goes on from there
			return errors.Join(err, v.unclaim())
		}
	}
	return errors.Join(err, v.remove())
}

// pinned is a source hash that does not change any more once it is pinned: what
// is verified must be one program, whoever edits the source meanwhile. A reload
// gives that program another name, as if the source were another one.
type pinned struct {
	hash func(agent string) (string, error)

	mu        sync.Mutex
	known     map[string]string
	fixed     bool
	reloads   map[string]int // of each agent
	reloading string         // the agent that is being reloaded; "" when none is
}

func newPinned(hash func(agent string) (string, error)) *pinned {
	return &pinned{hash: hash, known: map[string]string{}, reloads: map[string]int{}}
}

func (p *pinned) of(agent string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name(agent)
}

func (p *pinned) name(agent string) (string, error) {
	if hash, ok := p.known[agent]; ok && p.fixed {
		if n := p.reloads[agent]; n > 0 {
			hash += "-reload-" + strconv.Itoa(n)
		}
		return hash, nil
	}
	hash, err := p.hash(agent)
	if err == nil {
		p.known[agent] = hash
	}
	return hash, err
}

// checked is of, and makes sure that what is built for a reload is what was pinned.
func (p *pinned) checked(agent string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if agent == p.reloading {
		now, err := p.hash(agent)
		if err != nil {
			return "", err
		}
		if now != p.known[agent] {
			return "", fmt.Errorf("the source of agent %q changed while it was verified", agent)
		}
	}
	return p.name(agent)
}

// reload makes the source of an agent another one, by its name, unless do returns
// an error.
func (p *pinned) reload(agent string, do func() error) error {
	p.rename(agent, agent, 1)
	err := do()
	if err != nil {
		p.rename("", agent, -1)
		return err
	}
	p.rename("", agent, 0)
	return nil
}

func (p *pinned) rename(reloading, agent string, by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reloading = reloading
	p.reloads[agent] += by
}

func (p *pinned) pin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fixed = true
}

// steadyPort is a port that nobody listens on, below the range from which the
// kernel takes those of connections: it must still be free after a down.
func steadyPort() (int, error) {
	const first, n = 20_000, 10_000
	for range 100 {
		port := first + rand.IntN(n)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fault.New(fault.Environment, "", "there is no free port on 127.0.0.1 from %d to %d", first, first+n)
}
