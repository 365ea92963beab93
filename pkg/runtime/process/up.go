package process

import (
	"context"
	"errors"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/stack"
)

// Up implements runtime.Driver. Everything that can be known to be wrong is
// said before anything is stopped or started, with one exception: that somebody
// else has the port is found out only when a supervisor that has it too, and
// does not answer, is gone.
func (d *Driver) Up(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	return runtime.Converge(ctx, d.o.Stack, "", func([]string) (runtime.Report, error) {
		return d.converge(ctx, p, runtime.OpUp, nil)
	})
}

// Restart implements runtime.Driver.
func (d *Driver) Restart(ctx context.Context, agent string, p runtime.Progress) (runtime.Report, error) {
	return runtime.Converge(ctx, d.o.Stack, agent, func(agents []string) (runtime.Report, error) {
		return d.converge(ctx, p, runtime.OpRestart, agents)
	})
}

func refuseOtherVersion() error {
	return fault.New(fault.Environment, "flisk down, then flisk up", "what runs was started by another version of flisk")
}

// converge is Up or Restart, of some agents or of all.
func (d *Driver) converge(ctx context.Context, p runtime.Progress, op runtime.Op, agents []string) (report runtime.Report, err error) {
	report = runtime.Report{Volume: d.o.Stack.Volume.Name, Place: d.place.volume}
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return report, err
	}
	defer release()
	if l, err = d.seeEndingThrough(ctx, p, l); err != nil {
		return report, err
	}
	if o := d.observed(l); d.o.Attached && !o.Running && len(o.Stale) == 0 {
		return report, runtime.ErrStopped
	}
	if d, err = d.onItsPort(l); err != nil {
		return report, err
	}
	report.URL = d.o.Stack.Gateway.URL()

	if errors.Is(l.err, errOtherVersion) {
		return report, refuseOtherVersion()
	}
	portIsOurs := d.hasPort(l)
	if !portIsOurs {
		if err := d.checkPort(ctx, l); err != nil {
			if d.observed(l).Serves() {
				err = runtime.StillRuns(err)
			}
			return report, err
		}
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
	observed := d.observed(l)
	if l.answer == nil {
		if report.Changed, err = d.clear(ctx, p, l); err != nil {
			return report, err
		}
		if portIsOurs {
			if err := d.checkPort(ctx, l); err != nil {
				return report, err
			}
		}
		observed = runtime.Observed{}
	}
	for tries := 1; ; tries++ {
		plan := l.plan(target.desired(), observed, op, agents...)
		if d.o.Leave {
			plan, report.Left = plan.Leave()
		}
		a := d.newApply(p, l)
		a.target, a.restless = target, d.o.Restless && tries > 1
		err = a.run(ctx, plan)
		if runtime.TryAgain(err, tries) {
			if target, err = d.target(volume); err != nil {
				return report, err
			}
			continue
		}
		if err != nil {
			undone := a.rollBack(ctx)
			return report, runtime.GivenUp(ctx, err, runtime.WayBack{
				Closed: a.committed, Err: undone, Runs: !a.committed && observed.Serves(), Ended: a.gatewayEnded && l.answer != nil,
			})
		}
		report.Changed, report.Unsettled = report.Changed || plan.Changes(), a.unsettled
		d.prune(target)
		report.Filled = runtime.Filled(plan, observed)
		report.Replaced, err = a.replacements(ctx)
		return report, err
	}
}

// begin is how every change begins; what runs must not be another copy's.
func (d *Driver) begin(ctx context.Context, p runtime.Progress) (l look, release func(), err error) {
	return claim.Change(ctx, d.place.lock, p, func() (look, error) {
		l, err := d.look(ctx)
		if err == nil {
			err = d.refuseOther(l)
		}
		return l, err
	})
}

// seeEndingThrough waits for a supervisor that stops already, because the command
// that wanted it was killed or it got a signal, and looks again.
func (d *Driver) seeEndingThrough(ctx context.Context, p runtime.Progress, l look) (look, error) {
	if l.answer == nil || !l.answer.Ending || !l.recorded {
		return l, nil
	}
	end := p.Begin("wait for what is stopping")
	gone, err := d.waitGone(ctx, l.supervisor, time.Now().Add(stack.DriverTimeout(l.answer.Grace)))
	if err == nil && !gone {
		err = errEnding()
	}
	end("", err)
	if err != nil {
		return l, err
	}
	return d.look(ctx)
}

// hasPort reports whether the gateway of this project listens on the port that
// it shall have: by what it answers, or by what it was started with.
func (d *Driver) hasPort(l look) bool {
	if l.answer != nil {
		return l.answer.Gateway == claim.Address(d.o.Stack.Gateway)
	}
	s, err := d.place.settings()
	return l.silent && err == nil && claim.Address(s.Gateway) == claim.Address(d.o.Stack.Gateway)
}

// checkPort says that the port is taken before anything is built or started. A
// gateway of this project that was killed gets a moment: the kernel calls its
// process dead before it has closed its files.
func (d *Driver) checkPort(ctx context.Context, l look) error {
	tick := time.NewTicker(gonePoll)
	defer tick.Stop()
	for began := time.Now(); ; {
		ln, err := claim.Listen(d.o.Stack.Gateway)
		if err == nil {
			return ln.Close()
		}
		if !l.exists || l.answer != nil || time.Since(began) > closeTime {
			return d.nameProject(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// clear makes room for a new supervisor: one that does not answer is ended, and
// what a dead one left is waited for.
func (d *Driver) clear(ctx context.Context, p runtime.Progress, l look) (changed bool, err error) {
	if l.silent {
		end := p.Begin("stop the gateway's process, which does not answer")
		err := d.endSupervisor(ctx, l.supervisor)
		end("", err)
		if err != nil {
			return false, err
		}
	}
	swept, err := d.sweep(ctx, p)
	return swept || l.silent, err
}
