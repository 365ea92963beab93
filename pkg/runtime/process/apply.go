package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// apply does the steps of one plan. It decides nothing; it remembers what it
// did, so that a plan that fails can be taken back.
type apply struct {
	d         *Driver
	p         runtime.Progress
	client    *client
	target    target
	restless  bool          // a build whose source changed meanwhile will do
	unsettled bool          // and one did
	before    switchRequest // what served when the plan began
	grace     time.Duration // the longest that a stop may take

	built     bool          // at least one program was not there
	spawned   bool          // the supervisor is this plan's
	started   []runtime.Ref // not committed yet
	switched  bool
	committed bool // something was stopped for good

	gatewayEnded bool          // with everything behind it
	present      []runtime.Ref // what ran when the plan began, and what it started

	mu      sync.Mutex
	ended   map[runtime.Ref]bool // of started: told that it ended by itself
	stopped []runtime.Change     // without the processes that took their places
}

func (d *Driver) newApply(p runtime.Progress, l look) *apply {
	a := &apply{
		d: d, p: p, client: newClient(d.place.control()), grace: longestGrace(d.o.Stack),
		ended: map[runtime.Ref]bool{},
	}
	if l.answer != nil {
		a.before, a.grace = l.answer.Serve, max(a.grace, l.answer.Grace)
		for _, r := range l.answer.Replicas {
			a.present = append(a.present, runtime.Ref{Agent: r.Agent, Replica: r.Name, Generation: r.Generation})
		}
	}
	return a
}

// run does the steps in order and ends at the first that fails, or when ctx
// ends. From the first stop on there is no way back and no giving up: what is
// stopped was replaced or is not wanted, and its drain is not to be cut.
func (a *apply) run(ctx context.Context, plan runtime.Plan) error {
	return plan.Do(a.d.o.Told, func(steps []runtime.Step) error { return a.group(ctx, steps) })
}

