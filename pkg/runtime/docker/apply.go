package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// apply does the steps of one plan. It decides nothing; it remembers what it
// did, so that a plan that fails can be taken back.
type apply struct {
	d      *Driver
	e      *engine
	p      runtime.Progress
	course course
	target target

	restless  bool // a build whose source changed meanwhile will do
	unsettled bool // and one did

	// What there was when the plan began. Everything else is this plan's, also
	// what it does not know of because an answer got lost.
	before map[string]bool // ids of containers
	wires  map[string]bool // ids of networks
	static []byte          // of the gateway that runs

	built     bool // at least one image was not there
	committed bool // something was stopped for good: there is no way back
	switched  bool // live routes were written
	laid      bool // network and volumes are there
	volume    volumeState
	rest      []tagged // names of images that this plan took away from others

	swapped    *seen             // the gateway that was stopped for another one
	made       map[string]string // containers of services that are made and not started, by service
	paused     []seen            // services that were stopped for others, in the order of their stops
	volumeMade bool

	mu       sync.Mutex
	running  map[runtime.Ref]string  // containers of agents, by generation
	started  map[runtime.Ref]opening // of those, what this plan starts
	replaced []runtime.Change
}

// opening is a generation that is being started: since when, and how its end is
// told, once it is ready or will not be.
type opening struct {
	began time.Time
	end   func(detail string, err error)
}

// tagged is a name and what had it; "" when nobody did.
type tagged struct{ tag, was string }

func newApply(c course, p runtime.Progress) *apply {
	a := &apply{
		d: c.d, e: c.look.e, p: p, course: c, target: c.target, volume: c.volume,
		before: map[string]bool{}, made: map[string]string{}, wires: map[string]bool{}, running: map[runtime.Ref]string{}, started: map[runtime.Ref]opening{},
	}
	for _, container := range c.look.everything() {
		a.before[container.ID] = true
	}
	for _, n := range c.look.networks {
		a.wires[n.ID] = true
	}
	for _, agent := range c.look.agents {
		a.running[agent.Ref] = agent.ID
	}
	return a
}

// run does the steps in order and ends at the first that fails, or when ctx
// ends. From the first stop on there is no way back and no giving up: what is
// stopped was replaced or is not wanted, and its drain is not to be cut.
func (a *apply) run(ctx context.Context, plan runtime.Plan) error {
	return plan.Do(a.d.o.Told, func(steps []runtime.Step) error { return a.group(ctx, steps) })
}

