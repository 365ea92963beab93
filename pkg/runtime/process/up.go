package process

import (
	"context"
	"errors"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Up implements runtime.Driver. Everything that can be known to be wrong is
// said before anything is started.
func (d *Driver) Up(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	report, err := d.up(ctx, p)
	if err != nil && ctx.Err() != nil {
		err = fault.New(fault.Interrupted, "", "interrupted; what this run had started is stopped again: %w", context.Cause(ctx))
	}
	return report, err
}

func (d *Driver) up(ctx context.Context, p runtime.Progress) (report runtime.Report, err error) {
	report = runtime.Report{URL: d.o.Stack.Gateway.URL(), Volume: d.o.Stack.Volume.Name, Place: d.place.volume}
	release, err := d.lockOperation(ctx, p)
	if err != nil {
		return report, err
	}
	defer release()

	l, err := d.look(ctx)
	if err != nil {
		return report, err
	}
	if err := d.refuseOther(l); err != nil {
		return report, err
	}
	if errors.Is(l.err, errOtherVersion) {
		return report, fault.New(fault.Environment, "flisk down, then flisk up", "what runs was started by another version of flisk")
	}
	if err := d.checkPort(l); err != nil {
		return report, err
	}
	volume, created, err := d.prepareVolume()
	if err != nil {
		return report, err
	}
	report.Created = created
	target, err := d.target(volume)
	if err != nil {
		return report, err
	}
	if l.answer == nil {
		if report.Changed, err = d.clear(ctx, p, l); err != nil {
			return report, err
		}
	}

	observed := d.observed(l)
	if l.answer == nil {
		observed = runtime.Observed{}
	}
	plan := runtime.NewPlan(target.desired(), observed, runtime.OpUp)
	a := d.newApply(p, l)
	a.target = target
	if err := a.run(ctx, plan); err != nil {
		return report, errors.Join(err, a.rollBack(ctx))
	}
	report.Changed = report.Changed || plan.Changes()
	d.prune(target)
	return report, nil
}

// checkPort says that the port is taken before anything is built or started. A
// gateway of this project that listens there already is no conflict.
func (d *Driver) checkPort(l look) error {
	if l.answer != nil && l.answer.Gateway == address(d.o.Stack.Gateway) || l.alive && l.answer == nil {
		return nil
	}
	ln, err := listen(d.o.Stack.Gateway)
	if err != nil {
		return err
	}
	return ln.Close()
}

// clear makes room for a new supervisor: one that does not answer is ended, and
// what a dead one left is waited for.
func (d *Driver) clear(ctx context.Context, p runtime.Progress, l look) (changed bool, err error) {
	if l.alive {
		end := p.Begin("stop the supervisor, which does not answer")
		err := d.endSupervisor(ctx, l.supervisor)
		end("", err)
		if err != nil {
			return false, err
		}
	}
	swept, err := d.sweep(ctx, p)
	return swept || l.alive, err
}
