package verify

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/gateway"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// bench is a [Target] in which the test is everything but the agent: it starts
// the agent's program, and has the gateway in its own process.
type bench struct {
	t       *testing.T
	binary  string
	env     turn.Env
	sockets string
	address string // of the gateway

	gateway *gateway.Gateway
	stop    context.CancelFunc // of the gateway; nil while it does not run
	stopped chan struct{}
	current *agentProcess
	started int // processes so far

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed, and replaced, with each line
}

const (
	testAgent = "bot"
	testNonce = "n0nce"
	testDrain = 2 * time.Second
	patience  = 30 * time.Second
)

func newBench(t *testing.T, binary string) *bench {
	t.Helper()
	sockets, err := os.MkdirTemp("/tmp", "fv") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	b := &bench{t: t, binary: binary, sockets: sockets, address: freeAddress(t), more: make(chan struct{})}
	b.env = turn.DefaultEnv()
	b.env.Agent, b.env.Data, b.env.Verify, b.env.Code = testAgent, filepath.Join(t.TempDir(), "volume"), testNonce, "c0de"
	b.env.Hosts = []string{b.address}
	b.env.Drain, b.env.Linger, b.env.TurnTimeout = testDrain, 100*time.Millisecond, patience
	b.env.Runtime = "test"
	t.Cleanup(func() {
		if b.current != nil {
			_ = b.current.cmd.Process.Kill() // it may have ended
			<-b.current.over
		}
		b.stopGateway()
		if t.Failed() {
			for _, line := range b.lines {
				t.Log(line)
			}
		}
	})
	return b
}

// handedOut are the addresses of all benches: one that is down must find its own
// free when it comes up again.
var handedOut sync.Map

// freeAddress is one that nobody listens on, below the ports of connections: the
// gateway must get it again after down.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000)))
		if _, taken := handedOut.LoadOrStore(address, true); taken {
			continue
		}
		if ln, err := net.Listen("tcp", address); err == nil {
			_ = ln.Close() // nobody connected
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}

// agentProcess is one process of the agent.
type agentProcess struct {
	cmd    *exec.Cmd
	id     Process
	name   string
	socket string
	over   chan struct{} // closed when it is reaped
}

func (b *bench) URL() string { return "http://" + b.address }

func (b *bench) ReadVolume(_ context.Context, read func(string) error) error {
	return read(b.env.Data)
}

func (b *bench) MoveFile(_ context.Context, from, to string) error {
	return os.Rename(filepath.Join(b.env.Data, filepath.FromSlash(from)), filepath.Join(b.env.Data, filepath.FromSlash(to)))
}

func (b *bench) Up(ctx context.Context) error {
	if b.stop == nil {
		ln, err := net.Listen("tcp", b.address)
		if err != nil {
			return err
		}
		serving, stop := context.WithCancel(context.Background())
		b.gateway, b.stop, b.stopped = gateway.New(gateway.Options{Grace: patience}), stop, make(chan struct{})
		b.route()
		go func() {
			defer close(b.stopped)
			if err := b.gateway.Serve(serving, ln); err != nil {
				b.t.Errorf("the gateway: %v", err)
			}
		}()
	}
	if b.current != nil {
		select {
		case <-b.current.over:
		default:
			return nil
		}
	}
	p, err := b.launch(ctx)
	if err == nil {
		b.current = p
		b.route(p)
	}
	return err
}

func (b *bench) Down(ctx context.Context) error {
	if b.current != nil {
		if _, err := b.stopProcess(ctx, b.current); err != nil {
			return err
		}
		b.current = nil
	}
	b.stopGateway()
	return nil
}

func (b *bench) stopGateway() {
	if b.stop != nil {
		b.stop()
		<-b.stopped
		b.stop = nil
	}
}

func (b *bench) Restart(ctx context.Context) (Change, error) {
	old, next, err := b.replace(ctx)
	if err != nil {
		return Change{}, err
	}
	return b.retire(ctx, old, next)
}

func (b *bench) Reload(ctx context.Context) (Reloaded, error) {
	b.newCode()
	old, next, err := b.replace(ctx)
	return Reloaded{b.env.Code, func(ctx context.Context) (Change, error) { return b.retire(ctx, old, next) }}, err
}

