package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// Down implements runtime.Driver. Once it has begun to stop, ctx does not end
// it: a drain that is cut loses what it was for. Options.Force does.
func (d *Driver) Down(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	report := runtime.Report{Volume: d.o.Stack.Volume.Name}
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return report, err
	}
	defer release()
	report.Place = d.volumePlace(l.e)
	report.Changed, err = d.stopAll(context.WithoutCancel(ctx), p, l)
	return report, err
}

// stopAll stops what runs in the order of the plan, and removes what is left of
// the project: containers that have stopped, the network, the live routes, and
// images that gave their names to later ones.
func (d *Driver) stopAll(ctx context.Context, p runtime.Progress, l look) (changed bool, err error) {
	observed := d.toStop(l)
	plan := runtime.NewPlan(runtime.Desired{}, observed, runtime.OpDown)
	a := newApply(course{d: d, look: l}, p)
	d.sayEnding(l)
	if err := a.run(ctx, plan); err != nil {
		return plan.Changes(), err
	}
	changed = plan.Changes()
	for _, c := range l.gateways {
		if c.runs() {
			continue // the plan's
		}
		if err := l.e.removeContainer(ctx, c.ID); err != nil {
			return changed, err
		}
		changed = true
	}
	for _, n := range l.networks {
		gone, err := d.removeNetwork(ctx, l.e, n.ID, n.Name)
		if err != nil {
			return changed, err
		}
		changed = changed || gone
	}
	d.dropUnnamed(ctx, l.e, look{}) // of what a Retire has left, or this has stopped
	// Its count belongs to containers, of which there are none any more.
	return changed, errors.Join(os.RemoveAll(d.place.traefik), os.RemoveAll(d.place.kills))
}

// sayEnding writes down that what serves is being stopped. It is for those who look
// meanwhile, or after this was killed: a disk that is full keeps nobody from
// stopping.
func (d *Driver) sayEnding(l look) {
	if l.live != nil && len(l.everything()) > len(l.readers) {
		ending := *l.live
		ending.Ending = true
		_ = d.place.writeLive(ending)
	}
}

// removeNetwork removes the project's network, unless somebody else's container is
// on it, or is set to use it and has stopped: it could not be started again.
func (d *Driver) removeNetwork(ctx context.Context, e *engine, id, name string) (gone bool, err error) {
	_, err = e.inspectNetwork(ctx, id)
	if errors.Is(err, errNotFound) {
		return false, nil
	}
	var users []string
	if err == nil {
		users, err = e.networkUsers(ctx, id, name)
	}
	if err != nil {
		return false, err
	}
	if len(users) > 0 {
		d.warn(fmt.Sprintf("the network %q stays: it is used by what is not of the project: container %s", name, strings.Join(users, ", ")))
		return false, nil
	}
	return true, e.removeNetwork(ctx, id)
}

// toStop is what is observed as far as a down depends on it: nobody need be asked
// whether it is ready.
func (d *Driver) toStop(l look) runtime.Observed {
	var o runtime.Observed
	for _, c := range l.agents {
		o.Replicas = append(o.Replicas, runtime.Replica{Agent: c.Agent, Name: c.Replica, Generation: c.Generation})
	}
	if g, ok := l.gateway(); ok {
		o.Gateway = g.address()
		if o.Gateway == "" {
			o.Gateway = g.name()
		}
	}
	for _, c := range l.services {
		if l.serviceOf(c.service()).ID != c.ID {
			continue
		}
		o.Services = append(o.Services, runtime.Service{Name: c.service()})
	}
	return o
}

// Erase removes everything of the project from the engine and from Home: it
// stops what runs without a drain, then removes containers, network, volumes,
// images, live routes and built programs, and what is remembered. It is for
// stacks that were made to be thrown away, and goes on where an earlier one was
// killed. ctx does not end it.
func (d *Driver) Erase(ctx context.Context, p runtime.Progress) error {
	forced := &Driver{o: d.o, place: d.place, warned: d.warned}
	force := make(chan struct{})
	close(force)
	forced.o.Force = force
	return errors.Join(forced.erase(context.WithoutCancel(ctx), p), forced.Close())
}

func (d *Driver) erase(ctx context.Context, p runtime.Progress) error {
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return err
	}
	defer release()
	if _, err := d.stopAll(ctx, p, l); err != nil {
		return err
	}
	for _, c := range l.readers {
		if err := l.e.removeContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	volumes, err := d.labelled(ctx, l.e) // whatever is wrong with the Compose file
	for _, v := range volumes {
		err = errors.Join(err, l.e.removeVolume(ctx, volumeRef{name: v.Name, project: d.o.Stack.ID}))
	}
	err = errors.Join(err, d.dropImages(ctx, l.e, look{}, nil), d.dropNames(ctx, l.e, nil))
	d.removeStages(ctx, l.e, func(stage) bool { return true })
	return errors.Join(err, os.RemoveAll(d.place.images), os.RemoveAll(d.place.stages), os.RemoveAll(d.place.build), os.RemoveAll(d.place.logs), d.memory().Forget(runtimeName))
}
