package docker

import (
	"context"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// exitMemory is how far back the end of a container's process is looked for: the
// engine keeps its last 256 events only.
const exitMemory = time.Hour

// LastExit is how the process before the present one of a replica ended. A
// container that runs again has forgotten it, and so the engine's events are asked.
// It is nil when they do not say.
func (d *Driver) LastExit(ctx context.Context, r runtime.Replica) *runtime.Exit {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	l, err := d.look(ctx)
	if err != nil {
		return nil
	}
	c, ok := l.at(runtime.Ref{Agent: r.Agent, Replica: r.Name, Generation: r.Generation})
	if !ok {
		return nil
	}
	return l.e.lastExit(ctx, c.ID)
}

func (e *engine) lastExit(ctx context.Context, container string) (last *runtime.Exit) {
	now := time.Now()
	filter := filters.NewArgs(
		filters.Arg("container", container),
		filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("event", string(events.ActionDie)),
	)
	told, ended := e.api.Events(ctx, events.ListOptions{Since: engineTime(now.Add(-exitMemory)), Until: engineTime(now), Filters: filter})
	for {
		select {
		case m := <-told:
			if code, err := strconv.Atoi(m.Actor.Attributes["exitCode"]); err == nil {
				last = new(exitOf(code))
			}
		case <-ended: // the last one was told, or ctx ended
			return last
		}
	}
}
