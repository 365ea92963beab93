package docker

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/network"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestWhatRunsAndIsOfNoUse: what somebody paused, or took off the network, is told
// of as that by status and as the cause of the plan, and an up mends it without a
// new container.
func TestWhatRunsAndIsOfNoUse(t *testing.T) {
	t.Parallel()
	pause := func(t *testing.T, e *engine, c seen) error { return e.api.ContainerPause(t.Context(), c.ID) }
	disconnect := func(t *testing.T, e *engine, c seen) error {
		return e.api.NetworkDisconnect(t.Context(), string(c.HostConfig.NetworkMode), c.ID, false)
	}
	for what, c := range map[string]struct {
		service, says string
		do            func(t *testing.T, e *engine, c seen) error
	}{
		"paused agent":      {"bot", "it is paused", pause},
		"paused gateway":    {"gateway", "it is paused", pause},
		"agent off the net": {"bot", "it is not on the network", disconnect},
		"gateway off it":    {"gateway", "it is not on the network", disconnect},
		"agent without its name": {"bot", "it has lost its name on the network", func(t *testing.T, e *engine, c seen) error {
			return errors.Join(disconnect(t, e, c), e.api.NetworkConnect(t.Context(), string(c.HostConfig.NetworkMode), c.ID, &network.EndpointSettings{}))
		}},
		"both at once": {"bot", "it is paused", func(t *testing.T, e *engine, c seen) error {
			return errors.Join(disconnect(t, e, c), e.api.ContainerPause(t.Context(), c.ID))
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, p *runtimetest.Project) {
				p.Up()
				p.MustTurn("s1", "a")
				before := containersOf(t, p)
				if err := c.do(t, mustEngine(t, p), before[c.service]); err != nil {
					t.Fatal(err)
				}
				o := p.Observe()
				r, said := o.Replicas[0], strings.Join(o.Stale, "\n")
				if c.service == "bot" {
					said = r.Detail
				}
				if r.State == runtime.Ready || r.Stuck != (c.service == "bot") || !strings.Contains(said, c.says) || !strings.Contains(said, "flisk up") {
					t.Errorf("status says %q of %+v", said, r)
				}
				plan, err := p.Driver().Plan(t.Context(), runtime.OpUp)
				if err != nil || !strings.HasPrefix(plan.String(), string(runtime.Mend)) || !strings.Contains(plan.String(), c.says) {
					t.Errorf("the plan, %v:\n%s", err, plan)
				}
				if up := p.Up(); !up.Changed {
					t.Error("the up did nothing")
				}
				if a := p.MustTurn("s1", "b"); a.Turn != 2 {
					t.Errorf("after the up: %+v", a)
				}
				if o := p.Observe(); len(o.Stale) > 0 || o.Replicas[0].State != runtime.Ready || o.Replicas[0].Stuck {
					t.Errorf("after the up: %+v", o)
				}
				for service, now := range containersOf(t, p) {
					if now.ID != before[service].ID {
						t.Errorf("the container of %s is another one", service)
					}
				}
				if up := p.Up(); up.Changed {
					t.Error("the second up did something")
				}
			})
		})
	}
}

// TestAgentThatHangs is told of with what helps; it may only be busy, so nothing is
// replaced for it.
func TestAgentThatHangs(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{})
	p.Up()
	pid := p.Replica().PID
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r := p.Replica()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if r.State != runtime.Starting || r.Stuck || !strings.Contains(r.Detail, "it does not answer") || !strings.Contains(r.Detail, "flisk restart bot") {
		t.Errorf("it is told as %+v", r)
	}
}

