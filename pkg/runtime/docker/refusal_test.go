package docker

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestWhoseFaultARefusalIs: by the exit code, with what to do.
func TestWhoseFaultARefusalIs(t *testing.T) {
	t.Parallel()
	upFails := func(t *testing.T, p *runtimetest.Project, kind fault.Kind, says, hint string) {
		t.Helper()
		_, err := p.Driver().Up(t.Context(), p.P)
		mustFault(t, err, kind, says)
		if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Hint, hint) {
			t.Errorf("the hint is not %q: %#v", hint, f)
		}
	}
	override := func(t *testing.T, p *runtimetest.Project, text string) {
		t.Helper()
		write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), text)
	}
	t.Run("a name", func(t *testing.T) {
		t.Parallel()
		both(t, func(t *testing.T, p *runtimetest.Project) {
			e, name := mustEngine(t, p), driverOf(p).baseName("bot-1")
			made, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: "traefik:v3.7.13"}, nil, nil, nil, name)
			if err != nil {
				t.Fatal(err)
			}
			upFails(t, p, fault.Environment, fmt.Sprintf("has the name %q", name), "docker rename "+name)
			if err := e.removeContainer(t.Context(), made.ID); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("a port", func(t *testing.T) {
		t.Parallel()
		p, _ := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		port := ln.Addr().(*net.TCPAddr).Port
		override(t, p, fmt.Sprintf("services: {cache: {image: \"redis:7\", ports: [\"127.0.0.1:%d:6379\"]}}\n", port))
		upFails(t, p, fault.Environment, "service cache does not start", "publish another port")
		override(t, p, fmt.Sprintf("services: {bot: {ports: [\"127.0.0.1:%d:6379\"]}}\n", port))
		upFails(t, p, fault.Environment, "in use", "publish another port")
	})
	t.Run("what is mounted", func(t *testing.T) {
		t.Parallel()
		p := runtimetest.NewProject(t, realPlace(t))
		override(t, p, "services: {cache: {image: \"traefik:v3.7.13\", volumes: [\"./nowhere:/x\"]}}\n")
		upFails(t, p, fault.Usage, "nowhere", "correct its path")
	})
}
