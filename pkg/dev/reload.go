package dev

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// errNewer ends a reload for a newer change.
var errNewer = errors.New("there is a newer change")

// reload is one pass from a change to what runs.
type reload struct {
	*loop
	n      int
	change Change
	after  time.Duration // that the change came after the reload before
	spans  Spans
	agents []string       // that get new processes
	failed runtime.Action // "" when no step did
	steps  int            // that began
	silent int            // so many of them are not told
	begun  *Event         // Reloading, which is told with the first one that is
	shown  bool           // it was

	mu      sync.Mutex
	waiting bool // for an agent to get ready
}

// patience is how long a reload waits for an agent to get ready before a newer
// change ends it: longer than one that works takes. After each that was given up
// the next is given twice as long, so that a slow agent gets ready once.
const patience = 3 * time.Second

func (r *reload) do(ctx context.Context) (runtime.Report, error) {
	began := time.Now()
	if !r.change.Told.IsZero() {
		r.spans.Detect, r.spans.Wait = r.change.Told.Sub(r.change.First), began.Sub(r.change.Told)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	waits := make(chan struct{}, 1) // has a token when the wait for an agent began
	stack, err := r.load(ctx, func(e runtime.Event) {
		if ctx.Err() == nil || errors.Is(context.Cause(ctx), errNewer) { // or it is of another call
			r.told(e, waits, began)
		}
	})
	if err != nil {
		return runtime.Report{}, err
	}
	if now := stack.Change; r.change.Paths != nil && now.Paths != nil { // with what was saved since it was told
		now.First, now.Told = r.change.First, r.change.Told
		r.change = now
	}
	if r.change.Paths != nil {
		r.quiet.count(r.change, r.after)
	} else if stack.Change.Paths != nil {
		r.quiet.count(stack.Change, r.after)
	}
	newer := r.sight.arrived
	watch.Go(func() { r.yield(ctx, waits, newer, cancel) })
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
			if s.Do == runtime.Start && !slices.Contains(r.agents, s.Agent) {
				r.agents = append(r.agents, s.Agent)
			}
		}
		if e.Plan.Changes() && !again {
			event := r.change.event(Event{Kind: Reloading, Reload: r.n, Agents: r.agents, Steps: e.Plan})
			r.begun = &event
			if r.silent == 0 {
				r.show()
			}
		}
		return
	}
	if e.Ended {
		r.spans.add(e.Steps[0].Do, e.Took)
	} else if r.steps++; r.steps > r.silent {
		r.show()
		r.tell(Event{Kind: Doing, Reload: r.n, Agents: r.agents, Step: e.Steps[0].Do})
	}
	if e.Err != nil {
		r.failed = e.Steps[0].Do
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

// show tells that the reload has begun, once.
func (r *reload) show() {
	if r.begun != nil {
		r.tell(*r.begun)
		r.begun, r.shown = nil, true
	}
}

// yield gives a reload up for a newer change when it waits for an agent that
// takes long to get ready, and may never. Until ctx ends.
func (r *reload) yield(ctx context.Context, waits, newer <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-waits:
	}
	timer := time.NewTimer(patience << min(r.drops, 4))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	select {
	case <-ctx.Done():
		return
	case <-newer:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting {
		cancel(errNewer)
	}
}

// concluded tells of a reload that worked, and sees what it replaced to its end.
// mended says that the one before did not.
func (r *reload) concluded(ctx context.Context, report runtime.Report, mended bool) {
	r.show()
	driver, closeDriver := r.stack.Driver, r.stack.Close
	r.running, r.url = r.stack, report.URL
	r.places.started(r.agents)
	var gone []string
	for _, ref := range report.Left {
		began := r.drain.begin(ref, func() func() {
			began := time.Now()
			change, err := driver.Retire(context.WithoutCancel(ctx), ref)
			took := time.Since(began)
			closeDriver()
			return func() {
				if err != nil || change.Before != (runtime.Process{}) { // else somebody else stopped it
					r.tell(Event{Kind: Drained, Reload: r.n, Agents: []string{ref.Agent}, Replaced: []runtime.Change{change}, Took: took, Err: err})
				}
			}
		})
		if began && r.stack.Agents[ref.Agent] == 0 && !slices.Contains(gone, ref.Agent) {
			gone = append(gone, ref.Agent)
		}
	}
	kind := Reloaded
	if r.n > 0 && !report.Changed {
		kind = Unchanged
	}
	if kind == Reloaded || r.change.Paths != nil || mended {
		r.tell(r.change.event(Event{
			Kind: kind, Reload: r.n, Agents: r.agents, Left: gone, Spans: r.spans,
			Unsettled: report.Unsettled, Report: report, Replaced: report.Replaced,
		}))
	}
	r.health.up(r.n, r.tell)
}
