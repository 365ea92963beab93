package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// How a replica is asked whether it is ready.
const (
	startPoll  = 25 * time.Millisecond  // until it first is
	readyPoll  = 250 * time.Millisecond // from then on; it is most of what an idle stack costs
	askTimeout = 2 * time.Second        // for one answer
)

// lifelineFD is where a replica finds its end of the supervisor's pipe: the
// first descriptor after the standard ones.
const lifelineFD = 3

// child is one process of a replica.
type child struct {
	cmd      *exec.Cmd
	record   record
	dir      *os.Root // of record and socket
	name     string   // of its files there, without their suffixes
	endpoint stack.Endpoint
	started  time.Time
	lifeline *os.File // its end tells the process to drain, and that nobody sends it anything any more

	exited chan struct{} // closed when it is reaped, its group is gone and its output is read
	exit   string        // how it ended, in words; for reading after exited, like how
	how    runtime.Exit
}

// launch starts a process of the replica: n counts them from 0.
func (k *keeper) launch(n int) (*child, error) {
	name := incarnation(os.Getpid(), k.Replica, k.Generation, n)
	socket := filepath.Join(k.dir.Name(), name+socketSuffix)
	env := k.Env
	env.Listen, env.Lifeline = "unix:"+socket, lifelineFD

	lifelineR, lifelineW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer lifelineR.Close() // the process has its own copy
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, lifelineW.Close())
	}
	defer outW.Close()

	cmd := &exec.Cmd{
		Path:        k.Binary,
		Args:        []string{filepath.Base(k.Binary)},
		Dir:         k.workDir(),
		Env:         append(slices.Clone(k.Inherit), env.Encode()...),
		Stdout:      outW,
		Stderr:      outW,
		ExtraFiles:  []*os.File{lifelineR},
		SysProcAttr: proc.NewGroup(),
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, lifelineW.Close(), outR.Close())
	}
	c := &child{
		cmd:      cmd,
		dir:      k.dir,
		name:     name,
		endpoint: stack.Endpoint{Replica: name, Network: "unix", Address: socket},
		started:  time.Now(),
		lifeline: lifelineW,
		exited:   make(chan struct{}),
	}
	// It is not reaped yet, so its number is its own, even if it has ended.
	start, err := proc.StartTime(cmd.Process.Pid)
	id := proc.Identity{PID: cmd.Process.Pid, Start: start, Group: cmd.Process.Pid}
	c.record = record{Identity: id, Ref: k.Ref, Socket: socket, Code: k.Code, Grace: k.Grace}
	if err == nil {
		err = writeFile(filepath.Join(k.dir.Name(), name+recordSuffix), c.record)
	}
	go c.reap(outR, k.output)
	if err != nil { // without a record nobody would find it again
		c.kill()
		<-c.exited
		c.cleanUp()
		return nil, fmt.Errorf("write its record: %w", err)
	}
	return c, nil
}

// workDir is where the next process runs. A project that was moved has left an
// empty place there, and the agent is to serve on until an up tells where it is.
func (k *keeper) workDir() string {
	info, err := os.Stat(k.WorkDir)
	moved := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir()
	if moved && !k.moved {
		k.note(fmt.Sprintf("its directory %q is gone, so it runs in %q until flisk up is called from where the project is now", k.WorkDir, k.dir.Name()))
	}
	if k.moved = moved; moved {
		return k.dir.Name()
	}
	return k.WorkDir
}

// reap waits for the process, ends what it leaves in its group, and reads its
// output to the end.
func (c *child) reap(out *os.File, output func(string)) {
	defer close(c.exited)
	var read sync.WaitGroup
	read.Go(func() { copyLines(out, output) })

	err := c.cmd.Wait()
	c.kill()

	late := time.AfterFunc(logTail, func() { _ = out.SetReadDeadline(time.Now()) })
	read.Wait()
	late.Stop()
	_ = out.Close() // only read
	c.how = exitOf(c.cmd.ProcessState)
	c.exit = c.how.String() // in the words of every other place, not of os.ProcessState
	if c.cmd.ProcessState == nil {
		c.exit = err.Error()
	}
}

// exitOf is how a process ended; of one that could not be waited for nobody
// knows.
func exitOf(s *os.ProcessState) runtime.Exit {
	exit := runtime.Exit{Code: -1}
	if s == nil {
		return exit
	}
	exit.Code = s.ExitCode()
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		exit.Signal = w.Signal()
	}
	return exit
}

func (c *child) process() runtime.Process {
	return runtime.Process{PID: c.record.PID, Start: c.record.Start}
}

// leave tells the process that the gateway has let go of it: it need not wait, as
// it does after a signal of somebody else's, until that has seen it drain.
func (c *child) leave() { _ = c.lifeline.Close() }

// terminate asks the process, not its group, to drain: what it runs for a turn
// in flight is needed to finish that turn.
func (c *child) terminate() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // os.ErrProcessDone: it ended by itself
}

// kill ends what there is of the process and its group at once.
func (c *child) kill() {
	_ = c.record.SignalGroup(syscall.SIGKILL) // os.ErrProcessDone: it left nothing
}

// cleanUp removes what the process leaves in the run directory.
func (c *child) cleanUp() {
	_ = c.lifeline.Close()
	for _, suffix := range []string{socketSuffix, recordSuffix} {
		_ = c.dir.Remove(c.name + suffix) // the run directory is removed as a whole in the end
	}
}

// answer is what a replica says about being ready.
type answer struct {
	ready  bool
	reason string // why not, in its own words, if it can be asked
}

// pollReady asks the process whether it is ready until ctx ends, and sends each
// change of the answer, beginning with the first that is not "not yet".
func (c *child) pollReady(ctx context.Context, changes chan<- answer) {
	ask := newAsker(c.endpoint)
	defer ask.CloseIdleConnections()
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for was := (answer{}); ; {
		if now := askReady(ctx, ask); now != was {
			if now.ready {
				tick.Reset(readyPoll)
			}
			was = now
			select {
			case <-ctx.Done():
				return
			case changes <- now:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// newAsker makes a client for the own endpoints of one agent. It keeps one
// connection, which costs half of what one a question would; an agent that
// drains closes it.
func newAsker(e stack.Endpoint) *http.Client {
	return &http.Client{
		Timeout: askTimeout,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, e.Network, e.Address)
			},
		},
	}
}

func askReady(ctx context.Context, ask *http.Client) answer {
	var body turn.Ready
	status, err := askAgent(ctx, ask, turn.ReadyPath, &body)
	if err != nil {
		return answer{}
	}
	return answer{status == http.StatusOK, body.Reason}
}

// askAgent gets one of an agent's own endpoints.
func askAgent(ctx context.Context, ask *http.Client, path string, body any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := ask.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, err
	}
	// The status is the answer; a body that is not what it should be only lacks
	// the reason.
	_ = json.Unmarshal(text, body)
	return resp.StatusCode, nil
}
