package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// look is what one look at the engine found of the project.
type look struct {
	e        *engine
	gateways []seen // those that run first; there is one unless something was killed
	agents   []seen // by replica, the oldest generation first
	services []seen // in the order in which they were made
	readers  []seen // containers that look at a volume
	networks []network.Summary
	live     *live          // nil when there is none, or unread says why it is not known
	unread   error          // of the live routes: what serves is then taken for nothing
	silent   string         // why the gateway that runs does not serve, once somebody has listened: see hear
	counted  map[string]int // restarts that the engine does not know of any more, by container
}

// seen is one container of the project.
type seen struct {
	container.InspectResponse
	runtime.Ref // of an agent's
}

func (c seen) service() string { return c.Config.Labels[composeService] }

// name is without the engine's slash.
func (c seen) name() string { return strings.TrimPrefix(c.Name, "/") }

// runs reports whether it has a process, or will have one again without anybody's
// help.
func (c seen) runs() bool { return c.State.Running || c.State.Restarting }

func (c seen) process() runtime.Process {
	return runtime.Process{PID: c.State.Pid, Start: c.State.StartedAt}
}

// look asks the engine what there is of the project.
func (d *Driver) look(ctx context.Context) (look, error) {
	var l look
	var err error
	if l.e, err = d.connected(ctx); err != nil {
		return l, err
	}
	list, err := l.e.listContainers(ctx, d.o.Stack.ID)
	if err != nil {
		return l, err
	}
	list = slices.DeleteFunc(list, func(c container.Summary) bool {
		return !d.ours(c.Labels) || c.Labels[composeOneOff] == "True"
	})
	found := make([]container.InspectResponse, len(list))
	errs, own := make([]error, len(list)), make([]bool, len(list))
	var networks []network.Summary
	var listing error
	var all sync.WaitGroup
	for i, c := range list {
		all.Go(func() {
			if found[i], errs[i] = l.e.inspectContainer(ctx, c.ID); errs[i] == nil {
				own[i], errs[i] = d.isOwn(ctx, l.e, found[i])
			}
		})
	}
	all.Go(func() { networks, listing = l.e.listNetworks(ctx, d.o.Stack.ID) })
	all.Wait()
	if listing != nil {
		return l, listing
	}
	for _, n := range networks {
		if d.ours(n.Labels) {
			l.networks = append(l.networks, n)
		}
	}
	for i, c := range found {
		switch {
		case errors.Is(errs[i], errNotFound): // removed just now
		case errs[i] != nil:
			return l, errs[i]
		case own[i]:
			l.add(seen{c, refOf(c.Config.Labels)})
		}
	}
	l.sort()
	l.live, l.unread = d.place.readLive()
	l.counted, err = d.place.counted()
	return l, err
}

func (l *look) add(c seen) {
	switch {
	case c.Config.Labels[labelReader] != "":
		l.readers = append(l.readers, c)
	case c.Agent != "":
		l.agents = append(l.agents, c)
	case c.service() == stack.GatewayService:
		l.gateways = append(l.gateways, c)
	default:
		l.services = append(l.services, c)
	}
}

func (l *look) sort() {
	slices.SortFunc(l.agents, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.Replica, b.Replica), a.Generation-b.Generation, cmp.Compare(a.Created, b.Created))
	})
	slices.SortFunc(l.services, func(a, b seen) int { return cmp.Compare(a.Created, b.Created) })
	slices.SortStableFunc(l.gateways, func(a, b seen) int {
		switch {
		case a.runs() == b.runs():
			return cmp.Compare(b.Created, a.Created)
		case a.runs():
			return -1
		}
		return 1
	})
}

// gateway is the one that runs.
func (l look) gateway() (seen, bool) {
	if len(l.gateways) > 0 && l.gateways[0].runs() {
		return l.gateways[0], true
	}
	return seen{}, false
}

// everything is all containers of the project.
func (l look) everything() []seen {
	return slices.Concat(l.agents, l.gateways, l.services, l.readers)
}

