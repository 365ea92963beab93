package docker

import (
	"context"
	"slices"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Logs implements runtime.Driver. They are those of the containers that are
// there, and the last lines of those that were removed. A follow goes on with
// containers that come later, and returns nil when the context ends.
func (d *Driver) Logs(ctx context.Context, o runtime.LogOptions, emit func(runtime.Line) error) error {
	l, err := d.look(ctx)
	if err != nil {
		return err
	}
	if o.Agent != "" && runtime.Knows(d.o.Stack, []string{o.Agent}) != nil && len(l.ofAgent(o.Agent)) == 0 && !(turn.ValidAgent(o.Agent) && exists(d.place.keptLogs(o.Agent))) {
		return fault.New(fault.Usage, "see flisk status for the names", "the project has no agent %q", o.Agent)
	}
	past, latest, err := d.past(ctx, l, o)
	if err != nil {
		return err
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
