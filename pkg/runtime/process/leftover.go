package process

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

const (
	// noticeTime is how long a replica may take to notice that its supervisor
	// is gone, before it is told by SIGTERM.
	noticeTime = 2 * time.Second

	gonePoll   = 25 * time.Millisecond
	forcedTime = time.Second // to end by itself, when a wait was forced
	closeTime  = time.Second // from the end of a process to that of its sockets and locks
)

// sweep ends what a killed supervisor left, and removes the run directory. It
// does nothing while a supervisor lives. Nothing is signalled but a process
// whose number and start time are those of its record.
func (d *Driver) sweep(ctx context.Context, p runtime.Progress) (swept bool, err error) {
	exists, err := d.place.runDirExists()
	if err != nil || !exists {
		return false, err
	}
	// A killed supervisor counts as gone a moment before the last of its threads
	// lets go of the lock.
	locking, cancel := context.WithTimeoutCause(ctx, closeTime, claim.ErrLocked)
	defer cancel()
	lock, err := claim.Wait(locking, claim.Dir, d.place.run)
	if err != nil {
		return false, fmt.Errorf("cannot clean up in %q: %w", d.place.run, err)
	}
	defer lock.Close()

	for _, r := range d.place.records() {
		alive, err := r.Alive()
		if err != nil {
			return false, err
		}
		if !alive {
			_ = r.SignalGroup(syscall.SIGKILL) // what it may have left; os.ErrProcessDone: nothing
			p.Begin(fmt.Sprintf("forget %s, whose process %d is gone", r.Replica, r.PID))("", nil)
			continue
		}
		end := p.Begin(fmt.Sprintf("wait for %s (process %d), left by a killed gateway process", r.Replica, r.PID))
		killed, err := d.endLeftover(ctx, r)
		detail := "drained"
		if killed {
			detail = fmt.Sprintf("killed: it did not end within %s", r.Grace)
		}
		end(detail, err)
		if err != nil {
			return false, err
		}
	}
	return true, d.place.removeRunDir()
}

// endLeftover waits for a replica that drains because its supervisor is gone.
// One that does not drain gets SIGTERM, and SIGKILL with its group when its
// grace is over.
func (d *Driver) endLeftover(ctx context.Context, r record) (killed bool, err error) {
	grace := time.Now().Add(r.Grace)
	gone, err := d.waitGone(ctx, r.Identity, time.Now().Add(noticeTime))
	if err != nil {
		return false, err
	}
	if !gone && !draining(ctx, r) {
		_ = r.Signal(syscall.SIGTERM) // an error: it is gone by now
	}
	if !gone {
		if gone, err = d.waitGone(ctx, r.Identity, grace); err != nil {
			return false, err
		}
	}
	_ = r.SignalGroup(syscall.SIGKILL) // os.ErrProcessDone: it left nothing
	if gone {
		return false, nil
	}
	gone, err = d.waitGone(ctx, r.Identity, time.Now().Add(killTime))
	if err == nil && !gone {
		err = fmt.Errorf("process %d did not end after SIGKILL", r.PID)
	}
	return true, err
}

// draining asks a replica whether it finishes what it accepted.
func draining(ctx context.Context, r record) bool {
	ask := newAsker(stack.Endpoint{Network: "unix", Address: r.Socket})
	defer ask.CloseIdleConnections()
	var health turn.Health
	_, err := askAgent(ctx, ask, turn.HealthPath, &health)
	return err == nil && health.Draining
}

// waitGone waits until a process has ended or the deadline is over; false means
// that it lives. Force brings the deadline near. A process that was started by
// this one is reaped, which is all that keeps its number from being free.
func (d *Driver) waitGone(ctx context.Context, id proc.Identity, deadline time.Time) (bool, error) {
	tick := time.NewTicker(gonePoll)
	defer tick.Stop()
	force := d.o.Force
	for {
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(id.PID, &status, syscall.WNOHANG, nil) // ECHILD: not ours to reap
		alive, err := id.Alive()
		switch {
		case err != nil:
			return false, err
		case !alive:
			return true, nil
		case time.Now().After(deadline):
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-force:
			force = nil
			if soon := time.Now().Add(forcedTime); soon.Before(deadline) {
				deadline = soon
			}
		case <-tick.C:
		}
	}
}

// endSupervisor ends one that does not answer: SIGTERM makes it drain like an
// asked one, and SIGKILL leaves the rest to sweep.
func (d *Driver) endSupervisor(ctx context.Context, id proc.Identity) error {
	deadline := time.Now().Add(d.place.supervisorTimeout())
	_ = id.Signal(syscall.SIGTERM) // an error: it is gone by now
	gone, err := d.waitGone(ctx, id, deadline)
	if err != nil || gone {
		return err
	}
	_ = id.Signal(syscall.SIGKILL)
	gone, err = d.waitGone(ctx, id, time.Now().Add(killTime))
	if err == nil && !gone {
		err = fmt.Errorf("the gateway's process (%d) did not end after SIGKILL", id.PID)
	}
	return err
}
