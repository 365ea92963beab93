package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
)

// A container can run and yet be of no use: somebody paused it, or took it off the
// project's network, or it is a gateway that answers nobody. The engine calls all of
// that "running", so it is looked for here, told as the cause, and mended by an up.

// trouble says why a container that runs cannot do its work, as far as the engine
// knows; "" when it knows of nothing.
func (c seen) trouble() string {
	mode := c.HostConfig.NetworkMode // the network that it was made for
	switch {
	case !c.runs() || c.State.Restarting:
		return ""
	case c.State.Paused:
		return "it is paused"
	case !mode.IsUserDefined() || c.NetworkSettings == nil:
		return ""
	}
	on := c.NetworkSettings.Networks[string(mode)]
	switch {
	case on == nil:
		return fmt.Sprintf("it is not on the network %q any more", mode)
	case !c.hasNames(on.Aliases):
		return fmt.Sprintf("it has lost its name on the network %q", mode)
	}
	return ""
}

// hasNames reports whether others find a container by what it is called there. It
// loses that when it is taken off the network and joined again by hand.
func (c seen) hasNames(names []string) bool {
	return c.service() == stack.GatewayService || // nobody asks for it
		slices.Contains(names, c.service()) && (c.Generation == 0 || slices.Contains(names, alias(c.Ref)))
}

// hear finds out whether the gateway that runs serves, within a time, and by the
// live routes where that is asked for: while somebody switches them there may be
// others for a moment. What is wrong with it is l.silent then.
func (l *look) hear(ctx context.Context, within time.Duration, byTheRoutes bool) error {
	l.silent = ""
	g, ok := l.gateway()
	if !ok {
		return nil
	}
	if l.silent = g.trouble(); l.silent != "" || !l.ownRoutes() {
		return nil
	}
	for over := time.Now().Add(within); ; {
		_, routes, err := ask(ctx, g.address(), "-")
		switch {
		case err == nil && (routes == l.live.Routes.Hash() || routes != "" && !byTheRoutes):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(over):
			l.silent = silence(g, routes, err)
			return nil
		}
		if err := pause(ctx, readyPoll); err != nil {
			return err
		}
	}
}

// silence is what is wrong with a gateway that was asked for its routes.
func silence(g seen, routes string, err error) string {
	switch {
	case g.State.Restarting:
		return loopText(g.State, g.RestartCount)
	case err != nil:
		return "it does not answer"
	case routes == "":
		return "what answers on its port has none of the routes"
	}
	return "it goes by other routes than it should"
}

// settle waits for what a down that was killed has told to stop: the engine goes on
// with that, and what still runs may be gone in a moment. It returns what there is
// then.
func (d *Driver) settle(ctx context.Context, p runtime.Progress, l look) (_ look, err error) {
	going, grace, err := d.goingDown(ctx, l)
	if err != nil || !going {
		return l, err
	}
	end := p.Begin("wait for what an interrupted down still stops")
	defer func() { end("", err) }()
	for over := time.Now().Add(grace + stopMargin); going && time.Now().Before(over); {
		if err = pause(ctx, readyPoll); err != nil {
			return l, err
		}
		if l, err = d.look(ctx); err != nil {
			return l, err
		}
		if going, _, err = d.goingDown(ctx, l); err != nil {
			return l, err
		}
	}
	return l, nil
}

// goingDown reports whether a down was interrupted and something of it runs that
// does not do its work, as what drains does, and how long that may take.
func (d *Driver) goingDown(ctx context.Context, l look) (going bool, grace time.Duration, err error) {
	if !l.ending() {
		return false, 0, nil
	}
	note := func(c seen) { going, grace = true, max(grace, graceOf(c.InspectResponse)) }
	if g, ok := l.gateway(); ok && g.trouble() == "" {
		if err := l.hear(ctx, 0, false); err != nil {
			return false, 0, err
		}
		if l.silent != "" {
			note(g)
		}
	}
	for _, c := range l.agents {
		if !c.runs() || c.trouble() != "" {
			continue
		}
		ready, err := healthy(ctx, l.e, c.ID, healthCommand(c.Config.Healthcheck))
		if err != nil {
			return false, 0, err
		}
		if !ready {
			note(c)
		}
	}
	return going, grace, nil
}

