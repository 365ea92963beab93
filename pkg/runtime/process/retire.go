package process

import (
	"context"
	"fmt"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// Retire implements runtime.Driver. The supervisor sees the drain through by
// itself once it was told, also when nobody waits for it any more.
func (d *Driver) Retire(ctx context.Context, ref runtime.Ref) (runtime.Change, error) {
	gone := runtime.Change{Agent: ref.Agent, Replica: ref.Replica}
	l, err := d.look(ctx)
	if err == nil && l.answer != nil {
		err = d.refuseOther(l)
	}
	if err != nil || l.answer == nil {
		return gone, err
	}
	for _, r := range l.answer.Replicas {
		if r.Serving && (runtime.Ref{Agent: r.Agent, Replica: r.Name, Generation: r.Generation}) == ref {
			return gone, fmt.Errorf("%s serves, and is not to be retired", ref)
		}
	}
	a := d.newApply(nil, l)
	err = a.stop(ctx, func(string, error) {}, stopRequest{Ref: ref})
	var changes []runtime.Change
	if err == nil {
		changes, err = a.replacements(ctx)
	}
	if err != nil {
		if now, looked := d.look(context.WithoutCancel(ctx)); looked == nil && now.answer == nil {
			return gone, nil // a Down took everything along, through its drain
		}
	}
	if err != nil || len(changes) == 0 {
		return gone, err
	}
	return changes[0], nil
}