// TestPausedServiceIsMended, and down stops what is paused.
func TestPausedServiceIsMended(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {cache: {image: \"redis:7\"}}\n")
	p.Up()
	e := mustEngine(t, p)
	cache := containersOf(t, p)["cache"]
	if err := e.api.ContainerPause(t.Context(), cache.ID); err != nil {
		t.Fatal(err)
	}
	if o := p.Observe(); len(o.Stale) != 1 || !strings.Contains(o.Stale[0], "the service cache is of no use: it is paused") {
		t.Errorf("status says %q", o.Stale)
	}
	p.Up()
	if now := containersOf(t, p)["cache"]; now.State.Paused || now.ID != cache.ID {
		t.Errorf("of %s the up made %s, paused: %t", cache.ID, now.ID, now.State.Paused)
	}
}

// TestDownOfWhatIsPaused stops it like anything else.
func TestDownOfWhatIsPaused(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		e := mustEngine(t, p)
		for _, c := range containersOf(t, p) {
			if err := e.api.ContainerPause(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
		p.Down()
		if o := p.Observe(); o.Running {
			t.Errorf("after the down: %+v", o)
		}
		if said := p.P.String(); strings.Contains(said, "is lost") {
			t.Errorf("something was killed:\n%s", said)
		}
	})
}

// TestGatewayThatIsMute is started again by an up, which says why.
func TestGatewayThatIsMute(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, realPlace(t))
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {gateway: {stop_grace_period: 1s}}\n")
	p.Up()
	p.MustTurn("s1", "a")
	before := containersOf(t, p)["gateway"]
	if err := mustEngine(t, p).api.ContainerKill(t.Context(), before.ID, "SIGSTOP"); err != nil { // the engine does not know of it
		t.Fatal(err)
	}
	o := p.Observe()
	if len(o.Stale) != 1 || !strings.Contains(o.Stale[0], "the gateway does not serve: it does not answer; flisk up mends that") || o.Replicas[0].State != runtime.Waiting {
		t.Errorf("status says %+v", o)
	}
	d := driverOf(p)
	d.o.GatewayTimeout = time.Second
	if up, err := d.Up(t.Context(), p.P); err != nil || !up.Changed {
		t.Errorf("the up: %+v, %v", up, err)
	}
	if !strings.Contains(p.P.String(), "begin mend gateway: it does not answer") {
		t.Errorf("nobody says why the gateway was started again:\n%s", p.P)
	}
	if now := containersOf(t, p)["gateway"]; now.ID != before.ID || now.State.Pid == before.State.Pid {
		t.Errorf("the gateway is %s with process %d", now.ID, now.State.Pid)
	}
	p.MustTurn("s1", "b")
}

// TestC19_UpAfterADownThatWasKilled waits for what that one has told to stop, and
// starts it again; nothing of it is taken for what serves.
func TestC19_UpAfterADownThatWasKilled(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"bot", "gateway"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, p *runtimetest.Project) {
				p.Up()
				p.MustTurn("s1", "a")
				d := driverOf(p)
				l, err := d.look(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				d.sayEnding(l)
				c := containersOf(t, p)[service]
				held := p.InFlight("s1", "", 3*time.Second) // and with it what is told to stop
				stopped := make(chan error, 1)
				go func() {
					_, err := l.e.stopContainer(t.Context(), c.ID, nil)
					stopped <- err
				}()
				runtimetest.Eventually(t, "the drain", func() bool {
					if service == "gateway" {
						_, _, err := ask(t.Context(), c.address(), "bot")
						return err != nil
					}
					ready, err := healthy(t.Context(), l.e, c.ID, healthCommand(c.Config.Healthcheck))
					return err == nil && !ready
				})
				p.Up()
				if a := <-held; a.Status != http.StatusOK {
					t.Errorf("the turn in flight: %+v", a)
				}
				if err := <-stopped; err != nil {
					t.Error(err)
				}
				if a := p.MustTurn("s1", "b"); a.Turn != 3 {
					t.Errorf("after the up: %+v", a)
				}
				if o := p.Observe(); len(o.Stale) > 0 || o.Replicas[0].State != runtime.Ready {
					t.Errorf("after the up: %+v", o)
				}
			})
		})
	}
}
