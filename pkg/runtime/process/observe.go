package process

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// look is what one look at the machine found.
type look struct {
	exists     bool          // there is a run directory
	answer     *observeReply // the supervisor's, if it answers
	err        error         // why it does not
	supervisor proc.Identity // its record, if its process is alive
	alive      bool          // supervisor is
	left       []record      // living replicas whose supervisor is gone
}

// look asks the supervisor, and the records when nobody answers.
func (d *Driver) look(ctx context.Context) (look, error) {
	var l look
	var err error
	if l.exists, err = d.place.runDirExists(); err != nil || !l.exists {
		return l, err
	}
	var recorded bool
	if l.supervisor, recorded = d.place.supervisor(); recorded {
		if l.alive, err = l.supervisor.Alive(); err != nil {
			return l, err
		}
	}

	asking, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var answer observeReply
	if l.err = newClient(d.place.control()).call(asking, pathObserve, nil, &answer); l.err == nil {
		l.answer = &answer
		return l, nil
	}
	if ctx.Err() != nil {
		return l, context.Cause(ctx)
	}
	if !l.alive {
		for _, r := range d.place.records() {
			switch alive, err := r.Alive(); {
			case err != nil:
				return l, err
			case alive:
				l.left = append(l.left, r)
			}
		}
	}
	return l, nil
}

// Observe implements runtime.Driver.
func (d *Driver) Observe(ctx context.Context) (runtime.Observed, error) {
	l, err := d.look(ctx)
	if err != nil {
		return runtime.Observed{}, err
	}
	return d.observed(l), nil
}

func (d *Driver) observed(l look) runtime.Observed {
	o := runtime.Observed{Volume: d.o.Stack.Volume.Name, Place: d.place.volume}
	switch {
	case !l.exists:
	case l.answer != nil:
		o.Running = true
		o.Dir, o.URL, o.Gateway = l.answer.Serve.Dir, l.answer.URL, l.answer.Gateway
		o.Routes, o.Replicas = l.answer.Routes, l.answer.Replicas
	case l.alive:
		o.Running = true
		o.Stale = []string{fmt.Sprintf("supervisor (process %d) does not answer: %v", l.supervisor.PID, l.err)}
	case len(l.left) == 0:
		o.Stale = []string{"the run directory of a supervisor that was killed"}
	default:
		o.Running = true
		for _, r := range l.left {
			o.Replicas = append(o.Replicas, runtime.Replica{
				Agent: r.Agent, Name: r.Replica, Generation: r.Generation,
				State: runtime.Draining, PID: r.PID, Code: r.Code,
			})
			o.Stale = append(o.Stale, fmt.Sprintf("%s (process %d) is left of a supervisor that was killed", r.Replica, r.PID))
		}
	}
	if s, err := d.place.settings(); l.exists && o.Dir == "" && err == nil {
		o.Dir = s.Dir
	}
	return o
}

// refuseOther refuses to change what another copy of the project has running. A
// project whose directory was moved or removed meanwhile is no other copy.
func (d *Driver) refuseOther(l look) error {
	if l.answer == nil {
		return nil
	}
	theirs, err := os.Stat(l.answer.Serve.Dir)
	if err != nil {
		return nil
	}
	if mine, err := os.Stat(d.o.Stack.Dir); err == nil && os.SameFile(mine, theirs) {
		return nil
	}
	return fault.New(fault.Environment, fmt.Sprintf("stop it there first: flisk -C %q down", l.answer.Serve.Dir),
		"this project (id %s) runs from another directory, %q", d.o.Stack.ID, l.answer.Serve.Dir)
}

// Kill implements runtime.Driver. It returns when the processes are dead.
func (d *Driver) Kill(ctx context.Context, agent string) ([]runtime.Replica, error) {
	l, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	if l.answer == nil {
		return nil, fault.New(fault.Failed, "flisk up starts it", "nothing runs that could be killed")
	}
	if err := d.refuseOther(l); err != nil {
		return nil, err
	}
	var killed []runtime.Replica
	err = newClient(d.place.control()).call(ctx, pathKill, killRequest{agent}, &killed)
	if err == nil && len(killed) == 0 {
		err = fault.New(fault.Failed, "flisk status shows what runs", "agent %q has no running process", agent)
	}
	return killed, err
}

// errGone says that a supervisor that had answered does not any more.
var errGone = errors.New("the supervisor went away")
