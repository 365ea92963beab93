package docker

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// rollbackGrace is how long a container that never got a request may take to stop.
const rollbackGrace = 5 * time.Second

// rollBack takes back what a failed plan did: everything that was not there when
// it began is stopped and removed, and the gateway gets back what served before.
// Volumes are not touched. Once something was stopped for good there is no way
// back, and the next run finishes what this one began.
func (a *apply) rollBack(ctx context.Context) error {
	for ref, o := range a.started { // nobody waited for it
		o.end("given up after "+runtime.Span(time.Since(o.began)), nil)
		delete(a.started, ref)
	}
	if a.committed {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	l, err := a.d.look(ctx)
	if err != nil {
		return err
	}
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	var fresh []seen
	for _, c := range l.everything() {
		if !a.before[c.ID] {
			fresh = append(fresh, c)
		}
	}
	gateways := 0
	for _, c := range fresh {
		if c.service() == a.target.gateway.Name {
			gateways++
		}
	}
	old, had := a.course.look.gateway()
	if a.swapped != nil {
		note(a.restoreGateway(ctx, l, fresh))
	}
	if a.switched && had {
		note(a.restoreRoutes(ctx, old))
	}
	for _, c := range fresh {
		if a.swapped != nil && c.service() == a.target.gateway.Name {
			continue // gone already
		}
		note(a.undo(ctx, c))
	}
	note(a.restoreServices(ctx))
	for _, n := range l.networks {
		if !a.wires[n.ID] {
			note(a.e.removeNetwork(ctx, n.ID))
		}
	}
	if gateways > 0 && !had {
		note(os.RemoveAll(a.d.place.traefik))
	}
	note(a.restoreImages(ctx))
	return errors.Join(errs...)
}

// undo stops and removes a container that never served.
func (a *apply) undo(ctx context.Context, c seen) error {
	what := c.service()
	if c.Agent != "" {
		what = a.named(c.Ref)
	}
	if !c.runs() {
		return a.d.remove(ctx, a.e, c)
	}
	end := a.p.Begin("stop " + what)
	force := make(chan struct{})
	timer := time.AfterFunc(rollbackGrace, func() { close(force) })
	defer timer.Stop()
	began := time.Now()
	code, err := a.e.stopContainer(ctx, c.ID, force)
	end(exitOf(code).String()+" after "+runtime.Span(time.Since(began)), err)
	if err != nil {
		return err
	}
	return a.d.remove(ctx, a.e, c)
}

// restoreGateway starts the gateway that was stopped for another one.
func (a *apply) restoreGateway(ctx context.Context, l look, fresh []seen) error {
	for _, c := range fresh {
		if c.service() != a.target.gateway.Name {
			continue
		}
		if err := a.undo(ctx, c); err != nil {
			return err
		}
	}
	if err := a.restoreStatic(); err != nil {
		return err
	}
	end := a.p.Begin("start gateway again, as it was")
	err := a.e.startContainer(ctx, a.swapped.ID)
	if err == nil && a.course.look.ownRoutes() && a.course.look.silent == "" {
		err = a.untilServes(ctx, a.swapped.ID, a.swapped.address())
	}
	end("", err)
	return err
}

func (a *apply) restoreStatic() error {
	if a.static == nil {
		return nil
	}
	return a.d.place.replace(a.d.place.static(), a.static)
}

// restoreRoutes lets serve what served before, and waits until it does: what is
// stopped next may be what serves now.
func (a *apply) restoreRoutes(ctx context.Context, gateway seen) error {
	before := a.course.look.live
	if before == nil || !a.course.look.ownRoutes() {
		return nil
	}
	err := a.route(ctx, *before, gateway.address())
	if errors.Is(err, errNoGateway) { // that is why there is a way back; who makes another goes by these
		return nil
	}
	return err
}

// restoreImages gives names back, and removes the images of this plan that had taken
// them.
func (a *apply) restoreImages(ctx context.Context) error {
	var errs []error
	for _, i := range a.rest {
		now, ok, err := a.e.inspectImage(ctx, i.tag)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case !ok || now.ID == i.was:
			continue
		case i.was != "":
			errs = append(errs, a.e.tagImage(ctx, i.was, i.tag))
		}
		known := readStages(a.d.place.images)
		if at := slices.IndexFunc(known, stage{ID: now.ID, Engine: a.e.facts.ID}.is); at >= 0 {
			if err := a.e.dropImage(ctx, known[at]); !errors.Is(err, errConflict) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
