package docker

import (
	"errors"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// TestAttachedUndoesNoDown: an attached up keeps up what runs, and brings nothing
// back that a down has stopped, also while that counts what it keeps.
func TestAttachedUndoesNoDown(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{})
	p.Up()
	d := driverOf(p)
	d.o.Attached = true
	if report, err := d.Up(t.Context(), p.P); err != nil || report.Changed {
		t.Errorf("while it runs: %+v, %v", report, err)
	}
	p.Down()
	reader := containerSpec{name: d.baseName("reader") + "-x", config: container.Config{Image: p.Setup.Stack.Image("bot"), Labels: d.ourLabels()}}
	reader.config.Labels[labelReader] = "true"
	e := mustEngine(t, p)
	id, _, err := e.createContainer(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.look(t.Context())
	if err != nil || len(l.readers) != 1 {
		t.Fatalf("%d readers, %v", len(l.readers), err)
	}
	if report, err := d.Up(t.Context(), p.P); !errors.Is(err, runtime.ErrStopped) {
		t.Errorf("after a down: %+v, %v", report, err)
	}
	if err := e.removeContainer(t.Context(), id); err != nil {
		t.Error(err)
	}
}
