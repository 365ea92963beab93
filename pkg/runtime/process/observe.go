package process

import (
	"context"
	"errors"
	"fmt"

	"github.com/flisk-go/flisk/pkg/internal/proc"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// look is what one look at the machine found.
type look struct {
	exists     bool          // there is a run directory
	answer     *observeReply // the supervisor's, if it answers
	err        error         // why it does not
	supervisor proc.Identity // its record
	recorded   bool          // there is that record
	silent     bool          // its process lives, and does not answer
	left       []record      // replicas whose supervisor is gone and that still run
	members    []record      // replicas that are gone as well, and left something in their group
}

// look asks the supervisor, and the records when nobody answers.
func (d *Driver) look(ctx context.Context) (look, error) {
	var l look
	var err error
	if l.exists, err = d.place.runDirExists(); err != nil || !l.exists {
		return l, err
	}
	// Read before it is asked: one that starts in between has no record yet.
	l.supervisor, l.recorded = d.place.supervisor()
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
	// Looked for after it was asked: one that dies in between is dead.
	if l.recorded {
		if l.silent, err = l.supervisor.Alive(); err != nil || l.silent {
			return l, err
		}
	}
	for _, r := range d.place.records() {
		alive, err := r.Alive()
		if err != nil {
			return l, err
		}
		if alive {
			l.left = append(l.left, r)
			continue
		}
		if alive, err = r.GroupAlive(); err != nil {
			return l, err
		}
		if alive {
			l.members = append(l.members, r)
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
		o.Running, o.GatewayPID = true, l.supervisor.PID
		o.Dir, o.URL, o.Gateway = l.answer.Serve.Dir, l.answer.URL, l.answer.Gateway
		o.Routes, o.Replicas = l.answer.Routes, l.answer.Replicas
	case l.silent && errors.Is(l.err, errOtherVersion):
		o.Running, o.GatewayPID = true, l.supervisor.PID
		o.Stale = []string{"the gateway's process was started by another version of flisk: flisk down, then flisk up"}
	case l.silent:
		o.Running, o.GatewayPID = true, l.supervisor.PID
		o.Stale = []string{"the gateway's process (the supervisor, which also keeps the agents alive) does not answer; flisk up replaces it"}
	case len(l.left)+len(l.members) == 0 && !l.recorded:
		o.Stale = []string{"a start that goes on right now, or was killed; flisk up goes on from there"}
	case len(l.left)+len(l.members) == 0:
		o.Stale = []string{"the gateway's process (the supervisor, which also keeps the agents alive) was killed, and the agents ended; flisk up brings both back"}
	case len(l.left) == 0:
		o.Stale = []string{"the gateway's process (the supervisor, which also keeps the agents alive) was killed, and the agents ended without what they had started; flisk up brings both back, and flisk down ends the rest"}
	default:
		o.Stale = []string{"the gateway's process (the supervisor, which also keeps the agents alive) was killed, and the agents finish what they accepted; flisk up brings both back"}
	}
	for _, r := range l.left {
		draining := r.observed(runtime.Draining)
		draining.PID = r.PID
		o.Replicas = append(o.Replicas, draining)
	}
	for _, r := range l.members {
		behind := r.observed(runtime.LeftBehind)
		behind.Detail = fmt.Sprintf("its process is gone, and what that had started still runs (process group %d); flisk up or flisk down ends it", r.Group)
		o.Replicas = append(o.Replicas, behind)
	}
	o.Running = o.Running || len(o.Replicas) > 0
	if s, err := d.place.settings(); l.exists && o.Dir == "" && err == nil {
		o.Dir = s.Serve.Dir
	}
	return o
}

// refuseOther refuses to change what another copy of the project has running. A
// project whose directory was moved or removed meanwhile is no other copy.
func (d *Driver) refuseOther(l look) error {
	if l.answer == nil {
		return nil
	}
	return runtime.RefuseOther(d.o.Stack, l.answer.Serve.Dir)
}

// errGone says that a supervisor that had answered does not any more.
var errGone = errors.New("the gateway's process went away")