// newCode gives the code another name.
func (b *bench) newCode() { b.env.Code = "c0de-" + strconv.Itoa(b.started) }

// replace starts a process that gets what the present one got so far.
func (b *bench) replace(ctx context.Context) (old, next *agentProcess, err error) {
	old = b.current
	if next, err = b.launch(ctx); err == nil {
		b.current = next
		b.route(next)
	}
	return old, next, err
}

// retire ends a process that gets nothing any more.
func (b *bench) retire(ctx context.Context, old, next *agentProcess) (Change, error) {
	settle, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = b.gateway.Drained(settle, old.name) // what is in flight after that is its drain's
	exit, err := b.stopProcess(ctx, old)
	return Change{old.id, next.id, exit}, err
}

func (b *bench) Signal(ctx context.Context, sig syscall.Signal) (Change, error) {
	old := b.current
	exit, err := b.end(ctx, old, sig)
	if err != nil {
		return Change{Before: old.id}, err
	}
	next, err := b.launch(ctx)
	if err != nil {
		return Change{Before: old.id, Exit: exit}, err
	}
	b.current = next
	b.route(next)
	return Change{old.id, next.id, exit}, nil
}

// stopProcess stops a process through its drain, or kills it.
func (b *bench) stopProcess(ctx context.Context, p *agentProcess) (Exit, error) {
	grace, cancel := context.WithTimeout(ctx, testDrain+time.Second)
	defer cancel()
	exit, err := b.end(grace, p, syscall.SIGTERM)
	if errors.Is(err, ErrStillRuns) {
		exit, err = b.end(ctx, p, syscall.SIGKILL)
	}
	return exit, err
}

func (b *bench) end(ctx context.Context, p *agentProcess, sig syscall.Signal) (Exit, error) {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return Exit{}, err
	}
	select {
	case <-p.over:
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("%w: %d", ErrStillRuns, p.id.PID)
	}
	state := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return Exit{-1, state.Signal()}, nil
	}
	return Exit{state.ExitStatus(), 0}, nil
}

// route makes the gateway use exactly these processes.
func (b *bench) route(serve ...*agentProcess) {
	r := stack.Route{Agent: testAgent, MaxBody: 1 << 20}
	for _, p := range serve {
		r.Endpoints = append(r.Endpoints, stack.Endpoint{Replica: p.name, Network: "unix", Address: p.socket})
	}
	b.gateway.SetRoutes(stack.Routes{Hosts: []string{b.address}, Agents: []stack.Route{r}})
}

// launch starts a process and returns when it is ready.
func (b *bench) launch(ctx context.Context) (*agentProcess, error) {
	b.started++
	name := "bot-" + strconv.Itoa(b.started)
	p := &agentProcess{name: name, socket: filepath.Join(b.sockets, name+".sock"), over: make(chan struct{})}
	// A test that is killed must not leave its agent behind.
	lifeline, held, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer lifeline.Close() // the process has its own copy
	env := b.env
	env.Listen, env.Lifeline = "unix:"+p.socket, 3
	p.cmd = exec.Command(b.binary)
	p.cmd.Env = append(os.Environ(), env.Encode()...)
	p.cmd.Dir = b.sockets
	p.cmd.ExtraFiles = []*os.File{lifeline}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, held.Close())
	}
	p.id = Process{p.cmd.Process.Pid, name}
	go func() {
		defer close(p.over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			b.log(lines.Text())
		}
		_ = p.cmd.Wait() // ProcessState tells
		_ = held.Close() // nobody reads it any more
	}()
	ask := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	}}}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+turn.ReadyPath, nil)
		if err != nil {
			return nil, err
		}
		if resp, err := ask.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.over:
			return nil, errors.New("the agent ended before it was ready")
		case <-tick.C:
		}
	}
}

func (b *bench) log(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	close(b.more)
	b.more = make(chan struct{})
}

func (b *bench) Logs(ctx context.Context, follow bool, emit func(string) error) error {
	for n := 0; ; {
		b.mu.Lock()
		lines, more := slices.Clone(b.lines[n:]), b.more
		b.mu.Unlock()
		n += len(lines)
		for _, line := range lines {
			if err := emit(line); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-more:
		}
	}
}

var _ Target = (*bench)(nil)
