package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	api "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/go-connections/nat"

	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
)

// play is a run of a container: from a start to an exit.
type play struct {
	pid    int
	ports  nat.PortMap
	signal func(syscall.Signal) // may be called at any time
	done   chan struct{}        // closed at the exit
	code   int                  // valid then
}

// restartPause is the engine's first pause before it restarts a container that
// ended by itself; each further one is twice as long.
const restartPause = 100 * time.Millisecond

// begin starts a container. e.mu is held.
func (e *Engine) begin(c *container) error {
	if e.ctx.Err() != nil {
		return refuse(http.StatusServiceUnavailable, "the engine ends")
	}
	ports, listeners, err := e.publish(c)
	if err != nil {
		return err
	}
	var p *play
	switch {
	case c.image.gateway():
		p, err = e.playGateway(c, listeners)
	case c.image.program != "":
		if len(listeners) > 0 {
			err = notPlayed("published ports of a program")
			break
		}
		p, err = e.playProgram(c)
	default:
		p = e.playIdle(listeners)
	}
	if err != nil {
		for _, l := range listeners {
			_ = l.Close() // nobody connected
		}
		return err
	}
	p.ports = ports
	c.play, c.started, c.exitCode, c.restarting, c.paused = p, time.Now(), 0, false, false
	e.tell(c, events.ActionStart, nil)
	e.wg.Go(func() { e.follow(c, p) })
	if h := c.request.Healthcheck; h != nil && len(h.Test) > 0 && h.Test[0] != "NONE" {
		c.health = &api.Health{Status: api.Starting}
		e.wg.Go(func() { e.watchHealth(c, p, *h) })
	}
	return nil
}

// follow waits for the exit of a run, and starts the next one if the container's
// policy says so.
func (e *Engine) follow(c *container, p *play) {
	<-p.done
	e.mu.Lock()
	c.play, c.finished, c.exitCode = nil, time.Now(), p.code
	again := !c.byHand && e.ctx.Err() == nil && restarts(c.request.HostConfig.RestartPolicy, p.code, c.restarts)
	c.restarting = again
	if !again {
		c.logs.end()
	}
	e.tell(c, events.ActionDie, map[string]string{"exitCode": strconv.Itoa(p.code)})
	pause := restartPause << min(c.restarts, 6)
	e.mu.Unlock()
	if !again {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.restarting { // stopped by hand meanwhile
		return
	}
	c.restarts++
	if err := e.begin(c); err != nil {
		c.restarting, c.failed, c.exitCode = false, err.Error(), 128
		e.announce()
	}
}

func restarts(policy api.RestartPolicy, code, times int) bool {
	switch policy.Name {
	case api.RestartPolicyAlways, api.RestartPolicyUnlessStopped:
		return true
	case api.RestartPolicyOnFailure:
		return code != 0 && (policy.MaximumRetryCount == 0 || times < policy.MaximumRetryCount)
	}
	return false
}

// endAll ends everything that runs, and what wants to run again. Nothing begins
// after it.
func (e *Engine) endAll(cancel context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cancel()
	for _, c := range e.containers {
		c.byHand, c.restarting = true, false
		if c.play != nil {
			c.play.signal(syscall.SIGKILL)
		}
	}
}

// publish listens on the ports that a container publishes.
func (e *Engine) publish(c *container) (nat.PortMap, []net.Listener, error) {
	ports, listeners := nat.PortMap{}, []net.Listener(nil)
	fail := func(err error) (nat.PortMap, []net.Listener, error) {
		for _, l := range listeners {
			_ = l.Close() // nobody connected
		}
		return nil, nil, err
	}
	for port, bindings := range c.request.HostConfig.PortBindings {
		for _, b := range bindings {
			if port.Proto() != "tcp" {
				return fail(notPlayed("UDP ports"))
			}
			if ip := net.ParseIP(b.HostIP); ip == nil || !ip.IsLoopback() {
				return fail(notPlayed("ports that are published beyond loopback"))
			}
			l, err := net.Listen("tcp", net.JoinHostPort(b.HostIP, b.HostPort))
			if err != nil {
				why := fmt.Sprintf("listen tcp4 %s:%s: bind: address already in use", b.HostIP, b.HostPort)
				if e.published(b.HostPort) {
					why = fmt.Sprintf("Bind for %s:%s failed: port is already allocated", b.HostIP, b.HostPort)
				}
				return fail(refuse(http.StatusInternalServerError, "driver failed programming external connectivity on endpoint %s (%s): %s", c.name, c.id, why))
			}
			listeners = append(listeners, l)
			_, number, _ := net.SplitHostPort(l.Addr().String()) // net wrote it
			ports[port] = append(ports[port], nat.PortBinding{HostIP: b.HostIP, HostPort: number})
		}
	}
	return ports, listeners, nil
}

func (e *Engine) published(port string) bool {
	for _, c := range e.containers {
		for _, bindings := range c.ports() {
			if slices.ContainsFunc(bindings, func(b nat.PortBinding) bool { return b.HostPort == port }) {
				return true
			}
		}
	}
	return false
}

// playIdle is a container that does nothing until it is told to end.
func (e *Engine) playIdle(listeners []net.Listener) *play {
	p := &play{done: make(chan struct{})}
	var once sync.Once
	p.signal = func(sig syscall.Signal) {
		once.Do(func() {
			if sig != syscall.SIGTERM {
				p.code = 128 + int(sig)
			}
			for _, l := range listeners {
				_ = l.Close() // its loop ends with it
			}
			close(p.done)
		})
	}
	for _, l := range listeners {
		e.wg.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = conn.Close() // the client sees that nobody is here
			}
		})
	}
	return p
}

