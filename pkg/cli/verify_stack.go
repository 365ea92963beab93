package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
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
	driver   *process.Driver
	volume   string      // its directory, once it is up
	open     []io.Closer // the claim on root, and the pipe that the stack lives by
}

// stopMargin is what a process may take to end beyond its drain.
const stopMargin = 5 * time.Second

// newProof makes the room for a stack, and starts nothing.
func (a *app) newProof(p *project.Project, progress runtime.Progress) (*proof, error) {
	root, err := makeRoom(roomPrefix)
	if err != nil {
		return nil, err
	}
	v := &proof{app: a, root: root, force: make(chan struct{}), progress: progress, source: &pinned{hash: p.SourceHash, known: map[string]string{}}}
	port, err := steadyPort()
	if err == nil {
		v.stack = stackToProve(p, port)
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
	err := os.RemoveAll(v.root)
	for _, c := range v.open {
		err = errors.Join(err, c.Close())
	}
	return err
}

func (v *proof) claim() error {
	f, err := claimRoom(v.root, v.stack)
	if err == nil {
		v.open = append(v.open, f)
	}
	return err
}

// stackToProve is a project's stack with what a verification needs.
func stackToProve(p *project.Project, port int) stack.Stack {
	s := stack.Of(p, "")
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

// turnTimeout is how long an agent lets a turn run.
func (v *proof) turnTimeout(agent string) time.Duration {
	i := slices.IndexFunc(v.stack.Agents, func(a stack.Agent) bool { return a.Name == agent })
	return v.stack.Agents[i].TurnTimeout
}

// newDriver makes the driver. Its stack ends with this process, also when that is
// killed: the pipe whose other end the stack holds is closed then.
func (v *proof) newDriver() error {
	held, mine, err := os.Pipe()
	if err != nil {
		return err
	}
	v.open = append(v.open, held, mine)
	v.driver, err = roomDriver(v.root, process.Options{
		Stack: v.stack, Env: v.app.environ, SourceHash: v.source.of, Force: v.force, Owner: held,
	})
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
	return errors.Join(err, v.remove())
}

// pinned is a source hash that does not change any more once it is pinned: what
// is verified must be one program, whoever edits the source meanwhile.
type pinned struct {
	hash func(agent string) (string, error)

	mu    sync.Mutex
	known map[string]string
	fixed bool
}

func (p *pinned) of(agent string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if hash, ok := p.known[agent]; ok && p.fixed {
		return hash, nil
	}
	hash, err := p.hash(agent)
	if err == nil {
		p.known[agent] = hash
	}
	return hash, err
}

func (p *pinned) pin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fixed = true
}

// steadyPort is a port that nobody listens on, below the range from which the
// kernel takes those of connections: it must still be free after a down.
func steadyPort() (int, error) {
	const first, n = 10_000, 20_000
	for range 100 {
		port := first + rand.IntN(n)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fault.New(fault.Environment, "", "there is no free port on 127.0.0.1 from %d to %d", first, first+n)
}
