package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// The test binary plays the processes that are watched. Each says one line when
// it is there, and ends with its standard input, so that none outlives a test.
const roleVariable = "PROC_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "alone":
		fmt.Println(os.Getpid())
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "parent": // of one that stays when it is gone
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), roleVariable+"=alone")
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		if os.Getenv("PROC_TEST_LEAVE") == "" {
			_ = child.Wait()
		}
	}
}

// process is a started role.
type process struct {
	Identity
	cmd   *exec.Cmd
	said  int // the pid in its line: its own, or its child's
	stdin io.Closer
	out   *bufio.Reader
}

func start(t *testing.T, role string, attr *syscall.SysProcAttr, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// Else a process of a -race build takes a second to exit.
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0", roleVariable+"="+role), env...)
	cmd.SysProcAttr = attr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	p := &process{cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	if p.Identity, err = Identify(cmd.Process.Pid); err != nil && len(env) == 0 {
		t.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if p.said, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	return p
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wantAlive(t *testing.T, id Identity, want bool) {
	t.Helper()
	if got, err := id.Alive(); err != nil || got != want {
		t.Errorf("alive: %v, %v; want %v", got, err, want)
	}
}

func wantGone(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("error %v, want %v", err, os.ErrProcessDone)
	}
}

// end lets a process end without asking how: it stays as a zombie.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	if err := p.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
}

// reap takes an ended process away. It leaves the standard input open, which
// exec.Cmd would not: children that were left behind stay.
func (p *process) reap(t *testing.T) {
	t.Helper()
	pid := p.cmd.Process.Pid
	_ = p.cmd.Process.Release() // it cannot fail the first time
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
}

func TestIdentityOfARunningProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "alone", NewGroup())
	if p.PID != p.cmd.Process.Pid || p.Group != p.PID || p.Start == "" {
		t.Errorf("identity %+v", p.Identity)
	}
	wantAlive(t, p.Identity, true)
	again, err := Identify(p.PID)
	if err != nil || again != p.Identity {
		t.Errorf("%+v and %+v, %v", again, p.Identity, err)
	}
	if s, err := StartTime(p.PID); err != nil || s != p.Start {
		t.Errorf("start time %q, %v", s, err)
	}

	var read Identity
	b, err := json.Marshal(p.Identity)
	if err == nil {
		err = json.Unmarshal(b, &read)
	}
	if err != nil || read != p.Identity {
		t.Errorf("%s is read as %+v, %v", b, read, err)
	}

	own, err := Identify(os.Getpid())
	if err != nil || own.Start == p.Start && own.PID == p.PID {
		t.Errorf("own identity %+v, %v", own, err)
	}
}

func TestZombieIsNotAlive(t *testing.T) {
	t.Parallel()
	p := start(t, "alone", NewGroup())
	p.end(t)
	if s, err := look(p.PID); err != nil || !s.zombie {
		t.Fatalf("%+v, %v: it is no zombie, and this test shows nothing", s, err)
	}
	wantAlive(t, p.Identity, false)
	wantGone(t, p.Signal(syscall.SIGTERM))
	if _, err := Identify(p.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Identify: %v", err)
	}
	if s, err := StartTime(p.PID); err != nil || s != p.Start {
		t.Errorf("start time %q, %v", s, err)
	}
}

func TestGoneProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "alone", NewGroup())
	p.end(t)
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	wantAlive(t, p.Identity, false)
	wantGone(t, p.Signal(syscall.SIGTERM))
	wantGone(t, p.SignalGroup(syscall.SIGTERM))
	if _, err := StartTime(p.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("StartTime: %v", err)
	}
	if err := p.Wait(soon(t)); err != nil {
		t.Errorf("Wait: %v", err)
	}
	if err := p.poll(soon(t)); err != nil {
		t.Errorf("poll: %v", err)
	}
}

// A record of a process that had the pid earlier must not reach the one that has
// it now.
func TestReusedPID(t *testing.T) {
	t.Parallel()
	p := start(t, "alone", NewGroup())
	old := p.Identity
	old.Start += "0"
	wantAlive(t, old, false)
	wantGone(t, old.Signal(syscall.SIGKILL))
	wantGone(t, old.SignalGroup(syscall.SIGKILL))
	if err := old.Wait(soon(t)); err != nil {
		t.Errorf("Wait: %v", err)
	}
	if err := old.poll(soon(t)); err != nil {
		t.Errorf("poll: %v", err)
	}
	_ = p.stdin.Close()
	if err := p.cmd.Wait(); err != nil { // a signal would show here
		t.Errorf("the present process: %v", err)
	}
}

func TestSignalReachesOneProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "parent", NewGroup())
	child, err := Identify(p.said)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	wantAlive(t, child, true)
	_ = p.cmd.Wait()
	if s := p.cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", p.cmd.ProcessState)
	}
}

func TestGroupSignalReachesGrandchildren(t *testing.T) {
	t.Parallel()
	for name, env := range map[string][]string{
		"leader runs":      nil,
		"leader has ended": {"PROC_TEST_LEAVE=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "parent", NewGroup(), env...)
			child, err := Identify(p.said)
			if err != nil {
				t.Fatal(err)
			}
			if child.Group != p.cmd.Process.Pid {
				t.Fatalf("the child is in group %d", child.Group)
			}
			leader := Identity{PID: p.cmd.Process.Pid, Start: p.Start, Group: p.cmd.Process.Pid}
			if env != nil {
				if leader.Start == "" { // it ended before it was looked at
					leader.Start = child.Start
				}
				p.reap(t)
			}
			wantGroup(t, leader, true)
			if err := leader.SignalGroup(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := child.Wait(soon(t)); err != nil {
				t.Errorf("the grandchild: %v", err)
			}
			if err := leader.Wait(soon(t)); err != nil {
				t.Errorf("the leader: %v", err)
			}
			wantGroup(t, leader, false) // also while it is a zombie
		})
	}
}

func TestGroupThatIsNotTheProcesssOwn(t *testing.T) {
	t.Parallel()
	p := start(t, "alone", NewGroup())
	for _, id := range []Identity{
		{},
		{PID: p.PID, Start: p.Start},
		{PID: p.PID, Start: p.Start, Group: 1},
		{PID: p.PID, Start: p.Start, Group: -1},
		{PID: 1, Start: p.Start, Group: 1},
		{PID: p.PID, Start: p.Start, Group: syscall.Getpgrp()},
	} {
		if err := id.SignalGroup(0); err == nil {
			t.Errorf("%+v: signalled", id)
		}
	}
	wantAlive(t, p.Identity, true)
}

func wantGroup(t *testing.T, id Identity, want bool) {
	t.Helper()
	if alive, err := id.GroupAlive(); alive != want || err != nil {
		t.Errorf("group %d: alive %t, want %t: %v", id.Group, alive, want, err)
	}
}

func TestZeroIdentityIsNoProcess(t *testing.T) {
	t.Parallel()
	var none Identity
	wantAlive(t, none, false)
	wantGroup(t, none, false)
	wantGroup(t, Identity{PID: 1, Group: 1}, false)
	wantGone(t, none.Signal(0))
	wantGone(t, Identity{PID: -1}.Signal(0))
	if err := none.Wait(soon(t)); err != nil {
		t.Errorf("Wait: %v", err)
	}
}

func TestWaitForAProcessThatIsNoChild(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(Identity, context.Context) error{
		"as the kernel tells": Identity.Wait,
		"by polling":          Identity.poll,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "parent", NewGroup())
			child, err := Identify(p.said)
			if err != nil {
				t.Fatal(err)
			}
			cause := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			waited := make(chan error, 2)
			go func() { waited <- wait(child, ctx) }()
			cancel(cause)
			if err := <-waited; !errors.Is(err, cause) {
				t.Errorf("with a cancelled context: %v", err)
			}

			ctx = soon(t)
			go func() { waited <- wait(child, ctx) }()
			wantAlive(t, child, true)
			_ = p.stdin.Close()
			if err := <-waited; err != nil {
				t.Error(err)
			}
			wantAlive(t, child, false)
		})
	}
}

func TestNewSession(t *testing.T) {
	t.Parallel()
	p := start(t, "alone", NewSession())
	session, err := unix.Getsid(p.PID)
	if err != nil || session != p.PID || p.Group != p.PID {
		t.Errorf("session %d, group %d of process %d, %v", session, p.Group, p.PID, err)
	}
}
