package docker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// How often a follow looks for containers that are new.
const (
	followEvery = 250 * time.Millisecond // after a change, and where the engine does not tell of them
	restEvery   = 5 * time.Second        // else: a change may go untold

	// changeTime is how long a change is followed closely. It is longer than
	// maxMissed looks take.
	changeTime = 2 * time.Second
)

// tellChanges puts something into changes, unless there is something in it, whenever
// a container of a project was started, ended or was removed, and hands on what was
// told of it. It closes changes when the engine tells no more, or ctx ends.
func (e *engine) tellChanges(ctx context.Context, project string, changes chan<- struct{}, told func(events.Message)) {
	defer close(changes)
	filter := ofProject(project)
	filter.Add("type", string(events.ContainerEventType))
	for _, action := range []events.Action{events.ActionStart, events.ActionKill, events.ActionOOM, events.ActionDie, events.ActionDestroy} {
		filter.Add("event", string(action))
	}
	messages, ended := e.api.Events(ctx, events.ListOptions{Filters: filter})
	for {
		select {
		case m := <-messages:
			if told(m); m.Action == events.ActionKill || m.Action == events.ActionOOM {
				continue // its end comes, or it does not
			}
			select {
			case changes <- struct{}{}:
			default:
			}
		case <-ended: // as it does with ctx
			return
		}
	}
}

// stream is one reading of what a container writes, while one process runs in it.
type stream struct {
	started string // of the process
	missed  int    // looks in a row in which that one did not run
	cancel  context.CancelFunc
	done    bool
}

// maxMissed is how many looks a stream may go on whose process does not run: its
// last lines are on their way. Engines leave some open for ever.
const maxMissed = 4

// follow reads every container of an agent on from the line after the latest, each
// in a goroutine of its own, and those that come later from their first. It
// returns nil when ctx ends.
//
// That the stream of a process ends with it is not relied on: measured, Docker
// 20.10 leaves one open that was begun while the process died, and it then says
// nothing of the next one in the same container. So each process gets a stream.
func (d *Driver) follow(ctx context.Context, agent string, latest map[string]time.Time, emit func(runtime.Line) error) error {
	following, cancel := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil)
	var one sync.Mutex // emit is called by one at a time; for latest, streams and died, too
	streams := map[string]*stream{}
	e, err := d.connected(ctx)
	if err != nil {
		return err
	}
	died := deaths{emit: emit, of: map[string]*lives{}}
	told := make(chan struct{}, 1)
	all.Go(func() {
		e.tellChanges(following, d.o.Stack.ID, told, func(m events.Message) {
			one.Lock()
			defer one.Unlock()
			died.hear(m)
		})
	})
	changes := (<-chan struct{})(told)
	for changed := time.Now(); following.Err() == nil; {
		l, err := d.look(following)
		if err != nil && following.Err() == nil {
			return err
		}
		one.Lock()
		containers := l.ofAgent(agent)
		endStale(streams, containers)
		for _, c := range containers {
			s, since := streams[c.ID], latest[c.ID]
			if s != nil && (!s.done || s.started == c.State.StartedAt && !c.runs()) || s == nil && !c.runs() && !since.IsZero() {
				continue
			}
			reading, end := context.WithCancel(following)
			s = &stream{started: c.State.StartedAt, cancel: end}
			streams[c.ID] = s
			all.Go(func() {
				defer end()
				at, err := readOn(reading, l.e, c, since, &one, func(line runtime.Line) error {
					return cmp.Or(died.before(c, line.Time), emit(line))
				})
				one.Lock()
				defer one.Unlock()
				latest[c.ID], s.done = at, true
				if err != nil {
					cancel(err)
				}
			})
		}
		if err := died.look(containers, l.serving); err != nil {
			cancel(err)
		}
		one.Unlock()
		wait := followEvery
		if changes != nil && time.Since(changed) > changeTime {
			wait = restEvery
		}
		timer := time.NewTimer(wait)
		select {
		case <-following.Done():
		case <-timer.C:
		case _, ok := <-changes:
			if changed = time.Now(); !ok {
				changes = nil // the engine tells no more
			}
		}
		timer.Stop()
	}
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(following)
}

// endStale ends the streams of processes that are over.
func endStale(streams map[string]*stream, containers []seen) {
	for id, s := range streams {
		i := slices.IndexFunc(containers, func(c seen) bool { return c.ID == id })
		switch {
		case i >= 0 && containers[i].State.StartedAt != s.started:
			s.cancel() // another process: what this one wrote last is read with that
		case i >= 0 && containers[i].State.Running:
			s.missed = 0
		default:
			if s.missed++; s.missed >= maxMissed {
				s.cancel()
			}
		}
	}
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
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		since = line.time
		failed = emit(runtime.Line{Time: line.time, Replica: c.Replica, Text: line.text})
		return failed
	})
	if failed != nil || ctx.Err() != nil || errors.Is(err, errNotFound) {
		return since, failed
	}
	return since, err
}
