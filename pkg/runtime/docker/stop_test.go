package docker

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// TestC11_IdleDown: an idle agent exits 0 at once. The case gives a down two
// seconds; what the machine does besides may make it five times that.
func TestC11_IdleDown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		began := time.Now()
		p.Down()
		took := time.Since(began)
		const limit, deadlines = 2 * time.Second, 5
		if took > limit*deadlines || !strings.Contains(p.P.String(), "end stop bot-1: exit code 0") {
			t.Errorf("down took %s:\n%s", took, p.P)
		}
		t.Logf("C11: an idle down took %d ms (at most %s)", took.Milliseconds(), limit)
	})
}

// TestC13_CtrlCDoesNotCutTheGrace: on engines that kill when the client of a stop
// leaves, nobody leaves: the turn in flight is answered although the context of
// the down has ended.
func TestC13_CtrlCDoesNotCutTheGrace(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{CancelKills: true})
	p.Up()
	answer := p.InFlight("s1", "", 3*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Driver().Down(ctx, p.P)
		ended <- err
	}()
	runtimetest.Eventually(t, "the stop", func() bool { return slices.Contains(fake.Ops(), "ContainerStop") })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("down: %v", err)
	}
	if a := <-answer; a.Status != http.StatusOK {
		t.Errorf("the turn in flight: %+v", a)
	}
}

// TestC12_ForceKills: a closed force channel ends the waiting by SIGKILL.
func TestC12_ForceKills(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	answer := p.InFlight("s1", "", 3*time.Second)
	force := make(chan struct{})
	p.Setup.Force = force
	ended := make(chan error, 1)
	go func() {
		_, err := p.Driver().Down(t.Context(), p.P)
		ended <- err
	}()
	runtimetest.Eventually(t, "the stop", func() bool { return slices.Contains(fake.Ops(), "ContainerStop") })
	close(force)
	if err := <-ended; err != nil {
		t.Errorf("down: %v", err)
	}
	if a := <-answer; a.Err == nil && a.Status == http.StatusOK {
		t.Errorf("the turn was not cut: %+v", a)
	}
	if !strings.Contains(p.P.String(), "what it had not committed is lost") {
		t.Errorf("nobody says that turns are cut:\n%s", p.P)
	}
}

// TestC08_AgentThatDiesComesBack: the engine starts it again.
func TestC08_AgentThatDiesComesBack(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	process, err := os.FindProcess(before.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil { // from outside the engine: it is no kill by hand
		t.Fatal(err)
	}
	runtimetest.Eventually(t, "the agent to be back", func() bool {
		r := p.Replica()
		return r.State == runtime.Ready && r.PID != before.PID && r.Restarts == 1
	})
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after it: %+v", a)
	}
	fake.ResetCalls()
	if up := p.Up(); up.Changed || len(fake.Ops()) > 0 {
		t.Errorf("up after it: %+v %v", up, fake.Ops())
	}
}

// TestStoppedByHand: what somebody stopped or killed with docker is brought back.
func TestStoppedByHand(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"bot", stack.GatewayService} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, p *runtimetest.Project) {
				p.Up()
				p.MustTurn("s1", "a")
				l, err := driverOf(p).look(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range l.everything() {
					if c.service() == service {
						if _, err := l.e.stopContainer(t.Context(), c.ID, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				if o := p.Observe(); service == stack.GatewayService && len(o.Stale) != 1 || service == "bot" && o.Replicas[0].State != runtime.Failing {
					t.Errorf("observed %+v", o)
				}
				p.Up()
				if a := p.MustTurn("s1", "b"); a.Turn != 2 {
					t.Errorf("after it: %+v", a)
				}
				l, err = driverOf(p).look(t.Context())
				if err != nil || len(l.everything()) != 2 {
					t.Errorf("%d containers, %v", len(l.everything()), err)
				}
			})
		})
	}
}

// TestCrashLoopIsTold: an agent that ends again and again says why in status.
func TestCrashLoopIsTold(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	// It cannot start again without its volume's file.
	name := filepath.Join(fake.VolumeDir(p.Setup.Stack.Volume.Name), "VOLUME")
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Driver().Kill(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	runtimetest.Eventually(t, "the loop", func() bool {
		r := p.Replica()
		return r.State == runtime.Failing && strings.Contains(r.Detail, "the last that it wrote: ")
	})
}
