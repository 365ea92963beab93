package docker

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// errKilled ends a call where a SIGKILL would: nothing of it goes on, and nothing
// is taken back.
var errKilled = errors.New("killed")

// killedAfter ends an up when a step has come to its end.
func killedAfter(t *testing.T, p *runtimetest.Project, step string) {
	t.Helper()
	defer func() {
		if r := recover(); r != errKilled {
			t.Errorf("it ended with %v", r)
		}
	}()
	_, err := p.Driver().Up(t.Context(), killAfter{p.P, step})
	t.Errorf("it came to its end: %v", err)
}

type killAfter struct {
	runtime.Progress
	step string
}

func (k killAfter) Begin(step string) func(string, error) {
	end := k.Progress.Begin(step)
	return func(detail string, err error) {
		end(detail, err)
		if step == k.step {
			panic(errKilled)
		}
	}
}

// override is a gateway with a setting that means nothing.
func override(t *testing.T, p *runtimetest.Project, x int) {
	t.Helper()
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), fmt.Sprintf("services: {gateway: {environment: {X: \"%d\"}}}\n", x))
}

// TestC28_GatewaySwapThatWasKilled leaves two gateways, and a further one takes
// their place, however often that happens.
func TestC28_GatewaySwapThatWasKilled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		p.MustTurn("s1", "a")
		for x := range 3 {
			override(t, p, x)
			killedAfter(t, p, "start gateway again")
			if a := p.MustTurn("s1", "b"); a.Turn != x+2 {
				t.Errorf("after kill %d: %+v", x, a)
			}
		}
		override(t, p, 3)
		p.Up()
		l, err := driverOf(p).look(t.Context())
		if err != nil || len(l.gateways) != 1 || l.gateways[0].name() != driverOf(p).gatewayName() {
			t.Fatalf("there are %d gateways, %v", len(l.gateways), err)
		}
		if !slices.Contains(l.gateways[0].Config.Env, "X=3") {
			t.Errorf("the gateway has %q", l.gateways[0].Config.Env)
		}
		if a := p.MustTurn("s1", "c"); a.Turn != 5 {
			t.Errorf("after the up: %+v", a)
		}
	})
}

// TestGatewayThatCannotBeMade leaves the one that serves alone.
func TestGatewayThatCannotBeMade(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	override(t, p, 1)
	fake.ResetCalls()
	fake.Fail(dockertest.Failure{Op: "ContainerCreate"})
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "cannot create the container")
	if ops := strings.Join(fake.Ops(), " "); strings.Contains(ops, "ContainerStop") {
		t.Errorf("it did %s", ops)
	}
	p.MustTurn("s1", "a")
}

// TestGatewayThatDoesNotServe with its new settings gives its place back to the one
// that did, and its own last words are in the error.
func TestGatewayThatDoesNotServe(t *testing.T) {
	t.Parallel()
	fails := func(t *testing.T, p *runtimetest.Project, gateway, what, words string) {
		t.Helper()
		p.Up()
		before := containersOf(t, p)["gateway"].ID
		write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {gateway: "+gateway+"}\n")
		d := driverOf(p)
		d.o.GatewayTimeout = time.Second
		_, err := d.Up(t.Context(), p.P)
		mustFault(t, err, fault.Failed, what)
		if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Detail, words) || !strings.Contains(f.Hint, "compose.override.yaml") {
			t.Errorf("the last words or the hint are missing: %+v", f)
		}
		l, err := d.look(t.Context())
		if err != nil || len(l.gateways) != 1 || l.gateways[0].ID != before {
			t.Errorf("of %s there are %d gateways, %v", before, len(l.gateways), err)
		}
		p.MustTurn("s1", "a")
	}
	t.Run("another image", func(t *testing.T) {
		t.Parallel()
		p, _ := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "something-else:1"}}})
		fails(t, p, `{image: "something-else:1"}`, "the gateway does not serve its routes", "")
	})
	t.Run("it ends", func(t *testing.T) {
		t.Parallel()
		fails(t, runtimetest.NewProject(t, realPlace(t)), `{command: ["--nonsense"]}`, "the gateway ended", "--tracing")
	})
	t.Run("no settings", func(t *testing.T) {
		t.Parallel()
		fails(t, runtimetest.NewProject(t, realPlace(t)), `{command: ["--configFile=/nope.yaml"]}`, "the gateway does not serve its routes", "")
	})
}

// TestGatewayRemovedDuringAnUp is not waited for: what ran before is left for the
// up that makes another.
func TestGatewayRemovedDuringAnUp(t *testing.T) {
	t.Parallel()
	for when, change := range map[string]func(p *runtimetest.Project){
		"before the switch": func(p *runtimetest.Project) { p.Code("c2") },
		"before the answer": func(p *runtimetest.Project) { pauseAgent(p) }, // nothing is switched to mend it
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, p *runtimetest.Project) {
				p.Up()
				p.MustTurn("s1", "a")
				change(p)
				d, e, gateway := driverOf(p), mustEngine(t, p), containersOf(t, p)["gateway"].ID
				d.o.Leave, d.o.GatewayTimeout = true, 5*time.Minute
				d.o.Told = func(told runtime.Event) {
					if told.Steps != nil && told.Steps[0].Do == runtime.Await && !told.Ended {
						_, _, err := e.signalContainer(t.Context(), gateway, syscall.SIGKILL)
						if err = errors.Join(err, e.removeContainer(t.Context(), gateway)); err != nil {
							t.Error(err)
						}
					}
				}
				began := time.Now()
				_, err := d.Up(t.Context(), p.P)
				mustFault(t, err, fault.Failed, "the gateway's container was removed, and not by flisk")
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it was waited for %s", took)
				}
				p.Up()
				if a := p.MustTurn("s1", "b"); a.Turn != 2 {
					t.Errorf("after an up: %+v", a)
				}
			})
		})
	}
}

func pauseAgent(p *runtimetest.Project) {
	p.T.Helper()
	if err := mustEngine(p.T, p).api.ContainerPause(p.T.Context(), containersOf(p.T, p)["bot"].ID); err != nil {
		p.T.Fatal(err)
	}
}