// group does neighbouring steps of one action. The ones that wait, wait at the
// same time.
func (a *apply) group(ctx context.Context, steps []runtime.Step) error {
	switch steps[0].Do {
	case runtime.Build:
		return runtime.BuildAll(steps, func(s runtime.Step) error { return a.step(ctx, s) }, func(s runtime.Step) error {
			if !a.built || a.restless {
				return nil
			}
			return a.checkSource(*a.target.agent(s.Agent))
		})
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
		a.spawned, a.switched, a.started, a.committed = false, false, nil, true
		return runtime.Together(steps, func(s runtime.Step) error {
			return a.stop(ctx, a.p.Begin("stop "+a.named(s.Ref())), stopRequest{Ref: s.Ref()})
		})
	}
	for _, s := range steps {
		if err := a.step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (a *apply) step(ctx context.Context, s runtime.Step) error {
	if ctx.Err() != nil && s.Do != runtime.StopGateway {
		return context.Cause(ctx)
	}
	switch s.Do {
	case runtime.Build:
		wanted := a.target.agent(s.Agent)
		built, err := a.build(ctx, *wanted)
		a.unsettled = a.unsettled || built.code != wanted.code
		*wanted = built
		return err
	case runtime.StartGateway:
		return a.startGateway(ctx)
	case runtime.Start:
		return a.start(ctx, s.Ref())
	case runtime.Switch:
		return a.switchRoutes(ctx, s.Serve)
	case runtime.Confirm:
		return a.confirm(ctx, s.Agent)
	case runtime.StopGateway:
		return a.stopGateway(ctx)
	}
	return fmt.Errorf("the process runtime has no action %q", s.Do)
}

func (a *apply) startGateway(ctx context.Context) error {
	end := a.p.Begin("start gateway")
	err := a.d.spawn(ctx)
	a.spawned = err == nil
	end(a.d.o.Stack.Gateway.URL(), err)
	return err
}

func (a *apply) start(ctx context.Context, ref runtime.Ref) error {
	if err := a.client.call(ctx, pathStart, a.target.agent(ref.Agent).start(ref), nil); err != nil {
		return err
	}
	a.started, a.present = append(a.started, ref), append(a.present, ref)
	return nil
}

// named is a replica for people: while another generation of it is there, it is
// the old or the new one.
func (a *apply) named(ref runtime.Ref) string {
	for _, other := range a.present {
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

func (a *apply) await(ctx context.Context, ref runtime.Ref) error {
	end := a.p.Begin("start " + ref.Replica)
	began := time.Now()
	var reply awaitReply
	err := a.client.call(ctx, pathAwait, awaitRequest{ref, a.d.o.ReadyTimeout, !slices.Contains(a.started, ref)}, &reply)
	how := "ready"
	switch {
	case err != nil:
		how = "given up"
	case !reply.Ready:
		how = cmp.Or(reply.Exit, "not ready")
		f := fault.New(fault.Failed, "flisk logs "+ref.Agent+" shows more", "%s %s", ref.Replica, reply.Detail)
		f.Detail, f.Agents = strings.Join(reply.Log, "\n"), []string{ref.Agent}
		err = f
	}
	if reply.Exit != "" {
		a.mu.Lock()
		a.ended[ref] = true
		a.mu.Unlock()
	}
	end(how+" after "+runtime.Span(time.Since(began)), err)
	return err
}

func (a *apply) switchRoutes(ctx context.Context, serve []runtime.Ref) error {
	a.switched = true // also when the answer gets lost
	return a.client.call(ctx, pathSwitch, routesOf(a.d.o.Stack, serve), nil)
}

// confirm asks for an agent's readiness as a client does, until it is answered
// by the table that the gateway has now.
func (a *apply) confirm(ctx context.Context, agent string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.d.o.ReadyTimeout,
		fault.New(fault.Failed, "flisk logs "+agent+" may show why", "agent %q does not answer ready through the gateway", agent))
	defer cancel()
	ask := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy: it is this machine
	tick := time.NewTicker(gonePoll)
	defer tick.Stop()
	for {
		var now observeReply
		if err := a.client.call(ctx, pathObserve, nil, &now); err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, now.URL+turn.AgentReadyPath(agent), nil)
		if err != nil {
			return err
		}
		if resp, err := ask.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK && resp.Header.Get(turn.HeaderRoutes) == now.Routes {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// stop takes a replica through its drain, and tells end how that went. Only
// Force makes it shorter, never ctx.
func (a *apply) stop(ctx context.Context, end func(string, error), request stopRequest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stack.DriverTimeout(a.grace))
	defer cancel()
	began := time.Now()

	select {
	case <-a.d.o.Force:
		request.Force = true
	default:
	}
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-over:
		case <-a.d.o.Force:
			forced := request
			forced.Force = true
			_ = a.client.call(ctx, pathStop, forced, nil) // the first call sees the outcome
		}
	})
	var reply stopReply
	err := a.client.call(ctx, pathStop, request, &reply)
	close(over)
	watch.Wait()

	detail := reply.Exit + " after " + runtime.Span(time.Since(began))
	if reply.Killed {
		detail = "killed after " + runtime.Span(time.Since(began)) + "; what it had not committed is lost"
	}
	end(detail, err)
	if err == nil && reply.Last.PID > 0 {
		a.mu.Lock()
		a.stopped = append(a.stopped, runtime.Change{Agent: request.Agent, Replica: request.Replica, Before: reply.Last, Exit: reply.How})
		a.mu.Unlock()
	}
	return err
}

// replacements are the processes that were stopped and have others in their
// places, with those.
func (a *apply) replacements(ctx context.Context) ([]runtime.Change, error) {
	if len(a.stopped) == 0 {
		return nil, nil
	}
	var now observeReply
	if err := a.client.call(context.WithoutCancel(ctx), pathObserve, nil, &now); err != nil {
		return nil, err
	}
	var out []runtime.Change
	for _, r := range now.Replicas {
		for _, c := range a.stopped {
			if c.Agent == r.Agent && c.Replica == r.Name && r.Serving {
				c.After = runtime.Process{PID: r.PID, Start: r.Start}
				out = append(out, c)
			}
		}
	}
	return out, nil
}

func (a *apply) stopGateway(ctx context.Context) error {
	end := a.p.Begin("stop gateway")
	err := a.d.shutDown(context.WithoutCancel(ctx), a.client)
	a.gatewayEnded = err == nil
	end("", err)
	return err
}

// shutDown ends the supervisor and waits until it is gone; it removes the run
// directory itself.
func (d *Driver) shutDown(ctx context.Context, c *client) error {
	id, ok := d.place.supervisor()
	if !ok {
		return errGone
	}
	if err := c.call(ctx, pathShutdown, stopRequest{}, nil); err != nil && !unreachable(err) {
		return err
	}
	gone, err := d.waitGone(ctx, id, time.Now().Add(gatewayTimeout))
	if err == nil && !gone {
		err = d.endSupervisor(ctx, id)
	}
	return err
}

// rollBack stops what the failed plan started, and gives the gateway back what
// served before. The volume is not touched.
func (a *apply) rollBack(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if a.switched && !a.spawned {
		errs = append(errs, a.client.call(ctx, pathSwitch, a.before, nil))
	}
	for _, ref := range a.started {
		end := func(string, error) {} // of one that ended by itself nobody asks how it stopped
		if !a.ended[ref] {
			end = a.p.Begin("stop " + a.named(ref))
		}
		errs = append(errs, a.stop(ctx, end, stopRequest{Ref: ref, Grace: rollbackGrace}))
	}
	if a.spawned {
		errs = append(errs, a.stopGateway(ctx))
	}
	return errors.Join(errs...)
}
