package docker

import (
	"strings"
	"sync"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestKillWaitsForOtherChanges, and tells so.
func TestKillWaitsForOtherChanges(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	d := driverOf(p)
	waits := make(chan string, 1)
	d.o.Warn = func(text string) { waits <- text }
	held, err := claim.File(d.place.lock)
	if err != nil {
		t.Fatal(err)
	}
	fake.ResetCalls()
	killed := make(chan error, 1)
	go func() {
		_, err := d.Kill(t.Context(), "bot")
		killed <- err
	}()
	if text := <-waits; !strings.Contains(text, "wait for another flisk command") {
		t.Errorf("the warning %q", text)
	}
	if ops := fake.Ops(); len(ops) > 0 {
		t.Errorf("before its turn it asked for %v", ops)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-killed; err != nil {
		t.Error(err)
	}
}

// TestKillAndRestartAtOnce: whichever is first, both do what they should.
func TestKillAndRestartAtOnce(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{})
	p.Up()
	for range 4 {
		var all sync.WaitGroup
		for what, do := range map[string]func() error{
			"kill": func() error { _, err := p.Driver().Kill(t.Context(), "bot"); return err },
			"restart": func() error {
				_, err := p.Driver().Restart(t.Context(), "bot", &runtimetest.Progress{})
				return err
			},
		} {
			all.Go(func() {
				if err := do(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		all.Wait()
	}
	if up := p.Up(); up.Changed {
		t.Errorf("an up had to mend something: %+v", up)
	}
	p.MustTurn("s1", "a")
}
