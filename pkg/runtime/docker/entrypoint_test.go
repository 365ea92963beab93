package docker

import (
	"path/filepath"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestC20_BadEntrypoint: what the image cannot run is told at once, and leaves
// nothing, or what ran before.
func TestC20_BadEntrypoint(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, realPlace(t))
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	const good, bad = "services: {}\n", "services: {bot: {entrypoint: [/nowhere]}}\n"
	fails := func() {
		t.Helper()
		write(t, override, bad)
		_, err := p.Driver().Up(t.Context(), p.P)
		mustFault(t, err, fault.Failed, "bot-1", "/nowhere")
		write(t, override, good)
	}
	fails()
	l, err := driverOf(p).look(t.Context())
	if err != nil || len(l.everything())+len(l.networks) > 0 {
		t.Errorf("left %+v, %v", l, err)
	}
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	fails()
	if o := p.Observe(); len(o.Replicas) != 1 || o.Replicas[0].PID != before.PID || o.Replicas[0].State != runtime.Ready || !o.Replicas[0].Serving || len(o.Stale) > 0 {
		t.Errorf("of %+v it made %+v", before, o)
	}
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after it: %+v", a)
	}
	if up := p.Up(); up.Changed {
		t.Errorf("up as before: %+v", up)
	}
}
