package docker

import (
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestLastExit: how a process ended is known also when the next one runs, which is
// when its container has forgotten it.
func TestLastExit(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		d := driverOf(p)
		look := func() runtime.Replica {
			t.Helper()
			o := p.Observe()
			i := slices.IndexFunc(o.Replicas, func(r runtime.Replica) bool { return r.Agent == "bot" })
			if i < 0 {
				t.Fatalf("no bot: %+v", o)
			}
			return o.Replicas[i]
		}
		if exit := d.LastExit(t.Context(), look()); exit != nil {
			t.Errorf("before anything ended: %s", exit)
		}
		if _, err := d.Kill(t.Context(), "bot"); err != nil {
			t.Fatal(err)
		}
		r := look()
		if exit := d.LastExit(t.Context(), r); r.Exit != nil || exit == nil || exit.Signal != 9 {
			t.Errorf("after a kill: %v, and %v of the replica", exit, r.Exit)
		}
		if exit := d.LastExit(t.Context(), runtime.Replica{Agent: "bot", Name: "bot-9"}); exit != nil {
			t.Errorf("of one that is not there: %s", exit)
		}
	})
}
