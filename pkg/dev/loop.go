package dev

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// loop is the state of a Run. Its fields belong to the goroutine of run, unless
// they say otherwise.
type loop struct {
	o     Options
	inbox *inbox
	quiet restless
	drain drains

	stack   Stack // as last loaded
	reloads int
	health  health
	again   backoff

	telling sync.Mutex
}

// lookEvery is how often the loop looks whether what it started is still there.
const lookEvery = 2 * time.Second

func (l *loop) run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	lost := make(chan error, 1)
	var watch sync.WaitGroup
	watch.Go(func() { lost <- l.receive(watching) })
	defer watch.Wait()
	defer stop()

	if err := l.reload(ctx, Change{}); err != nil {
		return l.end(ctx, err)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return l.end(ctx, nil)
		case err = <-lost:
			return l.end(ctx, err)
		case <-l.inbox.full:
			err = l.reload(ctx, l.inbox.take())
		case <-l.again.due():
			err = l.reload(ctx, Change{})
		case <-tick.C:
			err = l.look(ctx)
		}
		if errors.Is(err, errStopped) {
			l.drain.wait()
			return nil
		}
		if err != nil {
			return l.end(ctx, err)
		}
	}
}

// receive fills the inbox until ctx ends or there is nothing to wait for.
func (l *loop) receive(ctx context.Context) error {
	for {
		c, err := l.o.Next(ctx)
		if err != nil {
			return err
		}
		l.inbox.put(c)
	}
}

// end stops the stack, unless it is to stay. err is why the loop ends; an end of
// ctx is none.
func (l *loop) end(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil
	}
	ctx = context.WithoutCancel(ctx)
	if !l.o.Keep && l.stack.Driver != nil {
		_, stopped := l.stack.Driver.Down(ctx, l.o.Progress)
		err = errors.Join(err, stopped)
	}
	l.drain.wait()
	return err
}

// tell passes an event on.
func (l *loop) tell(e Event) {
	l.telling.Lock()
	defer l.telling.Unlock()
	e.Time = time.Now()
	l.o.Tell(e)
}

// reload makes what runs the same as what is on disk. Its error ends the loop.
func (l *loop) reload(ctx context.Context, c Change) error {
	if c.Paths != nil {
		if c.Paths = l.quiet.filter(c.Paths, time.Now()); c.Paths == nil {
			return nil
		}
		if paths := l.quiet.paused(); paths != nil {
			l.tell(Event{Kind: Paused, Reload: l.reloads, Paths: paths})
			return nil
		}
	}
	if err := l.drain.room(ctx); err != nil {
		return err
	}
	l.again.stop()
	r := &reload{loop: l, n: l.reloads, change: c}
	report, err := r.do(ctx)
	switch {
	case err == nil:
		l.again.reset()
		if l.reloads == 0 || report.Changed {
			l.reloads++
		}
		r.concluded(report)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNewer):
		l.tell(Event{Kind: Dropped, Reload: r.n, Paths: c.Paths})
		return nil
	case l.reloads == 0 && !waitsForFiles(err):
		return err
	}
	if c.Paths != nil || !l.again.known(err) {
		l.tell(Event{Kind: Failed, Reload: r.n, Paths: c.Paths, Agents: r.agents, Err: err})
	}
	if !waitsForFiles(err) {
		l.again.later(err)
	}
	return nil
}

// waitsForFiles reports whether an error is mended by another change of the
// project's files, and not by itself.
func waitsForFiles(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.Usage || kind == fault.Failed
}

// errNewer ends a reload for a newer change.
var errNewer = errors.New("there is a newer change")

// reload is one pass from a change to what runs.
type reload struct {
	*loop
	n      int
	change Change
	spans  Spans
	agents []string // that get new processes

	mu      sync.Mutex
	waiting bool // for an agent to get ready
}

// patience is how long a reload waits for an agent to get ready before a newer
// change ends it: longer than one that works takes.
const patience = 3 * time.Second

func (r *reload) do(ctx context.Context) (runtime.Report, error) {
	began := time.Now()
	if !r.change.First.IsZero() {
		r.spans.Detect = began.Sub(r.change.First)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	waits := make(chan struct{}, 1) // has a token when the wait for an agent began
	stack, err := r.o.Load(ctx, func(e runtime.Event) {
		if ctx.Err() == nil || errors.Is(context.Cause(ctx), errNewer) { // or it is of another call
			r.told(e, waits, began)
		}
	})
	if err != nil {
		return runtime.Report{}, err
	}
	r.stack = stack
	watch.Go(func() { r.yield(ctx, waits, cancel) })
	steps := r.o.Reloads
	if r.n == 0 {
		steps = r.o.Progress
	}
	report, err := stack.Driver.Up(ctx, steps)
	if err != nil && errors.Is(context.Cause(ctx), errNewer) {
		err = errNewer
	}
	return report, err
}

// told is called by the driver, from the goroutine of do.
func (r *reload) told(e runtime.Event, waits chan struct{}, began time.Time) {
	if e.Steps == nil {
		again := r.spans.Plan > 0 // the source changed while it was built
		r.spans.Plan = max(time.Since(began)-r.spans.Build, 1)
		r.agents = nil
		for _, s := range e.Plan {
			if s.Do == runtime.Start {
				r.agents = append(r.agents, s.Agent)
			}
		}
		if e.Plan.Changes() && !again {
			r.tell(Event{Kind: Reloading, Reload: r.n, Paths: r.change.Paths, Agents: r.agents, Steps: e.Plan})
		}
		return
	}
	if e.Ended {
		r.spans.add(e.Steps[0].Do, e.Took)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.waiting
	r.waiting = e.Steps[0].Do == runtime.Await && !e.Ended
	if r.waiting && !was {
		select {
		case waits <- struct{}{}:
		default:
		}
	}
}

// yield gives a reload up for a newer change when it waits for an agent that
// takes long to get ready, and may never. Until ctx ends.
func (r *reload) yield(ctx context.Context, waits <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-waits:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	select {
	case <-ctx.Done():
		return
	case token := <-r.inbox.full:
		r.inbox.full <- token // it is taken when this reload is over
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting {
		cancel(errNewer)
	}
}

// concluded tells of a reload that worked, and sees what it replaced to its end.
func (r *reload) concluded(report runtime.Report) {
	kind := Reloaded
	if r.n > 0 && !report.Changed {
		kind = Unchanged
	}
	if kind == Reloaded || r.change.Paths != nil {
		r.tell(Event{Kind: kind, Reload: r.n, Paths: r.change.Paths, Agents: r.agents, Spans: r.spans, Report: report, Replaced: report.Replaced})
	}
	r.health.up(r.tell)
	for _, ref := range report.Left {
		r.drain.begin(ref, func() {
			began := time.Now()
			change, err := r.stack.Driver.Retire(context.Background(), ref)
			r.tell(Event{Kind: Drained, Reload: r.n, Agents: []string{ref.Agent}, Replaced: []runtime.Change{change}, Took: time.Since(began), Err: err})
		})
	}
}
