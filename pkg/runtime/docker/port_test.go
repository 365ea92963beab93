package docker

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// TestC19_PortOfAnotherContainer: the engine itself knows of a port that nobody
// on this machine is seen to listen on.
func TestC19_PortOfAnotherContainer(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	fake.Fail(dockertest.Failure{Op: "ContainerStart", Message: "driver failed programming external connectivity: Bind for 127.0.0.1:1 failed: port is already allocated"})
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, fmt.Sprintf("port %d is in use", p.Setup.Stack.Gateway.Port))
	if c := fake.Containers(); len(c) > 0 {
		t.Errorf("left: %+v", c)
	}
	p.Up()
}

func TestC19_NoSubnetNamesTheUnused(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	other, err := connect(t.Context(), Endpoint{Host: fake.Host()}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if _, err := other.createNetwork(t.Context(), "forgotten", map[string]string{labelProject: "ffffffffffff"}); err != nil {
		t.Fatal(err)
	}
	fake.Fail(dockertest.Failure{Op: "NetworkCreate", Message: "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"})
	_, err = p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, "non-overlapping")
	if f, _ := errors.AsType[*fault.Fault](err); f == nil || f.Detail != "forgotten\n" || !strings.Contains(f.Hint, "docker network rm") {
		t.Errorf("the fault does not say what could be removed: %+v", err)
	}
	if n := fake.Networks(); !slices.Equal(n, []string{"forgotten"}) {
		t.Errorf("the networks are %v", n)
	}
}

// TestC19_SecondUpAsksForNothing: an up of an unchanged stack makes no call that
// could change anything.
func TestC19_SecondUpAsksForNothing(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		p, fake := onFake(t, dockertest.Options{API: api})
		p.Up()
		for range 2 {
			fake.ResetCalls()
			p.Up()
			if ops := fake.Ops(); len(ops) > 0 {
				t.Errorf("API %s: up of what runs asks for %v", api, ops)
			}
		}
		if ignored := fake.Ignored(); len(ignored) > 0 {
			t.Errorf("API %s ignores %v", api, ignored)
		}
	}
}

// TestC20_ReadyThroughTheGateway: an up of an agent that takes its time returns when
// that is ready through the gateway. A turn alone would not tell: the gateway holds
// it until the agent is there.
func TestC20_ReadyThroughTheGateway(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		const late = 2 * time.Second
		p.Setup.Stack.Agents[0].Env = []string{"LATE=" + late.String()}
		began := time.Now()
		p.Up()
		if took := time.Since(began); took < late {
			t.Errorf("up took %s, and the agent needs %s to start", took, late)
		}
		resp, err := http.Get(p.Setup.Stack.Gateway.URL() + turn.AgentReadyPath("bot"))
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("after an up the agent is not ready: %d", resp.StatusCode)
		}
		if a := p.Turn("bot", "s1", "", "a"); a.Err != nil || a.Status != http.StatusOK {
			t.Errorf("the first turn: %+v", a)
		}
	})
}

// TestC19_PortOfAnotherProject: what listens is the engine; whose container it is for
// is what helps.
func TestC19_PortOfAnotherProject(t *testing.T) {
	t.Parallel()
	place, fake := fakePlace(t, dockertest.Options{})
	other, p := runtimetest.NewProject(t, place), runtimetest.NewProject(t, place)
	other.Up()
	p.Setup.Stack.Gateway.Port = other.Setup.Stack.Gateway.Port
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, fmt.Sprintf("port %d is in use by the container %q, of the flisk project in %q",
		p.Setup.Stack.Gateway.Port, driverOf(other).gatewayName(), other.Setup.Stack.Dir))
	if f, _ := errors.AsType[*fault.Fault](err); f == nil || !strings.Contains(f.Hint, fmt.Sprintf("flisk -C %q down", other.Setup.Stack.Dir)) {
		t.Errorf("the hint: %+v", err)
	}
	if n := len(fake.Containers()); n != 2 {
		t.Errorf("%d containers, want the two of the other project", n)
	}
}
