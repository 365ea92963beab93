package docker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestC19_FailedUpLeavesOnlyTheVolume, and neither its network nor its image.
func TestC19_FailedUpLeavesOnlyTheVolume(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	fake.Fail(dockertest.Failure{Op: "ContainerStart"})
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "cannot start the container")
	if c, n := fake.Containers(), fake.Networks(); len(c)+len(n) > 0 {
		t.Errorf("it left %+v, %q", c, n)
	}
	images, err := mustEngine(t, p).listImages(t.Context(), p.Setup.Stack.ID)
	if err != nil || len(images) > 0 {
		t.Errorf("it left %d images, %v", len(images), err)
	}
	if fake.VolumeDir(p.Setup.Stack.Volume.Name) == "" {
		t.Error("the volume that it made is gone")
	}
}

// TestFailedChangeGivesTheImageItsNameBack: plain Compose would start what has it.
func TestFailedChangeGivesTheImageItsNameBack(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	e := mustEngine(t, p)
	image := func() (id string) {
		t.Helper()
		images, err := e.listImages(t.Context(), p.Setup.Stack.ID)
		if err != nil || len(images) != 1 || len(images[0].RepoTags) != 1 {
			t.Fatalf("the images are %+v, %v", images, err)
		}
		return images[0].ID
	}
	before := image()
	p.Code("c2")
	fake.Fail(dockertest.Failure{Op: "ContainerCreate"})
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "cannot create the container")
	if after := image(); after != before {
		t.Errorf("the image is %s, and was %s", after, before)
	}
	p.Up()
	if a := p.MustTurn("s1", "a"); a.Code != "c2" {
		t.Errorf("the next up runs %q", a.Code)
	}
}

// endingAt ends a context when a step begins.
type endingAt struct {
	runtime.Progress
	step string
	end  func()
}

func (e endingAt) Begin(step string) func(string, error) {
	if strings.HasPrefix(step, e.step) {
		e.end()
	}
	return e.Progress.Begin(step)
}

// TestC13_CtrlCAfterTheLastTurningBack: a plan that has stopped the old one comes
// to its end, also for services that are not wanted any more.
func TestC13_CtrlCAfterTheLastTurningBack(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	write(t, override, "services: {cache: {image: \"redis:7\"}}\n")
	p.Up()
	p.Code("c2")
	if err := os.Remove(override); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.Driver().Up(ctx, endingAt{p.P, "stop bot-1", cancel})
	if ctx.Err() == nil {
		t.Fatal("it was not interrupted")
	}
	if err != nil {
		t.Errorf("what could not be taken back did not come to its end: %v", err)
	}
	for _, c := range fake.Containers() {
		if c.Labels[composeService] == "cache" {
			t.Errorf("%s is left (%s)", c.Name, c.Status)
		}
	}
}

// TestC19_NoWayBackOnceTheOldOneHasStopped: what replaced it goes on serving, and
// the next up finishes what was begun.
func TestC19_NoWayBackOnceTheOldOneHasStopped(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	fake.Fail(dockertest.Failure{Op: "ContainerRemove"})
	_, err := p.Driver().Restart(t.Context(), "", p.P)
	mustFault(t, err, fault.Failed, "cannot remove the container")
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after it: %+v", a)
	}
	if up := p.Up(); !up.Changed {
		t.Errorf("the next up: %+v", up)
	}
	if c := fake.Containers(); len(c) != 2 {
		t.Errorf("the containers are %+v", c)
	}
	if a := p.MustTurn("s1", "c"); a.Turn != 3 || p.Replica().Generation != 2 {
		t.Errorf("after that: %+v", a)
	}
}

// TestC19_FailedMoveGivesThePortBack: the gateway that was stopped for another one
// serves again, where it did.
func TestC19_FailedMoveGivesThePortBack(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	was := p.Setup.Stack.Gateway.Port
	p.Setup.Stack.Gateway.Port = porttest.Free(t)
	fake.Fail(dockertest.Failure{Op: "ContainerCreate", N: 2})
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "cannot create the container", "gateway")
	p.Setup.Stack.Gateway.Port = was
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after it: %+v", a)
	}
}

// TestC19_PortInUseIsFoundFirst: before anything is made for nothing.
func TestC19_PortInUseIsFoundFirst(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	runtimetest.Occupy(t, p.Setup.Stack.Gateway.Port)
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, "is in use")
	if ops := fake.Ops(); len(ops) > 0 {
		t.Errorf("it asked for %v", ops)
	}
}
