package process

import (
	"context"
	"fmt"
	"slices"

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
	var changes []runtime.Change
	err = a.stop(ctx, func(string, error) {}, stopRequest{Ref: ref})
	if err == nil {
		changes, err = a.replacements(ctx)
	}
	if unreachable(err) && !d.place.runs(ref) { // it stopped, and the supervisor then: a Down was there, too
		changes, err = a.stopped, nil
	}
	if err != nil || len(changes) == 0 {
		return gone, err
	}
	return changes[0], nil
}

// runs reports whether the process that was last recorded for a generation may run.
func (p place) runs(ref runtime.Ref) bool {
	return slices.ContainsFunc(p.records(), func(r record) bool {
		if r.Ref != ref {
			return false
		}
		alive, err := r.Alive()
		return alive || err != nil
	})
}
