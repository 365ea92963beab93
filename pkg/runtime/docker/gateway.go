package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/stack"
)

// lay makes what containers are put on: the network and the volumes. It does so
// once in a plan.
func (a *apply) lay(ctx context.Context) error {
	if a.laid {
		return nil
	}
	present := map[string]bool{}
	for _, n := range a.course.look.networks {
		present[n.Name] = true
	}
	if n := a.target.network; !present[n.name] {
		if _, err := a.e.createNetwork(ctx, n.name, n.labels); err != nil {
			return a.explainNetwork(ctx, n.name, err)
		}
	}
	for _, v := range a.target.volumes {
		checkpoints := v.name == a.d.o.Stack.Volume.Name
		if v.external || checkpoints && a.volume.exists {
			continue
		}
		if err := a.d.makeVolume(ctx, a.e, v); err != nil {
			return err
		}
		a.volumeMade = a.volumeMade || checkpoints
	}
	a.laid = true
	return nil
}

// makeVolume makes a volume where there is none; one that is there must be this
// instance's own.
func (d *Driver) makeVolume(ctx context.Context, e *engine, v declared) error {
	made, err := e.createVolume(ctx, v.name, v.labels)
	if err == nil && !d.ours(made.Labels) {
		err = notOurs(v.name)
	}
	return err
}

// explainNetwork says which networks could be removed where an engine has no
// subnet left. None is: they are somebody's.
func (a *apply) explainNetwork(ctx context.Context, name string, err error) error {
	switch {
	case errors.Is(err, errConflict):
		return fault.New(fault.Environment, fmt.Sprintf("docker network rm %s, if nothing needs it", name), "there is a network %q that is not of this project: %w", name, err)
	case !errors.Is(err, errNoSubnet):
		return err
	}
	f := fault.New(fault.Environment, "remove networks that nothing uses: docker network ls, docker network rm NAME", "%w", err)
	if unused, err := a.e.unusedNetworks(ctx); err == nil && len(unused) > 0 {
		f.Hint = "remove one that nothing uses: docker network rm NAME"
		for _, n := range unused {
			f.Detail += n + "\n"
		}
	}
	return f
}

// gatewayName is what the gateway's container is called.
func (d *Driver) gatewayName() string { return d.baseName(stack.GatewayService) + "-1" }

// startGateway starts a gateway where none runs. It holds the requests for agents
// until it has routes to them.
func (a *apply) startGateway(ctx context.Context) error {
	end := a.p.Begin("start gateway")
	err := a.lay(ctx)
	if err == nil {
		err = a.writeStatic()
	}
	if err == nil {
		err = a.d.place.writeLive(live{Dir: a.target.dir, Routes: routesTo(a.d.o.Stack, nil)})
	}
	for _, c := range a.course.look.gateways { // one that has stopped
		if err == nil {
			err = a.e.removeContainer(ctx, c.ID)
		}
	}
	if err == nil {
		var id string
		if id, err = a.makeGateway(ctx, a.d.gatewayName()); err == nil {
			err = a.startOnPort(ctx, id)
		}
	}
	end(a.d.o.Stack.Gateway.URL(), err)
	return err
}

func (a *apply) makeGateway(ctx context.Context, name string) (id string, err error) {
	spec, err := a.d.serviceContainer(a.target, a.target.gateway, name)
	if err != nil {
		return "", err
	}
	return a.create(ctx, spec)
}

// startOnPort starts the gateway, and says who has its port when somebody has.
func (a *apply) startOnPort(ctx context.Context, id string) error {
	err := a.e.startContainer(ctx, id)
	if !errors.Is(err, errPortTaken) {
		return err
	}
	ln, holder := claim.Listen(a.d.o.Stack.Gateway)
	if holder != nil {
		return a.d.nameContainer(ctx, a.e, holder)
	}
	// The engine forwards it without a listener that could be seen here.
	_ = ln.Close() // it was only a question
	return a.d.nameContainer(ctx, a.e, fault.New(fault.Environment, "stop that (docker ps shows its container), or "+claim.OtherPort,
		"port %d is in use: %w", a.d.o.Stack.Gateway.Port, err))
}

