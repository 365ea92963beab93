package docker

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestForcedChangeOfTheVolume: a program that is to end at once gets SIGKILL.
func TestForcedChangeOfTheVolume(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	force := make(chan struct{})
	close(force)
	p.Setup.Force = force
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := driverOf(p).ChangeVolume(ctx, p.P, Command{Stdout: io.Discard, Stderr: io.Discard}) // it serves, and does not end
		ended <- err
	}()
	runtimetest.Eventually(t, "the program to run", func() bool {
		return slices.ContainsFunc(fake.Containers(), func(c dockertest.ContainerState) bool { return c.Status == "running" })
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if ops := fake.Ops(); !slices.Contains(ops, "ContainerKill") {
		t.Errorf("it was not killed: %v", ops)
	}
}

// TestVolumeOfAnotherInstance: the engine gives what is there to whoever would
// make it.
func TestVolumeOfAnotherInstance(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	d := driverOf(p)
	e := mustEngine(t, p)
	fake.AddVolume("rows", map[string]string{labelProject: p.Setup.Stack.ID, labelInstance: "two"})
	err := d.makeVolume(t.Context(), e, declared{name: "rows", labels: d.ourLabels()})
	mustFault(t, err, fault.Usage, `"rows"`, "not of this project")
	if err := d.makeVolume(t.Context(), e, declared{name: "lines", labels: d.ourLabels()}); err != nil {
		t.Error(err)
	}
}