// at finds the container of a generation.
func (l look) at(ref runtime.Ref) (seen, bool) {
	i := slices.IndexFunc(l.agents, func(c seen) bool { return c.Ref == ref })
	if i < 0 {
		return seen{}, false
	}
	return l.agents[i], true
}

// address is where a gateway listens on this machine.
func (c seen) address() string {
	for _, bindings := range c.HostConfig.PortBindings {
		for _, b := range bindings {
			return net.JoinHostPort(b.HostIP, b.HostPort)
		}
	}
	return ""
}

// ownRoutes reports whether the gateway that runs is one of flisk's, with live
// routes. Plain Compose's finds agents by the names of their services.
func (l look) ownRoutes() bool {
	g, ok := l.gateway()
	return ok && l.live != nil && g.Config.Labels[composeVersion] == madeBy
}

// dir is the project directory that it was started from; "" when nothing says.
func (l look) dir() string {
	if l.ownRoutes() {
		return l.live.Dir
	}
	for _, c := range slices.Concat(l.gateways, l.agents, l.services) {
		return c.Config.Labels[composeDir]
	}
	return ""
}

// serving reports whether the gateway sends requests to a container.
func (l look) serving(c seen) bool {
	if l.ownRoutes() {
		return l.live.serves(c.Ref)
	}
	_, runs := l.gateway()
	return runs && c.Generation == 0
}

// replaced reports whether a younger generation serves at the place of a container.
func (l look) replaced(c seen) bool {
	return slices.ContainsFunc(l.agents, func(other seen) bool {
		return other.Agent == c.Agent && other.Replica == c.Replica && other.Generation > c.Generation && l.serving(other)
	})
}

// Observe implements runtime.Driver.
func (d *Driver) Observe(ctx context.Context) (runtime.Observed, error) {
	l, err := d.look(ctx)
	if err != nil {
		return runtime.Observed{}, err
	}
	if err := l.hear(ctx, askTime, false); err != nil {
		return runtime.Observed{}, err
	}
	return d.observed(ctx, l)
}

func (d *Driver) observed(ctx context.Context, l look) (runtime.Observed, error) {
	o := runtime.Observed{Volume: d.o.Stack.Volume.Name, Place: d.volumePlace(l.e), Dir: l.dir()}
	ending := l.ending()
	if ending {
		o.Stale = append(o.Stale, "it is being stopped right now, or a down was interrupted; flisk down finishes that")
	}
	if g, ok := l.gateway(); ok {
		o.Gateway, o.GatewayPID = g.address(), g.State.Pid
		o.URL, o.Setup = "http://"+o.Gateway, g.Config.Labels[labelSettings]
		if l.ownRoutes() {
			o.Routes = l.live.Routes.Hash()
		}
	} else if ending {
		// It goes last but for services, and needs no words of its own.
	} else if len(l.gateways) > 0 {
		o.Stale = append(o.Stale, "the gateway's container has stopped; flisk up brings it back")
	} else if l.live != nil && len(l.agents)+len(l.services) > 0 {
		o.Stale = append(o.Stale, "the gateway's container was removed; flisk up makes another")
	}
	if l.silent != "" && !ending { // one that drains answers nobody
		o.Stale = append(o.Stale, "the gateway does not serve: "+l.silent+"; flisk up mends that")
	}
	if l.unread != nil {
		o.Stale = append(o.Stale, l.unread.Error()+"; flisk up writes them anew")
	}
	for _, c := range l.services {
		if l.serviceOf(c.service()).ID != c.ID {
			continue
		}
		if why := c.trouble(); why != "" {
			o.Stale = append(o.Stale, "the service "+c.service()+" is of no use: "+why+"; flisk up mends that")
		}
		o.Services = append(o.Services, runtime.Service{Name: c.service(), Settings: c.Config.Labels[labelSettings], Stopped: !c.runs()})
	}
	replicas := make([]runtime.Replica, len(l.agents))
	errs := make([]error, len(l.agents))
	var all sync.WaitGroup
	for i, c := range l.agents {
		all.Go(func() { replicas[i], errs[i] = d.replica(ctx, l, c) })
	}
	all.Wait()
	if err := cmp.Or(errs...); err != nil {
		return o, err
	}
	o.Replicas = append(replicas, l.gone()...)
	slices.SortStableFunc(o.Replicas, func(a, b runtime.Replica) int { return cmp.Compare(a.Name, b.Name) })
	o.Running = slices.ContainsFunc(l.everything(), seen.runs)
	return o, nil
}

