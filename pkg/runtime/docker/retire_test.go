package docker

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// leaving is a project with two generations of its agent: one serves, and the
// other has a turn and is left. The turn's answer comes later.
func leaving(t *testing.T) (p *runtimetest.Project, fake *dockertest.Engine, old runtime.Ref, answer <-chan runtimetest.Answer) {
	t.Helper()
	p, fake = onFake(t, dockertest.Options{})
	p.Up()
	end := make(chan runtimetest.Answer, 1)
	go func() { end <- p.Turn("bot", "s1", "", "1s") }()
	runtimetest.Eventually(t, "the turn to begin", func() bool {
		begun := false
		err := p.Driver().Logs(t.Context(), runtime.LogOptions{Tail: -1}, func(l runtime.Line) error {
			begun = begun || strings.Contains(l.Text, "a turn of 1s begins")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return begun
	})
	p.Code("c2")
	d := driverOf(p)
	d.o.Leave = true
	report, err := d.Up(t.Context(), p.P)
	if err != nil || len(report.Left) != 1 || len(report.Replaced) > 0 {
		t.Fatalf("up left %+v, %v", report, err)
	}
	return p, fake, report.Left[0], end
}

func mustAnswer(t *testing.T, answer <-chan runtimetest.Answer) {
	t.Helper()
	if a := <-answer; a.Err != nil || a.Status != http.StatusOK || a.Code != "c1" {
		t.Errorf("the turn of what was left: %+v", a)
	}
}

// named are the containers of the agents, oldest first.
func named(t *testing.T, p *runtimetest.Project) (names []string) {
	t.Helper()
	l, err := driverOf(p).look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range l.agents {
		names = append(names, c.name())
	}
	return names
}

// TestRetire takes what an up left through its drain, while the new one serves, and
// gives that the name of its place.
func TestRetire(t *testing.T) {
	t.Parallel()
	p, _, old, answer := leaving(t)
	place := driverOf(p).replicaName(old)
	if names := named(t, p); len(names) != 2 || names[0] != place || names[1] == place {
		t.Errorf("beside each other are %q", names)
	}
	var changes [2]runtime.Change
	var errs [2]error
	var all sync.WaitGroup
	for i := range changes {
		d := driverOf(p)
		all.Go(func() { changes[i], errs[i] = d.Retire(t.Context(), old) })
	}
	if a := p.MustTurn("s2", "x"); a.Code != "c2" {
		t.Errorf("meanwhile answers %+v", a)
	}
	mustAnswer(t, answer)
	all.Wait()
	now := p.Replica()
	seen := 0
	for i, c := range changes {
		if errs[i] != nil {
			t.Errorf("retire %d: %v", i, errs[i])
		}
		if c.Before == (runtime.Process{}) {
			continue // it came when all was over
		}
		seen++
		if c.Agent != "bot" || c.Replica != "bot-1" || c.Exit != (runtime.Exit{}) || c.After != (runtime.Process{PID: now.PID, Start: now.Start}) {
			t.Errorf("retire %d: %+v", i, c)
		}
	}
	if seen == 0 {
		t.Error("nobody saw how it ended")
	}
	if now.Code != "c2" || !now.Serving {
		t.Errorf("what runs: %+v", now)
	}
	if names := named(t, p); len(names) != 1 || names[0] != place {
		t.Errorf("the one that is left over is called %q, want %q", names, place)
	}
	if a := p.MustTurn("s1", "b"); a.Turn != 2 || a.Code != "c2" {
		t.Errorf("the session goes on with %+v", a)
	}

	ref := runtime.Ref{Agent: now.Agent, Replica: now.Name, Generation: now.Generation}
	if _, err := p.Driver().Retire(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "serves") {
		t.Errorf("one that serves: %v", err)
	}
	if after := p.Replica(); after.PID != now.PID {
		t.Errorf("one that serves was replaced: %+v", after)
	}
	gone := func(when string) {
		t.Helper()
		if change, err := p.Driver().Retire(t.Context(), old); err != nil || change != (runtime.Change{Agent: "bot", Replica: "bot-1"}) {
			t.Errorf("one that is gone %s: %+v, %v", when, change, err)
		}
	}
	gone("beside another")
	p.Down()
	gone("with everything")
}

// TestKillBesideADrain: what finishes its turns is left to do so, and is gone then.
func TestKillBesideADrain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		answer := p.InFlight("s1", "", 3*time.Second)
		p.Code("c2")
		d := driverOf(p)
		d.o.Leave = true
		report, err := d.Up(t.Context(), p.P)
		if err != nil || len(report.Left) != 1 {
			t.Fatalf("up left %+v, %v", report, err)
		}
		over := make(chan error, 1)
		go func() {
			_, err := driverOf(p).Retire(t.Context(), report.Left[0])
			over <- err
		}()
		killed, err := p.Driver().Kill(t.Context(), "bot")
		if err != nil || len(killed) != 1 {
			t.Errorf("kill: %+v, %v", killed, err)
		}
		mustAnswer(t, answer)
		if err := <-over; err != nil {
			t.Error(err)
		}
		if names := named(t, p); len(names) != 1 {
			t.Errorf("at last there are %q", names)
		}
		if a := p.MustTurn("s1", "b"); a.Code != "c2" {
			t.Errorf("then answers %+v", a)
		}
	})
}

