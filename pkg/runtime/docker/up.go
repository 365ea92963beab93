package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

// Up implements runtime.Driver. Everything that can be known to be wrong is
// said before anything is stopped or started.
func (d *Driver) Up(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	return runtime.Converge(ctx, d.o.Stack, "", func([]string) (runtime.Report, error) {
		return d.converge(ctx, p, runtime.OpUp, nil)
	})
}

// Restart implements runtime.Driver.
func (d *Driver) Restart(ctx context.Context, agent string, p runtime.Progress) (runtime.Report, error) {
	return runtime.Converge(ctx, d.o.Stack, agent, func(agents []string) (runtime.Report, error) {
		return d.converge(ctx, p, runtime.OpRestart, agents)
	})
}

// Plan implements runtime.Driver. What Up would refuse before it does anything
// is refused here as well, except for what only doing it finds out.
func (d *Driver) Plan(ctx context.Context, op runtime.Op, agents ...string) (runtime.Plan, error) {
	l, err := d.look(ctx)
	if err == nil {
		err = d.refuseOther(l)
	}
	if err != nil {
		return nil, err
	}
	if op == runtime.OpDown {
		observed, err := d.observed(ctx, l)
		return runtime.NewPlan(runtime.Desired{}, observed, op), err
	}
	if err := runtime.Knows(d.o.Stack, agents); err != nil {
		return nil, err
	}
	c, err := d.prepare(ctx, l)
	if err != nil {
		return nil, err
	}
	return c.plan(op, agents), nil
}

// converge is Up or Restart, of some agents or of all.
func (d *Driver) converge(ctx context.Context, p runtime.Progress, op runtime.Op, agents []string) (report runtime.Report, err error) {
	report = runtime.Report{Volume: d.o.Stack.Volume.Name}
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return report, err
	}
	defer release()
	// A reader may be there: the down counts what it keeps.
	if d.o.Attached && len(l.agents)+len(l.gateways)+len(l.services) == 0 {
		return report, runtime.ErrStopped
	}
	report.Place = d.volumePlace(l.e)
	if l, err = d.settle(ctx, p, l); err != nil {
		return report, err
	}
	for tries := 1; ; tries++ {
		c, err := d.prepare(ctx, l)
		if errors.Is(err, syscall.EADDRINUSE) && c.observed.Serves() {
			err = runtime.StillRuns(err)
		}
		if err != nil {
			return report, err
		}
		report.URL = c.d.o.Stack.Gateway.URL()
		plan := c.plan(op, agents)
		if d.o.Leave {
			plan, report.Left = plan.Leave()
		}
		a := newApply(c, p)
		a.restless = d.o.Restless && tries > 1
		err = a.run(ctx, plan)
		if runtime.TryAgain(err, tries) {
			// The next try is to know the names of images as they were.
			if err := a.restoreImages(context.WithoutCancel(ctx)); err != nil {
				return report, err
			}
			continue
		}
		if err == nil {
			err = a.finish(ctx, plan.Changes())
		}
		report.Created, report.Unsettled = a.volumeMade, a.unsettled
		if err != nil {
			undone := a.rollBack(ctx)
			return report, runtime.GivenUp(ctx, err, runtime.WayBack{
				Closed: a.committed, Err: undone, Runs: !a.committed && c.observed.Serves(),
			})
		}
		report.Changed, report.Replaced, report.Filled = plan.Changes(), a.replaced, runtime.Filled(plan, c.running())
		return report, nil
	}
}

// begin is how every change begins; what runs must not be another copy's.
func (d *Driver) begin(ctx context.Context, p runtime.Progress) (l look, release func(), err error) {
	return claim.Change(ctx, d.place.lock, p, func() (look, error) {
		l, err := d.look(ctx)
		if err == nil {
			d.warn(l.e.warnings...)
			err = d.refuseOther(l)
		}
		if err == nil {
			err = d.removeReaders(ctx, l)
		}
		return l, err
	})
}

// course is what an up has to know before it does anything.
type course struct {
	d        *Driver // with the port that its stack has
	look     look
	target   target
	observed runtime.Observed
	volume   volumeState
	missing  map[string]bool // images that the engine does not have
}

