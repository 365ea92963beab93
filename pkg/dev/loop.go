package dev

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// loop is the state of a Run. Its fields belong to the goroutine of run, unless
// they say otherwise.
type loop struct {
	o     Options
	sight *sight // since the last Load
	quiet restless
	held  held
	drain *drains // may be used at once
	drops int     // in a row

	stack   Stack // as last loaded
	running Stack // as last brought up
	reloads int
	health  health
	again   backoff
	ended   time.Time // the last reload
	waits   bool      // Waiting was told
	url     string    // of the gateway
	places  places    // what the looks know

	telling sync.Mutex
}

// lookEvery is how often the loop looks whether what it started is still there.
const lookEvery = 2 * time.Second

func (l *loop) run(ctx context.Context) error {
	l.drain = newDrains()
	if err := l.reload(ctx, Change{}); err != nil {
		return l.end(ctx, err)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-l.sight.arrived:
			if err = l.sight.err; err == nil {
				err = l.saved(ctx, l.sight.change, tick.C)
			}
		case <-l.held.over:
			err = l.saved(ctx, l.held.change, tick.C)
		case <-l.again.due():
			err = l.reload(ctx, Change{})
		case <-l.o.Look:
			err = l.look(ctx)
		case <-l.health.again:
			err = l.look(ctx)
		case <-tick.C:
			err = l.look(ctx)
		}
		if err != nil {
			return l.end(ctx, err)
		}
	}
}

// saved reloads for what somebody saved.
func (l *loop) saved(ctx context.Context, c Change, tick <-chan time.Time) error {
	if l.drain.full() {
		if !l.waits {
			l.waits = true
			l.tell(c.event(Event{Kind: Waiting, Reload: l.reloads}))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.drain.gone:
			return nil // and back here
		case <-tick:
			return l.look(ctx)
		}
	}
	if l.held.over == nil && l.hold(ctx, c, c.First.Sub(l.ended)) {
		return nil
	}
	return l.reload(ctx, c)
}

// load reads the project anew, and looks out for what changes from then on.
func (l *loop) load(ctx context.Context, told Told) (Stack, error) {
	if l.sight != nil {
		l.sight.end()
	}
	stack, err := l.o.Load(ctx, told, l.running.Driver != nil)
	l.lookOut(ctx, Until{})
	if err != nil {
		return stack, err
	}
	if l.stack.Close != nil {
		l.stack.Close()
	}
	l.stack = stack
	return stack, nil
}

// lookOut begins to look out for changes of files.
func (l *loop) lookOut(ctx context.Context, until Until) {
	if l.sight != nil {
		l.sight.end()
	}
	l.sight = lookOut(context.WithoutCancel(ctx), func(ctx context.Context) (Change, error) { return l.o.Next(ctx, until) })
}

// end stops what the loop brought up, unless it is to stay. err is why the loop
// ends; an end of ctx is none, nor is it that somebody else stopped the stack.
func (l *loop) end(ctx context.Context, err error) error {
	if l.sight != nil {
		l.sight.end()
	}
	last := Event{Kind: Stopped, Reload: l.reloads, Outcome: Ended}
	switch {
	case errors.Is(err, runtime.ErrStopped):
		last.Outcome, err = Elsewhere, nil
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		err = nil
	}
	switch {
	case last.Outcome == Elsewhere || l.running.Driver == nil && err != nil:
	case l.running.Driver == nil:
		last.Outcome, last.Report.URL = l.notStarted(context.WithoutCancel(ctx))
	case l.o.Keep:
		last.Outcome, last.Report.URL = LeftRunning, l.url
	default:
		err = errors.Join(err, l.down(context.WithoutCancel(ctx)))
	}
	l.drain.wait()
	for _, s := range []Stack{l.stack, l.running} {
		if s.Close != nil {
			s.Close()
		}
	}
	if last.Err = err; err != nil {
		last.Outcome = Broke
	}
	l.tell(last)
	return err
}

// lastLook bounds the look at what the loop has not brought up.
const lastLook = 2 * time.Second