// ending reports whether a down goes on, or was interrupted.
func (l look) ending() bool {
	return l.live != nil && l.live.Ending && len(l.everything()) > len(l.readers)
}

// gone are the replicas that the live routes name and that have no container any
// more: whoever removed it was not flisk, which takes what it replaces out of them
// first, and before a down writes into them that there is one. When there is no
// container at all, the whole project was taken down, as by docker compose down,
// and nothing of it should run.
func (l look) gone() (out []runtime.Replica) {
	if _, runs := l.gateway(); l.live == nil || l.live.Ending || runs && !l.ownRoutes() || len(l.everything()) == len(l.readers) {
		return nil
	}
	for _, ref := range l.live.refs() {
		if _, there := l.at(ref); !there {
			out = append(out, runtime.Replica{
				Agent: ref.Agent, Name: ref.Replica, Generation: ref.Generation, State: runtime.Gone,
				Detail: "its container was removed, and not by flisk; flisk up makes another",
			})
		}
	}
	return out
}

// volumePlace is where the volume is, for people.
func (d *Driver) volumePlace(e *engine) string {
	return fmt.Sprintf("Docker volume %s at %s", d.o.Stack.Volume.Name, e.endpoint.Host)
}

func (d *Driver) replica(ctx context.Context, l look, c seen) (runtime.Replica, error) {
	r := runtime.Replica{
		Agent: c.Agent, Name: c.Replica, Generation: c.Generation, Serving: l.serving(c),
		PID: c.State.Pid, Start: c.State.StartedAt, Restarts: c.RestartCount + l.counted[c.ID],
		Code: c.Config.Labels[labelCode], Settings: c.Config.Labels[labelSettings], Named: namedSettings(c.Config),
	}
	r.Started, _ = time.Parse(time.RFC3339Nano, c.State.StartedAt) // the zero time is "not known"

	// Of a container that runs again the engine has forgotten it.
	if !c.State.Running || c.State.Restarting {
		r.Exit = new(exitOf(c.State.ExitCode))
	}
	switch {
	case !c.runs():
		exit := exitOf(c.State.ExitCode).String()
		r.State, r.Detail, r.Stuck = runtime.Failing, "its container has stopped ("+exit+"); flisk up replaces it", true
		if l.replaced(c) {
			r.State, r.Detail, r.Stuck = runtime.Draining, "it has ended ("+exit+"), and its container is to be removed", false
		}
		r.Stopped, _ = time.Parse(time.RFC3339Nano, c.State.FinishedAt)
		return r, nil
	case c.State.Restarting:
		r.State, r.PID = runtime.Failing, 0
		r.Detail = d.loopDetail(ctx, l.e, c)
		return r, nil
	}
	if why := c.trouble(); why != "" {
		r.State, r.Detail, r.Stuck = runtime.Failing, why+"; flisk up mends that", true
		return r, nil
	}
	ready, err := d.isReady(ctx, l, c)
	switch {
	case err != nil:
		return r, err
	case ready && r.Serving && l.silent != "":
		r.State, r.Detail = runtime.Waiting, "it is ready, and gets no requests, because the gateway does not serve; flisk up mends that"
	case ready && r.Serving:
		r.State = runtime.Ready
	case ready && len(l.gateways) == 0:
		r.State, r.Detail = runtime.Waiting, "it is ready, and gets no requests, because there is no gateway; flisk up brings it back"
	case ready:
		r.State, r.Detail = runtime.Waiting, "it is ready, and gets no requests: an up goes on right now, or was killed; flisk up finishes it"
	case l.ending(), l.replaced(c):
		r.State = runtime.Draining
	case c.RestartCount > 0:
		r.State, r.Detail = runtime.Failing, d.loopDetail(ctx, l.e, c)
	default:
		if r.State = runtime.Starting; r.Serving && l.ownRoutes() { // it was ready before it got requests
			r.Detail = "it does not answer; flisk logs " + c.Agent + " may show why, and flisk restart " + c.Agent + " replaces it"
		}
	}
	return r, nil
}

