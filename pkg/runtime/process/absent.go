package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// absent are the agents that have sessions on the volume and are not in the
// stack, with how many. An agent that was renamed looks like one that was
// removed and another that was added: its conversations would be forgotten
// without a word.
func (d *Driver) absent(ctx context.Context) (map[string]int, error) {
	names, err := checkpoint.Agents(d.place.volume)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, name := range names {
		in := func(a stack.Agent) bool { return a.Name == name }
		if !turn.ValidAgent(name) || slices.ContainsFunc(d.o.Stack.Agents, in) {
			continue
		}
		n, err := countSessions(ctx, d.place.volume, name)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			found[name] = n
		}
	}
	return found, nil
}

func countSessions(ctx context.Context, volume, agent string) (n int, err error) {
	const page = 1000
	r, err := checkpoint.OpenReader(volume, agent)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for after := ""; ; {
		rows, next, err := r.List(ctx, after, page)
		n += len(rows)
		if after = next; err != nil || after == "" {
			return n, err
		}
	}
}

// checkAgents refuses to go on without an agent that has sessions, unless it was
// accepted now or earlier. It returns the agents that it goes on without: a name
// that is back is not among them, and is asked about when it goes again.
func (d *Driver) checkAgents(ctx context.Context, accepted []string) ([]string, error) {
	absent, err := d.absent(ctx)
	if err != nil {
		return nil, fault.New(fault.Environment, "", "cannot use the volume %q: %w", d.place.volume, err)
	}
	names := slices.Sorted(maps.Keys(absent))
	var missed []string
	for _, name := range names {
		if !slices.Contains(accepted, name) {
			missed = append(missed, fmt.Sprintf("%s of agent %q", sessions(absent[name]), name))
		}
	}
	if len(missed) == 0 || d.o.LeaveAgents {
		return names, nil
	}
	return nil, fault.New(fault.Environment,
		"put the name back into flisk.yaml; or go on without it, and leave them on the volume: flisk up --yes",
		"the volume holds %s, and flisk.yaml names no such agent", strings.Join(missed, ", "))
}

func sessions(n int) string {
	if n == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", n)
}