// notStarted is what is left by a loop that brought nothing up: what ran before, or
// nothing.
func (l *loop) notStarted(ctx context.Context) (o Outcome, url string) {
	if l.stack.Driver == nil {
		return NotStarted, ""
	}
	ctx, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	seen, err := l.stack.Driver.Observe(ctx)
	if err != nil || !seen.Running {
		return NotStarted, ""
	}
	return LeftRunning, seen.URL
}

// stopEvery is how often a down is looked at.
const stopEvery = 500 * time.Millisecond

// down stops everything through its drain, and tells which agents still run.
func (l *loop) down(ctx context.Context) error {
	driver := l.running.Driver
	left := slices.Sorted(maps.Keys(l.running.Agents))
	l.tell(Event{Kind: Stopping, Reload: l.reloads, Agents: left})
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(stopEvery)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			seen, err := driver.Observe(ctx)
			if err != nil {
				continue // the down meets the same, and says it
			}
			before := len(left)
			left = slices.DeleteFunc(slices.Clone(left), func(agent string) bool {
				return !slices.ContainsFunc(seen.Replicas, func(r runtime.Replica) bool { return r.Agent == agent })
			})
			if len(left) < before {
				l.tell(Event{Kind: Stopping, Reload: l.reloads, Agents: left})
			}
		}
	})
	_, err := driver.Down(ctx, l.o.Progress)
	close(over)
	watch.Wait()
	return err
}

// tell passes an event on.
func (l *loop) tell(e Event) {
	l.telling.Lock()
	defer l.telling.Unlock()
	e.Time, e.Draining = time.Now(), l.drain.count()
	l.o.Tell(e)
}

// reload makes what runs the same as what is on disk. Its error ends the loop.
func (l *loop) reload(ctx context.Context, c Change) error {
	l.again.stop()
	if c.Paths == nil && l.sight != nil {
		select {
		case <-l.sight.arrived:
			c = l.sight.change // it is in what will be read
		default:
		}
	}
	r := &reload{loop: l, n: l.reloads, change: c}
	if c.Paths != nil {
		l.again.pause = 0
	} else {
		r.silent = l.again.steps // nobody wants to know of each attempt, unless it gets further
	}
	if l.held.over == nil { // else it follows the reload before all the same
		r.after = max(time.Since(l.ended), 0)
		if !c.First.IsZero() {
			r.after = c.First.Sub(l.ended)
		}
	}
	l.waits = false
	l.held = held{} // it is in what is read now
	report, err := r.do(ctx)
	l.ended = time.Now()
	if !errors.Is(err, errNewer) {
		l.drops = 0
	}
	switch {
	case err == nil:
		mended := l.again.failing()
		l.again.reset()
		if l.reloads == 0 || report.Changed {
			l.reloads++
		}
		r.concluded(ctx, report, mended)
		if (report.Unsettled || !r.stack.Fresh()) && !l.hold(ctx, r.stack.Change, 0) {
			l.again.soon()
		}
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, runtime.ErrStopped):
		return err
	case errors.Is(err, errNewer):
		l.drops++
		l.tell(r.change.event(Event{Kind: Dropped, Reload: r.n, Agents: r.agents}))
		return nil
	case l.running.Driver == nil && machineLacks(err):
		return err
	}
	if c.Paths != nil || r.shown || !l.again.known(err) {
		known := l.health.lost != nil && said(l.health.lost) == said(err)
		l.tell(r.change.event(Event{Kind: Failed, Reload: r.n, Agents: r.agents, Step: r.failed, Broken: broken(err), Err: err, Known: known}))
	}
	l.places.failed(r.agents)
	l.again.failed(err, r.steps)
	if len(broken(err)) == 0 {
		l.again.later(err)
	}
	select {
	case <-l.sight.arrived:
	default:
		l.lookOut(ctx, Until{Touched: true}) // somebody may think that it is worth another try
	}
	return nil
}

// event is one that is about a change.
func (c Change) event(e Event) Event {
	e.Paths, e.New, e.Removed = c.Paths, c.New, c.Removed
	return e
}

// broken are the agents that an error is about.
func broken(err error) []string {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f.Agents
	}
	return nil
}

// machineLacks reports whether an error is that of what a machine has, and no
// change of the project's files mends it.
func machineLacks(err error) bool {
	kind := fault.KindOf(err)
	return kind != fault.Usage && kind != fault.Failed
}
