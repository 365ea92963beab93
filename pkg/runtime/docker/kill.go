package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Kill implements runtime.Driver. The engine does not bring back what was killed
// by hand, so it is started again here.
func (d *Driver) Kill(ctx context.Context, agent string) ([]runtime.Change, error) {
	changes, err := d.Signal(ctx, agent, syscall.SIGKILL)
	if err != nil {
		return changes, err
	}
	var errs []error
	for _, c := range changes {
		if c.Exit.Signal != syscall.SIGKILL {
			errs = append(errs, fault.New(fault.Failed, "flisk logs "+agent+" may show why",
				"process %d of %s ended by %s and not by signal 9", c.Before.PID, c.Replica, c.Exit))
		}
	}
	return changes, errors.Join(errs...)
}

// Signal sends a signal to every process of an agent, waits for its end, and
// starts it again: the engine does not bring back what ended by a signal that was
// sent by hand. It returns when others are in their places; whether the signal
// was why they ended is for the caller to judge. Once a signal was sent, the end
// of ctx leaves nothing stopped. It is a change like any other, and waits for
// those that go on: what they stop is not to be started again, and neither is what
// was replaced and drains without a lock.
func (d *Driver) Signal(ctx context.Context, agent string, sig syscall.Signal) ([]runtime.Change, error) {
	l, release, err := d.begin(ctx, untold{d})
	if err != nil {
		return nil, err
	}
	defer release()
	if !slices.ContainsFunc(l.everything(), seen.runs) {
		return nil, fault.New(fault.Failed, "flisk up starts it", "nothing runs that could get a signal")
	}
	var victims []seen
	for _, c := range l.agents {
		if c.Agent == agent && c.State.Running && !c.State.Restarting && !l.replaced(c) {
			victims = append(victims, c)
		}
	}
	if len(victims) == 0 {
		hint := "flisk status shows what runs"
		if slices.ContainsFunc(l.agents, func(c seen) bool { return c.Agent == agent }) {
			hint = "flisk up starts it"
		}
		return nil, fault.New(fault.Failed, hint, "agent %q has no running process", agent)
	}
	changes, errs := make([]runtime.Change, len(victims)), make([]error, len(victims))
	var all sync.WaitGroup
	for i, c := range victims {
		all.Go(func() { changes[i], errs[i] = d.signalAndStart(ctx, l.e, c, sig) })
	}
	all.Wait()
	return changes, errors.Join(errs...)
}

// untold is the progress of a call that nobody wants to watch. What it waits for
// is a warning.
type untold struct{ d *Driver }

func (u untold) Begin(step string) func(string, error) {
	u.d.warn(step)
	return func(string, error) {}
}

func (untold) Output() io.Writer { return io.Discard }

func (d *Driver) signalAndStart(ctx context.Context, e *engine, c seen, sig syscall.Signal) (runtime.Change, error) {
	change := runtime.Change{Agent: c.Agent, Replica: c.Replica, Before: c.process()}
	code, sent, err := e.signalContainer(ctx, c.ID, sig)
	ctx = context.WithoutCancel(ctx)
	switch {
	case err != nil && sent:
		return change, errors.Join(err, startEnded(ctx, e, c.ID))
	case err != nil:
		return change, err
	}
	change.Exit = exitOf(code)
	if err := d.place.countKill(c.ID, c.RestartCount); err != nil {
		d.warn(fmt.Sprintf("the restart of %s is not counted: %v", c.Replica, err))
	}
	if err := e.startContainer(ctx, c.ID); err != nil {
		return change, err
	}
	now, err := e.inspectContainer(ctx, c.ID)
	if err != nil {
		return change, err
	}
	change.After = seen{InspectResponse: now}.process()
	if change.After == change.Before {
		err = fmt.Errorf("process %d of %s still runs after signal %d", change.Before.PID, c.Replica, int(sig))
	}
	return change, err
}

// signalTime is how long a process is watched after a signal of which is not known
// whether it was sent.
const signalTime = 2 * time.Second

// startEnded starts a container that a signal ended, although the engine did not
// say so. One that goes on is left alone.
func startEnded(ctx context.Context, e *engine, id string) error {
	for over := time.Now().Add(signalTime); ; {
		c, err := e.inspectContainer(ctx, id)
		if err != nil {
			return err
		}
		if !c.State.Running {
			return e.startContainer(ctx, id)
		}
		if time.Now().After(over) {
			return nil
		}
		if err := pause(ctx, readyPoll); err != nil {
			return err
		}
	}
}