// writeStatic puts down what the gateway starts with, and keeps what was there.
func (a *apply) writeStatic() error {
	was, err := os.ReadFile(a.d.place.static())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.static = was
	if err := a.d.place.makeShared(); err != nil {
		return err
	}
	return a.d.place.replace(a.d.place.static(), a.target.static)
}

// swapGateway stops the gateway, its requests first, and starts it with other
// settings: in another container, which is made before the old one stops. The old
// one stays until the plan has come to its end.
func (a *apply) swapGateway(ctx context.Context) error {
	old, ok := a.course.look.gateway()
	if !ok {
		return errors.New("the gateway went away")
	}
	end := a.p.Begin("start gateway again")
	err := a.lay(ctx)
	if err == nil {
		err = a.writeStatic()
	}
	if err == nil && !a.course.look.ownRoutes() { // plain Compose's had its own
		err = a.d.place.writeLive(live{Dir: a.target.dir, Routes: routesTo(a.d.o.Stack, nil)})
	}
	var id string
	if err == nil {
		id, err = a.makeGateway(ctx, a.freeName(a.d.gatewayName()))
	}
	if err != nil {
		err = errors.Join(err, a.restoreStatic()) // the old one goes on, and reads it when it starts again
	} else {
		a.swapped = &old
		_, err = a.e.stopContainer(ctx, old.ID, a.d.o.Force)
	}
	if err == nil {
		err = a.startOnPort(ctx, id)
	}
	if err == nil {
		err = a.untilServes(ctx, id, a.target.address)
	}
	end(a.d.o.Stack.Gateway.URL(), err)
	return err
}

// untilServes waits until a gateway that was started answers by the live routes as
// they are. Its end is the end of the waiting.
func (a *apply) untilServes(ctx context.Context, id, address string) error {
	l, err := a.d.place.readLive()
	if err != nil || l == nil {
		return cmp.Or(err, fmt.Errorf("there are no live routes in %q", a.d.place.routes()))
	}
	for over := time.Now().Add(routesAgain * a.d.o.GatewayTimeout); ; {
		if seen, err := awaitRoutes(ctx, address, l.Routes.Hash(), 0, nil); err != nil || seen {
			return err
		}
		c, err := a.e.inspectContainer(ctx, id)
		switch {
		case err != nil:
			return err
		case !c.State.Running || c.State.Restarting || c.RestartCount > 0:
			return a.gatewayFailed(ctx, id, "ended")
		case time.Now().After(over):
			return a.gatewayFailed(ctx, id, "does not serve its routes")
		}
		if err := pause(ctx, readyPoll); err != nil {
			return err
		}
	}
}

// Multiples of Options.GatewayTimeout.
const (
	routesAgain = 3 // to start, and to read the routes
	reachTime   = 2 // to reach an agent that is ready
)

// switchRoutes lets exactly these generations serve, and returns when the gateway
// answers by that: no request reaches another one any more.
func (a *apply) switchRoutes(ctx context.Context, serve []runtime.Ref) error {
	a.switched = true
	return a.route(ctx, live{Dir: a.target.dir, Routes: routesTo(a.d.o.Stack, serve)}, a.target.address)
}

