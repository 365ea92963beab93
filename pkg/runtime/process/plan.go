package process

import (
	"context"
	"errors"
	"slices"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Plan implements runtime.Driver. What Up would refuse before it does anything
// is refused here as well, except for what only doing it finds out.
func (d *Driver) Plan(ctx context.Context, op runtime.Op, agents ...string) (runtime.Plan, error) {
	l, err := d.look(ctx)
	if err == nil {
		err = d.refuseOther(l)
	}
	if err != nil {
		return nil, err
	}
	observed := runtime.Observed{}
	if l.answer != nil && (op == runtime.OpDown || !l.answer.Ending) {
		observed = d.observed(l)
	}
	if op == runtime.OpDown {
		return runtime.NewPlan(runtime.Desired{}, observed, op), nil
	}
	if errors.Is(l.err, errOtherVersion) {
		return nil, refuseOtherVersion()
	}
	if d, err = d.onItsPort(l); err != nil {
		return nil, err
	}
	if err := runtime.Knows(d.o.Stack, agents); err != nil {
		return nil, err
	}
	volume, err := d.plannedVolume()
	if err != nil {
		return nil, err
	}
	target, err := d.target(volume)
	if err != nil {
		return nil, err
	}
	if !d.hasPort(l) {
		if err := d.checkPort(ctx, l); err != nil {
			return nil, err
		}
	}
	return l.plan(target.desired(), observed, op, agents...), nil
}

// plan is the plan of OpUp or OpRestart. A stop that goes on, because the command
// that wanted it was killed, cannot be taken back: it is seen through first, and
// its replica is then missing like any other. That of one that was replaced keeps
// nobody waiting.
func (l look) plan(desired runtime.Desired, observed runtime.Observed, op runtime.Op, agents ...string) runtime.Plan {
	var stops runtime.Plan
	var rest []runtime.Replica
	for _, r := range observed.Replicas {
		ref := runtime.Ref{Agent: r.Agent, Replica: r.Name, Generation: r.Generation}
		if l.answer == nil || !slices.Contains(l.answer.Stopping, ref) || runtime.Replaced(observed.Replicas, r) {
			rest = append(rest, r)
			continue
		}
		stops = append(stops, runtime.Step{
			Do: runtime.Stop, Agent: r.Agent, Replica: r.Name, Generation: r.Generation, Cause: "it is being stopped already",
		})
	}
	observed.Replicas = rest
	return runtime.NewPlan(desired, observed, op, agents...).AfterBuilds(stops)
}

// plannedVolume is the id that the volume has; "" when it is not there yet.
func (d *Driver) plannedVolume() (string, error) {
	known, err := d.remembered()
	if err != nil {
		return "", err
	}
	if _, err := d.checkAgents(known); err != nil || known.Volumes[runtimeName].ID == "" {
		return "", err
	}
	id, err := checkpoint.VolumeID(d.place.volume)
	if err != nil {
		return "", fault.New(fault.Environment, "FLISK_HOME says where volumes are", "cannot use the volume %q: %w", d.place.volume, err)
	}
	return id, nil
}
