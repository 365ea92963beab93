package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

// Retire implements runtime.Driver. It holds no lock while it waits for a drain:
// another change that meets the same container waits for the same end.
func (d *Driver) Retire(ctx context.Context, ref runtime.Ref) (runtime.Change, error) {
	change := runtime.Change{Agent: ref.Agent, Replica: ref.Replica}
	l, err := d.look(ctx)
	if err == nil {
		err = d.refuseOther(l)
	}
	if err != nil {
		return change, err
	}
	c, ok := l.at(ref)
	switch {
	case !ok:
		return change, nil
	case l.serving(c):
		return change, fmt.Errorf("%s serves, and is not to be retired", ref)
	case !c.runs():
		ctx = context.WithoutCancel(ctx)
		return change, errors.Join(d.remove(ctx, l.e, c), d.settleNames(ctx))
	}
	change.Before = c.process()
	how, err := d.halt(ctx, l.e, c)
	if err != nil {
		return change, err
	}
	if change.Exit = how.exit; how.exit.Signal != 0 {
		d.warnKilled(ref, how)
	}
	ctx = context.WithoutCancel(ctx)
	if l, err = d.look(ctx); err != nil {
		return change, err
	}
	for _, now := range l.agents {
		if now.Agent == ref.Agent && now.Replica == ref.Replica && l.serving(now) {
			change.After = now.process()
		}
	}
	return change, d.settleNames(ctx)
}

// settleNames gives containers of agents the names of their places, as far as
// those are free by now, and removes the image of what was retired. Where another
// change goes on, that one does it.
func (d *Driver) settleNames(ctx context.Context) error {
	f, err := claim.File(d.place.lock)
	if errors.Is(err, claim.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = claim.Unlock(f) }() // there is nothing to lose
	l, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.dropUnnamed(ctx, l.e, l)
	return d.nameAgents(ctx, l)
}

// nameAgents gives the youngest container at each place its name, unless another
// one has it still.
func (d *Driver) nameAgents(ctx context.Context, l look) error {
	for i, c := range l.agents {
		name := d.replicaName(c.Ref)
		if slices.ContainsFunc(l.agents[i+1:], func(younger seen) bool { return younger.Replica == c.Replica }) ||
			slices.ContainsFunc(l.agents, func(other seen) bool { return other.name() == name }) {
			continue
		}
		if err := l.rename(ctx, c, name); err != nil && !errors.Is(err, errNotFound) { // retired meanwhile
			return err
		}
	}
	return nil
}
