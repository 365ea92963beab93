package docker

import (
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// neighbour is a running container with labels, beside those of the project.
func neighbour(t *testing.T, e *engine, name string, labels map[string]string, networks ...attachment) (id string) {
	t.Helper()
	id, _, err := e.createContainer(t.Context(), containerSpec{
		name: name, config: container.Config{Image: "redis:7", Labels: labels}, networks: networks,
	})
	if err == nil {
		err = e.startContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func statusOf(fake *dockertest.Engine, id string) string {
	for _, c := range fake.Containers() {
		if c.ID == id {
			return c.Status
		}
	}
	return "gone"
}

// TestNeighbourOnTheNetwork: a down goes on without the network that somebody
// else's container is on, says so, and touches neither.
func TestNeighbourOnTheNetwork(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	p.Up()
	e, network := mustEngine(t, p), p.Setup.Stack.Network()
	id := neighbour(t, e, "theirs", map[string]string{labelProject: "other"}, attachment{network: network})
	d := driverOf(p)
	var said []string
	d.o.Warn = func(text string) { said = append(said, text) }
	if _, err := d.Down(t.Context(), p.P); err != nil {
		t.Error(err)
	}
	if len(said) != 1 || !strings.Contains(said[0], network) || !strings.Contains(said[0], "stays") {
		t.Errorf("the warnings %q", said)
	}
	if n := fake.Networks(); !slices.Equal(n, []string{network}) || statusOf(fake, id) != "running" {
		t.Errorf("the networks are %q, and theirs is %s", n, statusOf(fake, id))
	}
	if _, err := e.stopContainer(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	if err := e.removeContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if down := p.Down(); !down.Changed || len(fake.Networks()) > 0 {
		t.Errorf("the next down: %+v, and the networks are %q", down, fake.Networks())
	}
}

// TestStoppedNeighbourKeepsItsNetwork: somebody else's container that has stopped, or
// was never started, finds its network when it starts.
func TestStoppedNeighbourKeepsItsNetwork(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		e, network := mustEngine(t, p), p.Setup.Stack.Network()
		for _, began := range []bool{true, false} {
			p.Up()
			name := "flisk-test-" + newName()
			id, _, err := e.createContainer(t.Context(), containerSpec{
				name: name, networks: []attachment{{network: network}},
				config: container.Config{Image: stack.GatewayImage, Cmd: []string{"--configFile=/etc/traefik/static.yaml"}, Labels: map[string]string{labelProject: "other"}},
				host:   container.HostConfig{Mounts: containersOf(t, p)["gateway"].HostConfig.Mounts},
			})
			if err != nil {
				t.Fatal(err)
			}
			if began {
				if err := e.startContainer(t.Context(), id); err != nil {
					t.Error(err)
				}
				if _, err := e.stopContainer(t.Context(), id, nil); err != nil {
					t.Error(err)
				}
			}
			d := driverOf(p)
			var said []string
			d.o.Warn = func(text string) { said = append(said, text) }
			if _, err := d.Down(t.Context(), p.P); err != nil {
				t.Error(err)
			}
			if len(said) != 1 || !strings.Contains(said[0], network) || !strings.Contains(said[0], name) {
				t.Errorf("the warnings %q", said)
			}
			if _, err := e.inspectNetwork(t.Context(), network); err != nil {
				t.Errorf("the network: %v", err)
			}
			if err := e.removeContainer(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if down := p.Down(); !down.Changed {
			t.Errorf("the next down: %+v", down)
		}
	})
}

// TestOneOffContainerStays: what somebody runs with `docker compose run` is no
// replica, and is theirs to end.
func TestOneOffContainerStays(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	p.Up()
	id := neighbour(t, mustEngine(t, p), "oneoff", map[string]string{
		labelProject: p.Setup.Stack.ID, labelAgent: "bot", composeService: "bot", composeOneOff: "True",
	})
	p.Replica()
	if up := p.Up(); up.Changed {
		t.Errorf("up beside it: %+v", up)
	}
	p.Down()
	if s := statusOf(fake, id); s != "running" {
		t.Errorf("after down it is %s", s)
	}
}
