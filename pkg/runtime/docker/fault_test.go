package docker

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// ways are how a call to the engine fails: without its effect, and with it. A long
// run has two more, which differ from these in what the driver hears.
func ways() map[string]dockertest.Failure {
	w := map[string]dockertest.Failure{"refused": {}, "answer lost": {After: true, Drop: true}}
	if os.Getenv("FLISK_TEST_LONG") == "1" {
		w["connection broken"] = dockertest.Failure{Drop: true}
		w["refused after the fact"] = dockertest.Failure{After: true}
	}
	return w
}

// everyCall fails each of the calls that change something which doing takes, one
// at a time and in every way. before brings about where it starts, and what it
// left is looked at by check.
func everyCall(t *testing.T, before, doing func(p *runtimetest.Project) error, check func(t *testing.T, p *runtimetest.Project, fake *dockertest.Engine, failed bool)) {
	for way, failure := range ways() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			calls := 0
			for n := 1; n == 1 || n <= calls; n++ {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					place, fake := fakePlace(t, dockertest.Options{API: "1.41"})
					p := runtimetest.NewProject(t, place)
					if err := before(p); err != nil {
						t.Fatal(err)
					}
					fake.ResetCalls()
					failure.N = n
					fake.Fail(failure)
					err := doing(p)
					ops := fake.Ops()
					fake.Forgive() // how many calls there are depends on how often is asked whether it is ready
					if n == 1 {
						calls = countWithout(t, before, doing)
						t.Logf("%d calls", calls)
					}
					t.Logf("%s: %v", failedOp(ops, n), err)
					check(t, p, fake, err != nil)
					if t.Failed() {
						t.Logf("calls: %v", ops)
					}
				})
			}
		})
	}
}

func failedOp(ops []string, n int) string {
	if n > len(ops) {
		return "no call"
	}
	return ops[n-1]
}

// countWithout counts the calls when nothing fails.
func countWithout(t *testing.T, before, doing func(p *runtimetest.Project) error) int {
	t.Helper()
	place, fake := fakePlace(t, dockertest.Options{API: "1.41"})
	p := runtimetest.NewProject(t, place)
	if err := before(p); err != nil {
		t.Fatal(err)
	}
	fake.ResetCalls()
	if err := doing(p); err != nil {
		t.Fatal(err)
	}
	return len(fake.Ops())
}

func nothing(*runtimetest.Project) error { return nil }

func up(p *runtimetest.Project) error {
	_, err := p.Driver().Up(p.T.Context(), p.P)
	return err
}

func turned(p *runtimetest.Project) error {
	if err := up(p); err != nil {
		return err
	}
	if a := p.Turn("bot", "s1", "", "a"); a.Turn != 1 {
		return fmt.Errorf("%+v", a)
	}
	return nil
}

// volumeKept fails the test unless the project's volume is the one with its
// conversation, and nobody asked to remove it.
func volumeKept(t *testing.T, p *runtimetest.Project, fake *dockertest.Engine) {
	t.Helper()
	if slices.Contains(fake.Ops(), "VolumeRemove") {
		t.Error("a volume was removed")
	}
	if fake.VolumeDir(p.Setup.Stack.Volume.Name) == "" {
		t.Error("the volume is gone")
	}
}

// TestC19_EveryFailureOfUp: whatever call fails, an up that says that it failed
// has left nothing but the volume, and the next one succeeds.
func TestC19_EveryFailureOfUp(t *testing.T) {
	t.Parallel()
	everyCall(t, nothing, up, func(t *testing.T, p *runtimetest.Project, fake *dockertest.Engine, failed bool) {
		if failed {
			for _, c := range fake.Containers() {
				t.Errorf("the container %s (%s) is left", c.Name, c.Status)
			}
			if n := fake.Networks(); len(n) > 0 {
				t.Errorf("the networks %v are left", n)
			}
		}
		p.Up()
		if a := p.MustTurn("s1", "a"); a.Turn != 1 {
			t.Errorf("the first turn: %+v", a)
		}
		volumeKept(t, p, fake)
		named(t, p, fake)
	})
}

// named fails the test unless the project has exactly its containers, by their
// names.
func named(t *testing.T, p *runtimetest.Project, fake *dockertest.Engine) {
	t.Helper()
	base := p.Setup.Stack.Name + "-" + p.Setup.Stack.ID[:6]
	var names []string
	for _, c := range fake.Containers() {
		names = append(names, c.Name)
		if c.Status != "running" {
			t.Errorf("%s is %s", c.Name, c.Status)
		}
	}
	if want := []string{base + "-bot-1", base + "-gateway-1"}; !slices.Equal(names, want) {
		t.Errorf("the containers are %v, want %v", names, want)
	}
}

// TestC19_EveryFailureOfRestart: whatever call fails, an agent serves, with the
// whole conversation, and the next up brings everything into order.
func TestC19_EveryFailureOfRestart(t *testing.T) {
	t.Parallel()
	everyCall(t, turned, func(p *runtimetest.Project) error {
		_, err := p.Driver().Restart(p.T.Context(), "", p.P)
		return err
	}, func(t *testing.T, p *runtimetest.Project, fake *dockertest.Engine, _ bool) {
		if a := p.MustTurn("s1", "b"); a.Turn != 2 {
			t.Errorf("after the restart: %+v", a)
		}
		p.Up()
		if a := p.MustTurn("s1", "c"); a.Turn != 3 {
			t.Errorf("after the up: %+v", a)
		}
		volumeKept(t, p, fake)
		named(t, p, fake)
	})
}

// TestC19_EveryFailureOfAMove: whatever call fails while the gateway moves to
// another port, the next up succeeds.
func TestC19_EveryFailureOfAMove(t *testing.T) {
	t.Parallel()
	everyCall(t, turned, func(p *runtimetest.Project) error {
		p.Setup.Stack.Gateway.Port = porttest.Free(p.T)
		return up(p)
	}, func(t *testing.T, p *runtimetest.Project, fake *dockertest.Engine, _ bool) {
		p.Up()
		if a := p.MustTurn("s1", "b"); a.Turn != 2 {
			t.Errorf("after the move: %+v", a)
		}
		volumeKept(t, p, fake)
		named(t, p, fake)
	})
}

// TestC17_EveryFailureOfDown: whatever call fails, the next down has stopped
// everything, and the conversation is there after it.
func TestC17_EveryFailureOfDown(t *testing.T) {
	t.Parallel()
	everyCall(t, turned, func(p *runtimetest.Project) error {
		_, err := p.Driver().Down(p.T.Context(), p.P)
		return err
	}, func(t *testing.T, p *runtimetest.Project, fake *dockertest.Engine, _ bool) {
		p.Down()
		if c, n := fake.Containers(), fake.Networks(); len(c)+len(n) > 0 {
			t.Errorf("down left %v, %v", c, n)
		}
		volumeKept(t, p, fake)
		p.Up()
		if a := p.MustTurn("s1", "b"); a.Turn != 2 {
			t.Errorf("after down and up: %+v", a)
		}
	})
}
