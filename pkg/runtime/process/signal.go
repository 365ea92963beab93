package process

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Kill implements runtime.Driver.
func (d *Driver) Kill(ctx context.Context, agent string) ([]runtime.Change, error) {
	changes, err := d.Signal(ctx, agent, syscall.SIGKILL)
	if err != nil {
		return changes, err
	}
	var errs []error
	for _, c := range changes {
		switch {
		case c.Exit.Signal != syscall.SIGKILL:
			errs = append(errs, fault.New(fault.Failed, "flisk logs "+agent+" may show why",
				"process %d of %s ended by %s and not by signal 9", c.Before.PID, c.Replica, c.Exit))
		case c.After == runtime.Process{}:
			errs = append(errs, fault.New(fault.Failed, "flisk logs "+agent+" may show why",
				"process %d of %s was killed, and nothing took its place within %s", c.Before.PID, c.Replica, successorTime))
		case c.After == c.Before:
			errs = append(errs, fmt.Errorf("process %d of %s still runs after signal 9", c.Before.PID, c.Replica))
		}
	}
	return changes, errors.Join(errs...)
}

// Signal sends a signal to every process of an agent, and to nothing else but,
// with SIGKILL, what those have started. It returns when they have ended and
// others are in their places; whether the signal was why is for the caller to
// judge. When ctx ends it stops waiting.
func (d *Driver) Signal(ctx context.Context, agent string, sig syscall.Signal) ([]runtime.Change, error) {
	l, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	if l.answer == nil {
		return nil, fault.New(fault.Failed, "flisk up starts it", "nothing runs that could get a signal")
	}
	if err := d.refuseOther(l); err != nil {
		return nil, err
	}
	var changes []runtime.Change
	err = newClient(d.place.control()).call(ctx, pathSignal, signalRequest{agent, sig}, &changes)
	if err == nil && len(changes) == 0 {
		err = fault.New(fault.Failed, "flisk status shows what runs", "agent %q has no running process", agent)
	}
	return changes, err
}
