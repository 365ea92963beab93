package docker

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

// ending is how the stop of a container went.
type ending struct {
	exit runtime.Exit
	took time.Duration
	why  killer
}

// killer is who sent SIGKILL to a container that was told to stop.
type killer int

const (
	nobody   killer = iota // it exited by itself
	byForce                // Options.Force was closed: somebody wanted that
	byEngine               // its grace was over
	byOthers               // somebody past flisk, or the kernel because memory ran out
)

// String is the ending for people; nothing for one that did not come.
func (e ending) String() string {
	switch e.why {
	case nobody:
		if e.took == 0 {
			return ""
		}
		return e.exit.String() + " after " + runtime.Span(e.took)
	case byOthers:
		return "killed by something other than flisk after " + runtime.Span(e.took) + "; what it had not committed is lost"
	}
	return "killed after " + runtime.Span(e.took) + "; what it had not committed is lost"
}

// halt stops a container through its drain and removes it. That somebody else did
// that meanwhile is what was wanted, and nothing is known of its end then. One that
// was started again in between is stopped again.
func (d *Driver) halt(ctx context.Context, e *engine, c seen) (ending, error) {
	var how ending
	for tries := 1; ; tries++ {
		again, err := d.stopped(ctx, e, c)
		if errors.Is(err, errNotFound) {
			return how, nil
		}
		if how.why == nobody { // what was cut once is not mended by a clean end later
			how = again
		}
		if err == nil {
			err = d.remove(context.WithoutCancel(ctx), e, c)
		}
		if startedAgain := errors.Is(err, errRuns) || errors.Is(err, errConflict); !startedAgain || tries == haltTries {
			return how, err
		}
	}
}

// haltTries bounds a quarrel with who starts a container again and again.
const haltTries = 3

// stopped stops a container through its drain, and keeps it.
func (d *Driver) stopped(ctx context.Context, e *engine, c seen) (ending, error) {
	began := time.Now()
	defer d.aloneStops(c.ID)()
	code, err := e.stopContainer(context.WithoutCancel(ctx), c.ID, d.o.Force)
	if err != nil {
		return ending{}, err
	}
	how := ending{exit: exitOf(code), took: time.Since(began)}
	if how.exit.Signal == 0 {
		return how, nil
	}
	select {
	case <-d.o.Force:
		how.why = byForce
	default:
		// The engine sends it when the grace is over, and never before.
		if how.why = byOthers; how.took >= graceOf(c.InspectResponse) {
			how.why = byEngine
		}
	}
	return how, nil
}

// aloneStops waits while another flisk command stops a container, and has others
// wait until release is called: the engine sends a SIGTERM for each of them, and an
// agent of an older library takes the second one for haste. With Force, which is
// about that, nobody waits; and a place that cannot be locked must not keep a
// container running.
func (d *Driver) aloneStops(id string) (release func()) {
	path := d.place.stop(id)
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for {
		f, err := claim.File(path)
		switch {
		case err == nil:
			return func() {
				_ = os.Remove(path) // who has opened it already finds the container stopped
				_ = claim.Unlock(f)
			}
		case !errors.Is(err, claim.ErrLocked):
			return func() {}
		}
		select {
		case <-d.o.Force:
			return func() {}
		case <-tick.C:
		}
	}
}

// stopPoll is how often it is looked whether another command has stopped a container.
const stopPoll = 50 * time.Millisecond