// prepare checks everything that an up depends on, and changes nothing.
func (d *Driver) prepare(ctx context.Context, l look) (c course, err error) {
	c.look = l
	if c.d, err = d.onItsPort(l); err != nil {
		return c, err
	}
	loaded, err := c.d.load(ctx)
	if err != nil {
		return c, err
	}
	d.warn(loaded.Warnings...) // here only: what looks at volumes has nothing to do with them
	if c.volume, err = d.checkVolume(ctx, l, loaded.external(d.o.Stack.Volume.Name)); err != nil {
		return c, err
	}
	if c.target, err = c.d.target(loaded, c.volume.id, l.e.facts.Arch); err != nil {
		return c, err
	}
	for _, v := range c.target.volumes {
		if err := c.d.checkDeclared(ctx, l.e, v); err != nil {
			return c, err
		}
	}
	if c.missing, err = c.target.missing(ctx, l.e); err != nil {
		return c, err
	}
	if err := c.look.hear(ctx, d.o.GatewayTimeout, true); err != nil {
		return c, err
	}
	if c.observed, err = d.observed(ctx, c.look); err != nil {
		return c, err
	}
	if c.observed.Gateway != c.target.address {
		ln, err := claim.Listen(c.d.o.Stack.Gateway)
		if err != nil {
			return c, c.d.nameContainer(ctx, l.e, err)
		}
		if err := ln.Close(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// checkDeclared refuses a volume that is declared external and is not there, and
// one that is there and somebody else's. That of the conversations is looked at
// by checkVolume.
func (d *Driver) checkDeclared(ctx context.Context, e *engine, v declared) error {
	if v.name == d.o.Stack.Volume.Name && !v.external {
		return nil
	}
	found, err := e.inspectVolume(ctx, v.name)
	switch {
	case errors.Is(err, errNotFound) && v.external:
		return fault.New(fault.Environment, "make it with `docker volume create`, or take external: true away", "the volume %q is declared external, and is not there", v.name)
	case errors.Is(err, errNotFound):
		return d.checkOldName(ctx, e, v)
	case err != nil || v.external || d.ours(found.Labels):
		return err
	}
	return fault.New(fault.Usage,
		fmt.Sprintf("give yours another name in compose.override.yaml: volumes: {%s: {name: %s_%s}}; or say external: true to use that one", v.key, v.name, d.o.Stack.ID),
		"the volume %q is not of this project (it has no label %s of it), and flisk does not touch it", v.name, labelProject)
}

// checkOldName refuses to begin with an empty volume where the project has one
// from before the name of its Compose project, and so those of its volumes, had a
// part of its id.
func (d *Driver) checkOldName(ctx context.Context, e *engine, v declared) error {
	s := d.o.Stack
	if v.name != s.ContainerProject()+"_"+v.key {
		return nil // the override names it
	}
	old := s.InstanceName() + "_" + v.key
	found, err := e.inspectVolume(ctx, old)
	switch {
	case errors.Is(err, errNotFound):
		return nil
	case err != nil || !d.ours(found.Labels):
		return err
	}
	return fault.New(fault.Usage,
		fmt.Sprintf("keep the volume in compose.override.yaml: volumes: {%s: {name: %s}}; or remove it: docker volume rm %s", v.key, old, old),
		"the data of the volume %q is in %q, and the project's volumes are called %q now", v.key, old, s.ContainerProject()+"_…")
}

// missing are the images of the gateway and of services that the engine does not
// have.
func (t target) missing(ctx context.Context, e *engine) (map[string]bool, error) {
	missing := map[string]bool{}
	for _, s := range append(slices.Clone(t.services), t.gateway) {
		_, ok, err := e.inspectImage(ctx, s.Image)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing[s.Image] = true
		}
	}
	return missing, nil
}

// plan is that of OpUp or OpRestart. A container that has stopped and does not
// come back by itself is cleared away: its place is then empty like any other.
func (c course) plan(op runtime.Op, agents []string) runtime.Plan {
	var stops runtime.Plan
	for _, agent := range c.look.agents {
		if !agent.runs() {
			stops = append(stops, runtime.Step{Do: runtime.Stop, Agent: agent.Agent, Replica: agent.Replica, Generation: agent.Generation, Cause: "its container has stopped"})
		}
	}
	plan := runtime.NewPlan(c.target.desired(), c.running(), op, agents...)
	return plan.AfterBuilds(c.pulls(plan), stops, c.mends(plan))
}

// running is what is observed without the agents' containers that have stopped.
func (c course) running() runtime.Observed {
	observed := c.observed
	observed.Replicas = slices.DeleteFunc(slices.Clone(observed.Replicas), func(r runtime.Replica) bool {
		at, ok := c.look.at(runtime.Ref{Agent: r.Agent, Replica: r.Name, Generation: r.Generation})
		return !ok || !at.runs()
	})
	return observed
}

// pulls get the images that a plan needs and the engine does not have.
func (c course) pulls(plan runtime.Plan) runtime.Plan {
	var pulls runtime.Plan
	for _, s := range plan {
		w := c.target.gateway
		switch s.Do {
		case runtime.StartService:
			w = c.target.service(s.Service)
		case runtime.StartGateway, runtime.SwapGateway:
		default:
			continue
		}
		if c.missing[w.Image] {
			pulls = append(pulls, runtime.Step{Do: runtime.Pull, Service: w.Name, Cause: fmt.Sprintf("the engine has no image %q", w.Image)})
		}
	}
	return pulls
}

// onItsPort is the driver with the port that its stack has.
func (d *Driver) onItsPort(l look) (*Driver, error) {
	if d.o.Stack.Instance == "" {
		return d, nil
	}
	known, err := d.memory().Read()
	if err != nil {
		return nil, err
	}
	running := ""
	if g, ok := l.gateway(); ok {
		running = g.address()
	}
	on := &Driver{o: d.o, place: d.place, engine: l.e, warned: d.warned}
	on.o.Stack.Gateway.Port, err = claim.InstancePort(d.o.Stack, running, known.Port)
	return on, err
}