// killWait bounds the wait for output that a process left to others.
const killWait = 2 * time.Second

// playProgram starts the image's program on this machine.
func (e *Engine) playProgram(c *container) (*play, error) {
	cmd, err := e.command(c, append(slices.Clone(c.entrypoint()), c.command()...))
	if err != nil {
		return nil, err
	}
	stdout, stderr := c.logs.writer(false), c.logs.writer(true)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, killWait
	if err := cmd.Start(); err != nil {
		return nil, refuse(http.StatusBadRequest, "failed to create task for container: %v", err)
	}
	p := &play{pid: cmd.Process.Pid, done: make(chan struct{})}
	id, err := proc.Identify(p.pid)
	if err != nil { // it has ended already
		id = proc.Identity{}
	}
	p.signal = func(sig syscall.Signal) {
		if sig == syscall.SIGKILL {
			_ = id.SignalGroup(sig) // the end of a container is the end of all in it
		} else {
			_ = id.Signal(sig) // it may just have ended
		}
	}
	e.wg.Go(func() {
		_ = id.Wait(context.Background())   // it ends when the engine does
		_ = id.SignalGroup(syscall.SIGKILL) // before the number is given back
		p.code = exitCode(cmd.Wait())
		stdout.flush()
		stderr.flush()
		close(p.done)
	})
	return p, nil
}

func exitCode(err error) int {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return 0
	case !ok:
		return 125
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// command is a program in a container, on this machine. e.mu is held.
func (e *Engine) command(c *container, argv []string) (*exec.Cmd, error) {
	if len(argv) == 0 {
		return nil, refuse(http.StatusBadRequest, "no command specified")
	}
	program := filepath.Join(c.image.root, filepath.Clean("/"+argv[0]))
	if info, err := os.Stat(program); err != nil || !info.Mode().IsRegular() {
		return nil, refuse(http.StatusBadRequest, "failed to create task for container: OCI runtime create failed: runc create failed: unable to start container process: exec: %q: stat %s: no such file or directory: unknown", argv[0], argv[0])
	}
	if c.port == 0 {
		port, release, err := porttest.Take()
		if err != nil {
			return nil, err
		}
		e.t.Cleanup(release)
		c.port = port
	}
	places := e.places(c)
	cmd := exec.Command(program)
	for _, a := range argv[1:] {
		cmd.Args = append(cmd.Args, outside(places, a))
	}
	cmd.Dir = c.dir
	cmd.Env = []string{"HOME=" + c.dir, "TMPDIR=" + c.dir, "HOSTNAME=" + c.id[:12]}
	for _, pair := range c.env() {
		name, value, _ := strings.Cut(pair, "=")
		if name == "FLISK_LISTEN" {
			value = net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
		}
		cmd.Env = append(cmd.Env, name+"="+outside(places, value))
	}
	cmd.SysProcAttr = proc.NewGroup()
	return cmd, nil
}

// outside is a value with a mounted path as this machine has it.
func outside(places []place, value string) string {
	for _, p := range places {
		if rest, ok := strings.CutPrefix(value, p.inside); ok && (rest == "" || rest[0] == '/') {
			return p.host + rest
		}
	}
	return value
}

// resolve is the address on this machine of a name that a container looks up,
// "" when nobody has it.
func (e *Engine) resolve(asks *container, name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []int
	for _, c := range e.containers {
		if c.play == nil || c.port == 0 {
			continue
		}
		for id, s := range c.endpoints {
			if asks.endpoints[id] == nil || e.findNetwork(id).Name == "bridge" {
				continue
			}
			if c.name == name || slices.Contains(s.Aliases, name) || strings.HasPrefix(c.id, name) && len(name) == 12 {
				found = append(found, c.port)
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(found[rand.IntN(len(found))]))
}

// watchHealth runs a container's check for as long as a run lasts.
func (e *Engine) watchHealth(c *container, p *play, h api.HealthConfig) {
	interval, timeout, retries := h.Interval, h.Timeout, h.Retries
	if interval == 0 {
		interval = 30 * time.Second
	}
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	if retries == 0 {
		retries = 3
	}
	began := time.Now()
	failing, healthy := 0, false
	for {
		pause := interval
		starting := !healthy && time.Since(began) < h.StartPeriod
		if starting && h.StartInterval > 0 {
			pause = h.StartInterval
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-p.done:
			timer.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(e.ctx, timeout)
		code, output := e.check(ctx, c, p, h.Test)
		cancel()
		e.mu.Lock()
		switch {
		case code == 0:
			failing, healthy = 0, true
		case !starting:
			failing++
		}
		status := c.health.Status
		switch {
		case code == 0:
			status = api.Healthy
		case failing >= retries:
			status = api.Unhealthy
		}
		if c.play == p {
			c.health = &api.Health{Status: status, FailingStreak: failing, Log: []*api.HealthcheckResult{{Start: began, End: time.Now(), ExitCode: code, Output: output}}}
			e.announce()
		}
		e.mu.Unlock()
	}
}

// check runs a health check once.
func (e *Engine) check(ctx context.Context, c *container, p *play, test []string) (code int, output string) {
	if test[0] != "CMD" {
		return 1, "dockertest plays health checks of the kind CMD only"
	}
	var out bytes.Buffer
	code = e.runIn(ctx, c, p, test[1:], &out, &out)
	return code, out.String()
}