// mends are the steps that give what runs back what it needs. What the plan replaces
// anyway, a gateway or a service, is left as it is.
func (c course) mends(plan runtime.Plan) (mends runtime.Plan) {
	has := func(do runtime.Action, service string) bool {
		return slices.ContainsFunc(plan, func(s runtime.Step) bool { return s.Do == do && s.Service == service })
	}
	if c.look.silent != "" && !has(runtime.SwapGateway, "") {
		mends = append(mends, runtime.Step{Do: runtime.Mend, Service: stack.GatewayService, Cause: c.look.silent})
	}
	for _, w := range c.target.services {
		at := slices.IndexFunc(c.look.services, func(s seen) bool { return s.service() == w.Name })
		if at < 0 || has(runtime.StopService, w.Name) {
			continue
		}
		if why := c.look.serviceOf(w.Name).trouble(); why != "" {
			mends = append(mends, runtime.Step{Do: runtime.Mend, Service: w.Name, Cause: why})
		}
	}
	for _, agent := range c.look.agents {
		why := agent.trouble()
		if why != "" && slices.ContainsFunc(c.target.agents, func(a wantedAgent) bool { return a.Agent.Name == agent.Agent }) {
			mends = append(mends, runtime.Step{Do: runtime.Mend, Agent: agent.Agent, Replica: agent.Replica, Generation: agent.Generation, Cause: why})
		}
	}
	return mends
}

// mend does one of those steps.
func (a *apply) mend(ctx context.Context, s runtime.Step) (err error) {
	what := s.Service
	if s.Replica != "" {
		what = s.Replica
	}
	end := a.p.Begin("mend " + what + ": " + s.Cause)
	defer func() { end("", err) }()
	switch {
	case s.Service == stack.GatewayService:
		return a.mendGateway(ctx)
	case s.Service != "":
		return a.release(ctx, a.course.look.serviceOf(s.Service), a.target.attached(a.target.service(s.Service).Service, s.Service))
	}
	c, ok := a.course.look.at(s.Ref())
	if !ok {
		return fmt.Errorf("there is no container of %s", s.Ref())
	}
	names := []string{s.Agent}
	if s.Generation > 0 { // not plain Compose's
		names = append(names, alias(s.Ref()))
	}
	return a.release(ctx, c, a.target.attached(a.target.agent(s.Agent).Service, names...))
}

// release lets a container go on, and puts it on its network under its names.
func (a *apply) release(ctx context.Context, c seen, to []attachment) error {
	err := a.lay(ctx) // the network may be gone, too
	if err == nil && c.State.Paused {
		err = a.e.unpauseContainer(ctx, c.ID)
	}
	if err != nil {
		return err
	}
	now, err := a.e.inspectContainer(ctx, c.ID)
	if c.InspectResponse = now; err != nil || c.trouble() == "" {
		return err
	}
	for _, at := range to {
		if c.NetworkSettings.Networks[at.network] != nil {
			if err := a.e.disconnectNetwork(ctx, at.network, c.ID); err != nil {
				return err
			}
		}
		if err := a.e.connectNetwork(ctx, at, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// mendGateway gives the gateway back what it needs, and starts it again when that
// is not enough.
func (a *apply) mendGateway(ctx context.Context) error {
	l := a.course.look
	g, ok := l.gateway()
	if !ok {
		return errors.New("the gateway went away")
	}
	err := a.release(ctx, g, a.target.attached(a.target.gateway.Service, stack.GatewayService))
	if err != nil || !l.ownRoutes() {
		return err
	}
	if g.trouble() != "" { // else it was waited for already
		served, err := awaitRoutes(ctx, g.address(), l.live.Routes.Hash(), a.d.o.GatewayTimeout, a.noGateway)
		if err != nil || served {
			return err
		}
	}
	if _, err = a.e.stopContainer(ctx, g.ID, a.d.o.Force); err == nil {
		err = a.startOnPort(ctx, g.ID)
	}
	if err == nil {
		err = a.untilServes(ctx, g.ID, g.address())
	}
	return err
}