// loopDetail says of an agent that exits again and again how it does, with the
// last line that it wrote.
func (d *Driver) loopDetail(ctx context.Context, e *engine, c seen) string {
	text := loopText(c.State, c.RestartCount)
	if lines := lastLines(ctx, e, c.ID, 1); len(lines) > 0 {
		text += fmt.Sprintf("; the last that it wrote: %q", lines[0])
	}
	return text
}

// loopText says how an agent ends: how the last time went is known as long as the
// engine has not started it again, which makes the code 0.
func loopText(state *container.State, restarts int) string {
	times := "once"
	if restarts > 1 {
		times = fmt.Sprintf("%d times in a row", restarts)
	}
	if !state.Restarting {
		return fmt.Sprintf("it ended, %s; the engine has started it again", times)
	}
	return fmt.Sprintf("it ended (%s), %s; the engine starts it again", exitOf(state.ExitCode), times)
}

// exitOf is how a container's process ended. The engine has one number for both
// kinds of end.
func exitOf(code int) runtime.Exit {
	const signalled = 128
	if code == killedCode {
		return runtime.Exit{Code: -1, Signal: killedCode - signalled}
	}
	return runtime.Exit{Code: code}
}

// isReady asks through the gateway where only this container can answer there,
// and in the container itself otherwise.
func (d *Driver) isReady(ctx context.Context, l look, c seen) (bool, error) {
	if g, ok := l.gateway(); ok && l.silent == "" && l.ownRoutes() && l.live.alone(c.Ref) {
		if status, routes, err := ask(ctx, g.address(), c.Agent); err == nil && routes == l.live.Routes.Hash() {
			return status == 200, nil
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
	return healthy(ctx, l.e, c.ID, healthCommand(c.Config.Healthcheck))
}

// healthCommand is how an agent is asked whether it answers.
func healthCommand(h *container.HealthConfig) []string {
	if h != nil && len(h.Test) > 1 {
		switch h.Test[0] {
		case "CMD":
			return h.Test[1:]
		case "CMD-SHELL":
			return []string{"/bin/sh", "-c", h.Test[1]}
		}
	}
	return []string{"/" + programInImage, "health"}
}

// healthTime bounds one question.
const healthTime = 5 * time.Second

// healthy runs a health check once. A container that stopped meanwhile, or is
// gone, is not healthy.
func healthy(ctx context.Context, e *engine, id string, command []string) (bool, error) {
	asking, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	result, err := e.exec(asking, id, command)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case fault.KindOf(err) == fault.Environment && asking.Err() == nil:
		return false, err // the engine went away
	}
	return err == nil && result.code == 0, nil
}

// lastLines are the last lines of a container's output; what cannot be read is
// not worth an error where one is being told.
func lastLines(ctx context.Context, e *engine, id string, n int) []string {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	var lines []string
	_ = e.logs(ctx, id, logOptions{tail: n}, func(l logLine) error {
		lines = append(lines, l.text)
		return nil
	})
	return lines
}

// refuseOther refuses to change what another copy of the project has running. A
// project whose directory was moved or removed meanwhile is no other copy.
func (d *Driver) refuseOther(l look) error {
	dir := l.dir()
	if dir == "" || !slices.ContainsFunc(l.everything(), seen.runs) {
		return nil
	}
	return runtime.RefuseOther(d.o.Stack, dir)
}

// namedSettings are the settings of an agent as people know them, from what its
// container was made with. Of what is not flisk's own only the names are shown.
func namedSettings(c *container.Config) []runtime.Setting {
	values := map[string]string{}
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	env, err := turn.ParseEnv(func(name string) (string, bool) { v, ok := values[name]; return v, ok })
	if err != nil { // somebody else's
		return nil
	}
	return append(settingsOf(env, values), buildSetting(c.Labels[labelBuild]), projectSetting(c.Labels[composeProject]))
}