// TestRetireOfWhatIsStartedAgain, by hand: it is stopped again, and not left.
func TestRetireOfWhatIsStartedAgain(t *testing.T) {
	t.Parallel()
	for name, meddle := range map[string]func(p *runtimetest.Project, fake *dockertest.Engine, old runtime.Ref){
		"before it is removed": func(_ *runtimetest.Project, fake *dockertest.Engine, _ runtime.Ref) {
			fake.Fail(dockertest.Failure{Op: "ContainerRemove", Status: http.StatusConflict, Message: "You cannot remove a running container"})
		},
		"in its drain": func(p *runtimetest.Project, fake *dockertest.Engine, old runtime.Ref) {
			runtimetest.Eventually(p.T, "the stop", func() bool {
				return slices.ContainsFunc(fake.Ops(), func(op string) bool { return strings.HasPrefix(op, "ContainerStop") })
			})
			d := driverOf(p)
			l, err := d.look(p.T.Context())
			if err != nil {
				p.T.Fatal(err)
			}
			c, ok := l.at(old)
			if !ok {
				p.T.Fatal("it has ended already")
			}
			_, _ = d.signalAndStart(p.T.Context(), l.e, c, syscall.SIGKILL) // it may be gone before it is started
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, fake, old, answer := leaving(t)
			fake.ResetCalls()
			over := make(chan error, 1)
			go func() {
				_, err := driverOf(p).Retire(t.Context(), old)
				over <- err
			}()
			meddle(p, fake, old)
			if err := <-over; err != nil {
				t.Error(err)
			}
			<-answer // cut, where it was killed
			if names := named(t, p); len(names) != 1 {
				t.Errorf("at last there are %q", names)
			}
		})
	}
}

// TestImagesGoWithWhatTheyWereFor: after ups whose old generations were retired, and
// after a down of some that were not, each agent has the one image with its name.
func TestImagesGoWithWhatTheyWereFor(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		one := func(when string) {
			t.Helper()
			images, err := mustEngine(t, p).listImages(t.Context(), p.Setup.Stack.ID)
			if err != nil || len(images) != 1 || !slices.Equal(images[0].RepoTags, []string{p.Setup.Stack.Image("bot")}) {
				t.Errorf("%s there are %+v, %v", when, images, err)
			}
		}
		p.Up()
		change := func(code string) runtime.Ref {
			t.Helper()
			p.Code(code)
			d := driverOf(p)
			d.o.Leave = true
			report, err := d.Up(t.Context(), p.P)
			if err != nil || len(report.Left) != 1 {
				t.Fatalf("up left %+v, %v", report, err)
			}
			return report.Left[0]
		}
		if _, err := p.Driver().Retire(t.Context(), change("c2")); err != nil {
			t.Fatal(err)
		}
		one("after a retirement")

		ended := change("c3")
		l, err := driverOf(p).look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, _ := l.at(ended)
		if _, err := l.e.stopContainer(t.Context(), c.ID, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Driver().Retire(t.Context(), ended); err != nil {
			t.Fatal(err)
		}
		one("after one of what had ended")

		change("c4")
		p.Down()
		one("after the down")
		if _, err := driverOf(p).RemoveVolume(t.Context(), p.P); err != nil {
			t.Fatal(err)
		}
		one("without the volume")
	})
}

// TestDrainingIsSeen: one that was replaced and has a turn drains, and is neither
// starting nor failing.
func TestDrainingIsSeen(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		answer := p.InFlight("s1", "", 15*time.Second)
		p.Code("c2")
		d := driverOf(p)
		d.o.Leave = true
		report, err := d.Up(t.Context(), p.P)
		if err != nil || len(report.Left) != 1 {
			t.Fatalf("up left %+v, %v", report, err)
		}
		enough, over := make(chan struct{}), make(chan error, 1)
		retiring := driverOf(p)
		retiring.o.Force = enough
		go func() {
			_, err := retiring.Retire(t.Context(), report.Left[0])
			over <- err
		}()
		runtimetest.Eventually(t, "the old one to drain", func() bool {
			o := p.Observe()
			if len(o.Replicas) != 2 {
				t.Fatalf("there are %+v", o.Replicas)
			}
			if s := o.Replicas[1].State; s != runtime.Ready {
				t.Errorf("the new one is %s", s)
			}
			s := o.Replicas[0].State
			if s != runtime.Waiting && s != runtime.Draining {
				t.Errorf("the old one is %s", s)
			}
			return s != runtime.Waiting
		})
		close(enough)
		<-answer // whatever came of it
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

// TestRetireBesideOtherChanges neither waits for them nor minds when they were
// first.
func TestRetireBesideOtherChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *runtimetest.Project){
		"up":   func(p *runtimetest.Project) { p.Up() },
		"down": func(p *runtimetest.Project) { p.Down() },
		"an up that changes": func(p *runtimetest.Project) {
			p.Code("c3")
			p.Up()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, old, answer := leaving(t)
			place := driverOf(p).replicaName(old)
			d := driverOf(p)
			var all sync.WaitGroup
			all.Go(func() {
				if _, err := d.Retire(t.Context(), old); err != nil {
					t.Errorf("retire: %v", err)
				}
			})
			change(p)
			mustAnswer(t, answer)
			all.Wait()
			if name == "down" {
				if o := p.Observe(); o.Running || len(o.Replicas) > 0 {
					t.Errorf("down left %+v", o)
				}
				return
			}
			want := map[string]string{"up": "c2", "an up that changes": "c3"}[name]
			if now := p.Replica(); now.Code != want || !now.Serving {
				t.Errorf("what runs: %+v", now)
			}
			if names := named(t, p); len(names) != 1 || names[0] != place {
				t.Errorf("it is called %q, want %q", names, place)
			}
		})
	}
}
