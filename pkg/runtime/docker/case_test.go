package docker

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestServices: what people add in an override runs, and is changed and stopped
// with the project.
func TestServices(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{
		Images:   []dockertest.Image{{Ref: "redis:7"}},
		Registry: map[string]dockertest.Pullable{"postgres:18": {Layers: 2}},
	})
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	write(t, override, `
services:
  db: {image: "postgres:18", volumes: ["rows:/rows"], depends_on: [cache]}
  cache: {image: "redis:7"}
volumes: {rows: {}}
`)
	p.Up()
	var names []string
	for _, c := range fake.Containers() {
		names = append(names, c.Labels[composeService]+" "+c.Status)
	}
	slices.Sort(names)
	if want := []string{"bot running", "cache running", "db running", "gateway running"}; !slices.Equal(names, want) {
		t.Errorf("the containers are %v", names)
	}
	o := p.Observe()
	if len(o.Services) != 2 || o.Services[0].Name != "cache" || o.Services[1].Name != "db" {
		t.Errorf("the services, in the order of their starts: %+v", o.Services)
	}
	fake.ResetCalls()
	if up := p.Up(); up.Changed || len(fake.Ops()) > 0 {
		t.Errorf("the second up: %+v %v", up, fake.Ops())
	}
	bot := o.Replicas[0].PID
	write(t, override, `
services:
  cache: {image: "redis:7", environment: {A: b}}
`)
	p.Up()
	o = p.Observe()
	if len(o.Services) != 1 || o.Services[0].Name != "cache" || o.Replicas[0].PID != bot {
		t.Errorf("after the change: %+v", o)
	}
	p.Down()
	if c := fake.Containers(); len(c) > 0 {
		t.Errorf("down left %+v", c)
	}
	rows := p.Setup.Stack.ContainerProject() + "_rows"
	if got := fake.Volumes(); !slices.Contains(got, rows) {
		t.Errorf("the volumes are %v", got)
	}
	removed, err := driverOf(p).RemoveVolume(t.Context(), p.P)
	if err != nil || !slices.Equal(removed, []string{p.Setup.Stack.Volume.Name, rows}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// TestUnappliedKeyIsRefused: before anything is made, and what runs goes on.
func TestUnappliedKeyIsRefused(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
		refused := func() {
			t.Helper()
			write(t, override, "services: {bot: {privileged: true}}\n")
			_, err := p.Driver().Up(t.Context(), p.P)
			mustFault(t, err, fault.Usage, `service "bot"`, `flisk does not apply the key "privileged"`)
		}
		refused()
		l, err := driverOf(p).look(t.Context())
		if err != nil || len(l.everything())+len(l.networks) > 0 {
			t.Errorf("it made %+v, %v", l, err)
		}
		if v, err := l.e.listVolumes(t.Context(), p.Setup.Stack.ID); err != nil || len(v) > 0 {
			t.Errorf("it made %v, %v", v, err)
		}
		write(t, override, "services: {}\n")
		p.Up()
		before := p.Replica()
		refused()
		if after := p.Replica(); after.PID != before.PID || !after.Serving {
			t.Errorf("of %+v it made %+v", before, after)
		}
	})
}

// TestEraseLeavesNothing, also of what runs.
func TestEraseLeavesNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		p.MustTurn("s1", "a")
		if err := driverOf(p).Erase(t.Context(), p.P); err != nil {
			t.Fatal(err)
		}
		e := mustEngine(t, p)
		l, err := driverOf(p).look(t.Context())
		if err != nil || len(l.everything())+len(l.networks) > 0 {
			t.Errorf("left %+v, %v", l, err)
		}
		volumes, err := e.listVolumes(t.Context(), p.Setup.Stack.ID)
		if err != nil || len(volumes) > 0 {
			t.Errorf("left %v, %v", volumes, err)
		}
		images, err := e.listImages(t.Context(), p.Setup.Stack.ID)
		if err != nil || len(images) > 0 {
			t.Errorf("left %v, %v", images, err)
		}
		var left []string
		err = filepath.WalkDir(p.Setup.Home, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) != ".lock" {
				left = append(left, path)
			}
			return err
		})
		if err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
		p.Code("c1")
	})
}

// TestInterruptedUpTellsWhatItLeft: a way back that fails is not hidden behind the
// interruption.
func TestInterruptedUpTellsWhatItLeft(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := driverOf(p).Up(ctx, &atStep{p.P, "start bot", func() {
		cancel()
		fake.Fail(dockertest.Failure{Op: "ContainerRemove", Message: "it is stuck"})
	}})
	mustFault(t, err, fault.Interrupted, "not all")
	if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Detail, "it is stuck") {
		t.Errorf("what is left is not told: %+v", f)
	}
	if len(fake.Containers()) == 0 {
		t.Error("nothing is left")
	}
	p.Up()
}
