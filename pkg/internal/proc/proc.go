// Package proc names, watches and signals processes that need not be children of
// this one: what a record on disk says was started earlier may be gone, and its
// pid may belong to somebody else by now.
//
// An [Identity] is a pid with the time at which its process started. Every
// method looks at the live process first, so that no signal goes to a stranger
// and no stranger, and no zombie, counts as alive. All of it is safe for
// concurrent use. Linux and macOS.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Identity is one process, told apart from every other one that had or will get
// its pid. It can be written to a file and compared with ==. The zero value is
// no process.
type Identity struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // what StartTime returns
	Group int    `json:"group"` // its process group; equal to PID for a leader
}

// snapshot is what the kernel says about a pid.
type snapshot struct {
	start  string
	group  int
	zombie bool // it has ended, and its parent has not asked how
}

// Identify returns the identity of a running process. The error wraps
// [os.ErrProcessDone] when there is none with this pid, or only its zombie.
func Identify(pid int) (Identity, error) {
	s, err := look(pid)
	if err == nil && s.zombie {
		err = gone(pid)
	}
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: s.start, Group: s.group}, nil
}

// StartTime returns when a process started, as text that only equality means
// something for: the same process always has the same one, and another process
// with the same pid never has, not even after a reboot. A zombie still has its
// own. The error wraps [os.ErrProcessDone] when there is no such process.
func StartTime(pid int) (string, error) {
	s, err := look(pid)
	return s.start, err
}

// Alive reports whether the very process still runs. A zombie does not run. An
// error means that it could not be found out, and neither yes nor no.
func (id Identity) Alive() (bool, error) {
	s, err := look(id.PID)
	if errors.Is(err, os.ErrProcessDone) {
		return false, nil
	}
	return err == nil && s.start == id.Start && !s.zombie, err
}

// Signal sends sig to the process. The error wraps [os.ErrProcessDone], and
// nothing is sent, when it does not run any more.
func (id Identity) Signal(sig syscall.Signal) error {
	// With pidfds (Linux 5.4) this holds the process itself: what is looked at
	// next is what gets the signal, even if it ends in between.
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return fmt.Errorf("process %d: %w", id.PID, err)
	}
	defer p.Release() // fails only when called twice
	if alive, err := id.Alive(); err != nil {
		return err
	} else if !alive {
		return gone(id.PID)
	}
	if err := p.Signal(sig); err != nil {
		return fmt.Errorf("signal process %d: %w", id.PID, err)
	}
	return nil
}

// SignalGroup sends sig to all members of the process's group. For the leader of
// a group that works also when it has ended and left members behind. The error
// wraps [os.ErrProcessDone], and nothing is sent, when the group is not there
// any more or cannot be known for the process's own.
func (id Identity) SignalGroup(sig syscall.Signal) error {
	if id.PID < 2 || id.Group < 2 { // kill(2) takes 0 and -1 for everybody
		return fmt.Errorf("process %d has no group %d to signal", id.PID, id.Group)
	}
	leaderEnded := false
	switch s, err := look(id.PID); {
	case err == nil && s.start == id.Start:
		if s.group != id.Group {
			return fmt.Errorf("process %d has moved from group %d to group %d", id.PID, id.Group, s.group)
		}
		leaderEnded = s.zombie
	case err == nil:
		// A pid is not given away again while a group is called by it.
		return gone(id.PID)
	case !errors.Is(err, os.ErrProcessDone):
		return err
	case id.PID != id.Group || !sinceBoot(id.Start):
		return gone(id.PID)
	default:
		// If the pid is free and a group is called by it, then that is the
		// leader's: for another one the pid must have been given away after
		// this group's last member, and its new leader have ended as well.
		leaderEnded = true
	}
	err := syscall.Kill(-id.Group, sig)
	if errors.Is(err, syscall.ESRCH) || leaderEnded && onlyZombies(err) {
		return gone(id.PID)
	}
	if err != nil {
		return fmt.Errorf("signal process group %d: %w", id.Group, err)
	}
	return nil
}

// pollEvery is the time between two looks at a process where the kernel cannot
// be asked to tell.
const pollEvery = 20 * time.Millisecond

// Wait returns nil when the process does not run any more: at once if it does
// not run now. It need not be a child, and is not reaped. When ctx ends first
// the error wraps its cause.
func (id Identity) Wait(ctx context.Context) error {
	if done, err := id.await(ctx); done || err != nil {
		return err
	}
	return id.poll(ctx)
}

func (id Identity) poll(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if alive, err := id.Alive(); err != nil || !alive {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return id.running(ctx)
		}
	}
}

// running is the error of a wait that ctx ended.
func (id Identity) running(ctx context.Context) error {
	return fmt.Errorf("process %d still runs: %w", id.PID, context.Cause(ctx))
}

func gone(pid int) error { return fmt.Errorf("process %d: %w", pid, os.ErrProcessDone) }

// NewSession makes a child the leader of a session and a group of its own:
// neither its terminal's Ctrl-C and hang-up nor its parent's end reach it.
func NewSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// NewGroup makes a child the leader of a group of its own within the session, so
// that it and what it starts can be signalled together.
func NewGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