// route writes a table and waits for it. Where the engine is in a virtual machine,
// the gateway may never hear of a change: then it is started again, and reads it.
func (a *apply) route(ctx context.Context, l live, address string) error {
	if err := a.d.place.writeLive(l); err != nil {
		return fault.New(fault.Environment, "FLISK_HOME says where they are", "cannot write the live routes: %w", err)
	}
	hash := l.Routes.Hash()
	seen, err := awaitRoutes(ctx, address, hash, a.d.o.GatewayTimeout, a.noGateway)
	if err != nil || seen {
		return err
	}
	now, err := a.d.look(ctx)
	if err != nil {
		return err
	}
	if len(now.gateways) == 0 {
		return gatewayRemoved()
	}
	g, step := now.gateways[0], "start gateway again, which does not see its routes change"
	if !g.runs() { // a down that was killed may have told it to
		step = "start gateway again, which has stopped"
	}
	end := a.p.Begin(step)
	if _, err = a.e.stopContainer(ctx, g.ID, a.d.o.Force); err == nil {
		err = a.startOnPort(ctx, g.ID)
	}
	if err == nil {
		err = a.untilServes(ctx, g.ID, address)
	}
	end("", err)
	return err
}

// noGateway reports whether none runs, and none will without help: then nobody
// need be waited for.
func (a *apply) noGateway(ctx context.Context) (bool, error) {
	l, err := a.d.look(ctx)
	_, runs := l.gateway()
	return err == nil && !runs, err
}

// errNoGateway says that there is no container of the gateway any more.
var errNoGateway = errors.New("the gateway's container was removed, and not by flisk")

func gatewayRemoved() error {
	return fault.New(fault.Failed, "flisk up makes another; a flisk dev does so by itself", "%w", errNoGateway)
}

// gatewayFailed is the fault of a gateway that does not serve, with what it wrote.
func (a *apply) gatewayFailed(ctx context.Context, id, what string) error {
	f := fault.New(fault.Failed, "see what compose.override.yaml says of the gateway, if it does; flisk doctor looks at the rest", "the gateway %s", what)
	f.Detail = strings.Join(lastLines(context.WithoutCancel(ctx), a.e, id, lastLog), "\n") + "\n"
	return f
}

// gatewayWords are the last lines that the gateway wrote.
func gatewayWords(ctx context.Context, l look) string {
	var words strings.Builder
	for _, c := range l.gateways {
		for _, line := range lastLines(context.WithoutCancel(ctx), l.e, c.ID, lastLog) {
			words.WriteString(line + "\n")
		}
	}
	return words.String()
}

// awaitRoutes asks until an answer carries the hash. Every answer carries one,
// also that there is no such path. When there is no answer, hopeless may end the
// waiting; it may be nil.
func awaitRoutes(ctx context.Context, address, hash string, within time.Duration, hopeless func(context.Context) (bool, error)) (bool, error) {
	for over := time.Now().Add(within); ; {
		_, routes, err := ask(ctx, address, "-")
		if err == nil && routes == hash {
			return true, nil
		}
		if time.Now().After(over) {
			return false, nil
		}
		if err != nil && hopeless != nil {
			if vain, err := hopeless(ctx); vain || err != nil {
				return false, err
			}
		}
		if err := pause(ctx, readyPoll); err != nil {
			return false, err
		}
	}
}

// lastAnswers is how long the gateway goes on when no agent runs any more: what
// agents said last goes out meanwhile. What is left then are clients that do not
// read, or do not send what they began, and nobody would answer those.
const lastAnswers = 10 * time.Second

// stopGateway stops the gateway, when every agent has ended.
func (a *apply) stopGateway(ctx context.Context) error {
	g, ok := a.course.look.gateway()
	if !ok {
		return nil
	}
	hurry, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-a.d.o.Force:
			cancel()
		case <-hurry.Done():
		}
	}()
	defer func() { cancel(); <-watched }()
	d := &Driver{o: a.d.o, place: a.d.place, engine: a.e, warned: a.d.warned}
	d.o.Force = hurry.Done()
	end := a.p.Begin("stop gateway")
	how, err := d.halt(ctx, a.e, g)
	detail := how.String()
	if how.why == byForce {
		detail = "killed after " + runtime.Span(how.took) + ", when no agent ran any more"
	}
	end(detail, err)
	return err
}
