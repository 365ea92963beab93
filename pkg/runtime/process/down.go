package process

import (
	"context"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// Down implements runtime.Driver. Once it has begun to stop, ctx does not end
// it: a drain that is cut loses what it was for. Options.Force does.
func (d *Driver) Down(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	report := runtime.Report{Volume: d.o.Stack.Volume.Name, Place: d.place.volume}
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return report, err
	}
	defer release()
	ctx = context.WithoutCancel(ctx)
	if l.answer != nil {
		plan := runtime.NewPlan(runtime.Desired{}, d.observed(l), runtime.OpDown)
		report.Changed = plan.Changes()
		if err := d.newApply(p, l).run(ctx, plan); err != nil {
			return report, err
		}
	}
	cleared, err := d.clear(ctx, p, l)
	report.Changed = report.Changed || cleared
	return report, err
}