// group does neighbouring steps of one action.
func (a *apply) group(ctx context.Context, steps []runtime.Step) error {
	switch steps[0].Do {
	case runtime.Build:
		return runtime.BuildAll(steps, func(s runtime.Step) error { return a.step(ctx, s) }, func(s runtime.Step) error {
			if !a.built || a.restless {
				return nil
			}
			return a.checkSource(*a.target.agent(s.Agent))
		})
	case runtime.Start:
		if err := a.lay(ctx); err != nil {
			return err
		}
		return runtime.Together(steps, func(s runtime.Step) error { return a.start(ctx, s.Ref()) })
	case runtime.Await:
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		return runtime.Together(steps, func(s runtime.Step) error {
			err := a.await(ctx, s.Ref())
			if err != nil {
				cancel(err) // the others' waiting is for nothing
			}
			return context.Cause(ctx)
		})
	case runtime.Stop:
		a.committed = a.committed || slices.ContainsFunc(steps, func(s runtime.Step) bool { return a.runs(s.Ref()) })
		return runtime.Together(steps, func(s runtime.Step) error { return a.stop(ctx, s.Ref()) })
	}
	for _, s := range steps {
		if err := a.step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// runs reports whether a generation had a process when the plan began.
func (a *apply) runs(ref runtime.Ref) bool {
	c, ok := a.course.look.at(ref)
	return ok && c.runs()
}

func (a *apply) step(ctx context.Context, s runtime.Step) error {
	if ctx.Err() != nil && s.Do != runtime.StopGateway && s.Do != runtime.StopService {
		return context.Cause(ctx)
	}
	switch s.Do {
	case runtime.Build:
		wanted := a.target.agent(s.Agent)
		built, err := a.build(ctx, *wanted)
		a.unsettled = a.unsettled || built.code != wanted.code
		*wanted = built
		return err
	case runtime.Pull:
		return a.pull(ctx, a.target.serviceOrGateway(s.Service).Service)
	case runtime.StartService:
		return a.startService(ctx, a.target.service(s.Service))
	case runtime.StopService:
		return a.stopService(ctx, s.Service)
	case runtime.Mend:
		return a.mend(ctx, s)
	case runtime.StartGateway:
		return a.startGateway(ctx)
	case runtime.SwapGateway:
		return a.swapGateway(ctx)
	case runtime.Switch:
		return a.switchRoutes(ctx, s.Serve)
	case runtime.Confirm:
		return a.confirm(ctx, s.Agent)
	case runtime.StopGateway:
		return a.stopGateway(ctx)
	}
	return fmt.Errorf("the docker runtime has no action %q", s.Do)
}

// start makes and starts a generation. Its name is that of its place, unless
// somebody has that still; then it is renamed when that one is gone.
func (a *apply) start(ctx context.Context, ref runtime.Ref) (err error) {
	o := opening{time.Now(), a.p.Begin("start " + ref.Replica)}
	defer func() {
		if err != nil {
			o.end("", err)
		}
	}()
	name := a.d.replicaName(ref)
	if a.taken(name) {
		name = a.d.baseName(alias(ref))
	}
	spec, err := a.d.agentContainer(a.target, ref, name)
	if err != nil {
		return err
	}
	a.warnDeaf(*a.target.agent(ref.Agent), nil)
	id, err := a.create(ctx, spec)
	if err == nil {
		err = explained(a.e.startContainer(ctx, id))
	}
	if err == nil {
		a.mu.Lock()
		a.running[ref], a.started[ref] = id, o
		a.mu.Unlock()
	}
	return err
}

// create makes a container and passes the engine's warnings on.
func (a *apply) create(ctx context.Context, spec containerSpec) (string, error) {
	id, warnings, err := a.e.createContainer(ctx, spec)
	for _, w := range warnings {
		a.d.warn(fmt.Sprintf("container %s: %s", spec.name, w))
	}
	if errors.Is(err, errConflict) {
		err = fault.New(fault.Environment, "docker rename "+spec.name+" NAME, or docker rm "+spec.name+" if nothing needs it",
			"a container that is not of this project has the name %q: %w", spec.name, err)
	}
	return id, explained(err)
}

// replicaName is what the container at a place is called.
func (d *Driver) replicaName(ref runtime.Ref) string { return d.baseName(ref.Replica) }

// taken reports whether a container of the project had a name when the plan
// began.
func (a *apply) taken(name string) bool {
	return slices.ContainsFunc(a.course.look.everything(), func(c seen) bool { return c.name() == name })
}

// freeName is a name, or one made of it that no container of the project has:
// what was killed in the middle of a replacement may have left several.
func (a *apply) freeName(name string) string {
	for a.taken(name) {
		name += "-next"
	}
	return name
}

// named is a replica for people: while another generation of it is there, it is
// the old or the new one.
func (a *apply) named(ref runtime.Ref) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other := range a.running {
		switch {
		case other.Agent != ref.Agent || other.Replica != ref.Replica:
		case other.Generation > ref.Generation:
			return ref.Replica + " (old)"
		case other.Generation < ref.Generation:
			return ref.Replica + " (new)"
		}
	}
	return ref.Replica
}

// readyPoll is the pause between two questions whether an agent is ready.
const readyPoll = 20 * time.Millisecond

// await waits until a generation answers in its own container, which needs no
// routes. Its exit is the end of the waiting: whatever the engine does about it,
// it would exit again.
func (a *apply) await(ctx context.Context, ref runtime.Ref) error {
	a.mu.Lock()
	id := a.running[ref]
	o, fresh := a.started[ref]
	delete(a.started, ref) // its end is told here
	a.mu.Unlock()
	if !fresh {
		o = opening{time.Now(), a.p.Begin("start " + ref.Replica)}
	}
	how, err := a.untilReady(ctx, ref, id, fresh)
	o.end(how+" after "+runtime.Span(time.Since(o.began)), err)
	return err
}

// lastLog is how many lines of a log belong to the error of an agent that does
// not get ready.
const lastLog = 20

// exitTime is how long an agent that ended, and that the engine has started again
// already, is waited for to end again, which tells how it does.
const exitTime = 2 * time.Second

func (a *apply) untilReady(ctx context.Context, ref runtime.Ref, id string, fresh bool) (how string, err error) {
	within := time.Now().Add(a.d.o.ReadyTimeout)
	restarts := 0
	var again time.Time
	for first := true; ; first = false {
		c, err := a.e.inspectContainer(ctx, id)
		if err != nil {
			return "given up", err
		}
		if first && !fresh {
			restarts = c.RestartCount // only an exit from now on counts
		}
		if fresh && !c.State.Running || c.State.Status == "exited" || c.RestartCount > restarts || fresh && c.State.Restarting {
			if c.State.Running && !c.State.Restarting { // again, and says nothing of how it ended
				if again.IsZero() {
					again = time.Now()
				}
				if time.Since(again) < exitTime {
					if err := pause(ctx, readyPoll); err != nil {
						return "given up", err
					}
					continue
				}
				return "ended", a.unready(ctx, ref, id, "ended before it was ready, and the engine started it again")
			}
			exit := exitOf(c.State.ExitCode).String()
			return exit, a.unready(ctx, ref, id, "ended before it was ready ("+exit+")")
		}
		if c.State.Running && !c.State.Restarting {
			ready, err := healthy(ctx, a.e, id, healthCommand(c.Config.Healthcheck))
			if err != nil {
				return "given up", err
			}
			if ready {
				return "ready", nil
			}
		}
		if time.Now().After(within) {
			return "not ready", a.unready(ctx, ref, id, "was not ready within "+a.d.o.ReadyTimeout.String())
		}
		if err := pause(ctx, readyPoll); err != nil {
			return "given up", err
		}
	}
}

// unready is the fault of an agent that does not get ready, with what it wrote.
func (a *apply) unready(ctx context.Context, ref runtime.Ref, id, what string) error {
	f := fault.New(fault.Failed, "flisk logs "+ref.Agent+" shows more", "%s %s", ref.Replica, what)
	f.Detail, f.Agents = strings.Join(lastLines(context.WithoutCancel(ctx), a.e, id, lastLog), "\n"), []string{ref.Agent}
	return f
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// stop takes a generation through its drain and removes its container. Only
// Force makes it shorter, never ctx.
func (a *apply) stop(ctx context.Context, ref runtime.Ref) error {
	c, ok := a.course.look.at(ref)
	if !ok {
		return fmt.Errorf("there is no container of %s", ref)
	}
	if !c.runs() {
		return a.d.remove(context.WithoutCancel(ctx), a.e, c)
	}
	end := a.p.Begin("stop " + a.named(ref))
	how, err := a.d.halt(ctx, a.e, c)
	end(how.String(), err)
	if err != nil {
		return err
	}
	a.d.warnKilled(ref, how)
	a.mu.Lock()
	a.replaced = append(a.replaced, runtime.Change{Agent: ref.Agent, Replica: ref.Replica, Before: c.process(), Exit: how.exit})
	a.mu.Unlock()
	return nil
}

// finish gives everything its name, and ends what only the way back needed: of
// this plan, or of one that was killed.
func (a *apply) finish(ctx context.Context, changed bool) error {
	ctx = context.WithoutCancel(ctx)
	l := a.course.look
	if changed {
		var err error
		if l, err = a.d.look(ctx); err != nil {
			return err
		}
	}
	if err := a.finishReplaced(l); err != nil {
		return err
	}
	if err := a.finishServices(ctx, l); err != nil {
		return err
	}
	if err := a.d.nameAgents(ctx, l); err != nil {
		return err
	}
	for i, c := range l.gateways {
		if i > 0 && !c.runs() { // the one that was there before
			if err := l.e.removeContainer(ctx, c.ID); err != nil {
				return err
			}
		}
	}
	if g, ok := l.gateway(); ok {
		if err := l.rename(ctx, g, a.d.gatewayName()); err != nil {
			return err
		}
		for _, c := range l.agents {
			if l.live.serves(c.Ref) {
				if err := a.d.remember(ctx, l, a.volume, a.target.volumes, c.ID); err != nil {
					return err
				}
				break
			}
		}
	}
	if changed {
		a.d.removeUnused(ctx, a.target, l)
	}
	if l.live != nil && l.live.Ending { // a down was killed before its first stop
		goesOn := *l.live
		goesOn.Ending = false
		return a.d.place.writeLive(goesOn)
	}
	return nil
}

// finishReplaced completes the changes with the processes that took over.
func (a *apply) finishReplaced(l look) error {
	var out []runtime.Change
	for _, c := range a.replaced {
		for _, now := range l.agents {
			if now.Agent == c.Agent && now.Replica == c.Replica && l.live.serves(now.Ref) {
				c.After = now.process()
				out = append(out, c)
			}
		}
	}
	a.replaced = out
	return nil
}

// rename gives a container its name, which is free or its own.
func (l look) rename(ctx context.Context, c seen, name string) error {
	if c.name() == name || c.Config.Labels[composeVersion] != madeBy {
		return nil
	}
	return l.e.renameContainer(ctx, c.ID, name)
}
