package docker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// followEvery is how often a follow looks for containers that are new.
const followEvery = 250 * time.Millisecond

// Logs implements runtime.Driver. They are those of the containers that are
// there: the engine forgets a log with its container. A follow goes on with
// containers that come later, and returns nil when the context ends.
func (d *Driver) Logs(ctx context.Context, o runtime.LogOptions, emit func(runtime.Line) error) error {
	l, err := d.look(ctx)
	if err != nil {
		return err
	}
	if o.Agent != "" && d.knows([]string{o.Agent}) != nil && !slices.ContainsFunc(l.agents, func(c seen) bool { return c.Agent == o.Agent }) {
		return fault.New(fault.Usage, "see flisk status for the names", "the project has no agent %q", o.Agent)
	}
	var past []runtime.Line
	latest := map[string]time.Time{}
	for _, c := range l.ofAgent(o.Agent) {
		read := logOptions{tail: o.Tail}
		err := l.e.logs(ctx, c.ID, read, func(line logLine) error {
			past = append(past, runtime.Line{Time: line.time, Replica: c.Replica, Text: line.text})
			latest[c.ID] = line.time
			return nil
		})
		if err != nil && !errors.Is(err, errNotFound) {
			return err
		}
	}
	slices.SortStableFunc(past, func(a, b runtime.Line) int { return a.Time.Compare(b.Time) })
	if o.Tail >= 0 && len(past) > o.Tail {
		past = past[len(past)-o.Tail:]
	}
	for _, line := range past {
		if err := emit(line); err != nil {
			return err
		}
	}
	if !o.Follow {
		return nil
	}
	return d.follow(ctx, o.Agent, latest, emit)
}

// ofAgent are the containers of an agent, of all when it is "".
func (l look) ofAgent(agent string) []seen {
	return slices.DeleteFunc(slices.Clone(l.agents), func(c seen) bool { return agent != "" && c.Agent != agent })
}

// follow reads every container of an agent on from the line after the latest, each
// in a goroutine of its own, and those that come later from their first. It
// returns nil when ctx ends.
func (d *Driver) follow(ctx context.Context, agent string, latest map[string]time.Time, emit func(runtime.Line) error) error {
	following, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	var one sync.Mutex // emit is called by one at a time
	open := map[string]bool{}
	for {
		l, err := d.look(following)
		if err != nil && following.Err() == nil {
			return err
		}
		for _, c := range l.ofAgent(agent) {
			one.Lock()
			read := open[c.ID]
			since := latest[c.ID]
			open[c.ID] = true
			one.Unlock()
			if read || !c.runs() && !since.IsZero() {
				continue
			}
			all.Go(func() {
				at, err := readOn(following, l.e, c, since, &one, emit)
				one.Lock()
				latest[c.ID], open[c.ID] = at, false
				one.Unlock()
				if err != nil {
					cancel(err)
				}
			})
		}
		if pause(following, followEvery) != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(following)
}

// readOn hands on what a container writes behind a time, until it ends, and
// returns the time of the last line. That it is gone, or that ctx ended, is no
// error.
func readOn(ctx context.Context, e *engine, c seen, since time.Time, one *sync.Mutex, emit func(runtime.Line) error) (time.Time, error) {
	o := logOptions{tail: -1, follow: true}
	if !since.IsZero() {
		o.since = since.Add(time.Nanosecond)
	}
	var failed error
	err := e.logs(ctx, c.ID, o, func(line logLine) error {
		one.Lock()
		defer one.Unlock()
		since = line.time
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failed = emit(runtime.Line{Time: line.time, Replica: c.Replica, Text: line.text})
		return failed
	})
	if failed != nil || ctx.Err() != nil || errors.Is(err, errNotFound) {
		return since, failed
	}
	return since, err
}
