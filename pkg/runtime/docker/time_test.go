package docker

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestWarmTimes holds a warm up and a warm down against the calls to the engine
// that they must make: the same containers, made, started, asked and removed one
// after the other with nothing in between.
func TestWarmTimes(t *testing.T) {
	if os.Getenv("FLISK_TEST_LONG") != "1" {
		t.Skip("takes a minute, and means something on a machine that does nothing else (FLISK_TEST_LONG=1)")
	}
	p := runtimetest.NewProject(t, realPlace(t))
	p.Up()
	p.MustTurn("s1", "a")
	p.Down()
	const runs = 11
	times := map[string][]time.Duration{}
	measure := func(what string, do func()) {
		began := time.Now()
		do()
		times[what] = append(times[what], time.Since(began))
	}
	for range runs {
		measure("up", func() { p.Up() })
		measure("second up", func() { p.Up() })
		measure("restart", func() { p.Restart() })
		measure("down", func() { p.Down() })
		f := newFloor(t, p)
		measure("calls of up", func() { f.up(t) })
		measure("calls of down", func() { f.down(t) })
	}
	median := func(what string) time.Duration {
		slices.Sort(times[what])
		return times[what][runs/2]
	}
	for _, what := range []string{"up", "calls of up", "second up", "restart", "down", "calls of down"} {
		t.Logf("%-14s %5d ms", what, median(what).Milliseconds())
	}
	for _, what := range []string{"up", "down"} {
		if took, floor := median(what), median("calls of "+what); took > floor*3/2 {
			t.Errorf("%s takes %s, and its calls %s", what, took, floor)
		}
	}
}

// floor makes the calls of an up and a down.
type floor struct {
	d          *Driver
	e          *engine
	target     target
	network    string
	containers []string
}

func newFloor(t *testing.T, p *runtimetest.Project) *floor {
	t.Helper()
	d := driverOf(p)
	e, err := d.connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := d.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := &floor{d: d, e: e}
	if f.target, err = d.target(loaded, "", e.facts.Arch); err != nil {
		t.Fatal(err)
	}
	ref := runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1}
	err = errors.Join(d.place.makeShared(), d.place.replace(d.place.static(), f.target.static),
		d.place.writeLive(live{Dir: f.target.dir, Routes: routesTo(d.o.Stack, []runtime.Ref{ref})}))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *floor) up(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	f.network, err = f.e.createNetwork(ctx, f.target.network.name, f.target.network.labels)
	must(err)
	gateway, err := f.d.serviceContainer(f.target, f.target.gateway, f.d.gatewayName())
	must(err)
	agent, err := f.d.agentContainer(f.target, runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1}, f.d.baseName("bot-1"))
	must(err)
	for _, spec := range []containerSpec{gateway, agent} {
		id, _, err := f.e.createContainer(ctx, spec)
		must(err)
		f.containers = append([]string{id}, f.containers...) // the last one is stopped first
		must(f.e.startContainer(ctx, id))
	}
	for over := time.Now().Add(30 * time.Second); ; {
		if status, _, err := ask(ctx, f.target.address, "bot"); err == nil && status == 200 {
			return
		}
		if time.Now().After(over) {
			t.Fatal("it does not get ready")
		}
	}
}

func (f *floor) down(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, id := range f.containers {
		if _, err := f.e.stopContainer(ctx, id, nil); err != nil {
			t.Fatal(err)
		}
		if err := f.e.removeContainer(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.e.removeNetwork(ctx, f.network); err != nil {
		t.Fatal(err)
	}
}
