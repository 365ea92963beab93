package docker

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestKillWhoseAnswerGetsLost: what it killed does not stay down.
func TestKillWhoseAnswerGetsLost(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"ContainerKill", "ContainerWait"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			p, fake := onFake(t, dockertest.Options{})
			p.Up()
			before := p.Replica()
			fake.Fail(dockertest.Failure{Op: op, After: true, Drop: true})
			_, err := p.Driver().Kill(t.Context(), "bot")
			mustFault(t, err, fault.Environment, "container", "broke: EOF")
			if strings.Contains(err.Error(), "http:") {
				t.Errorf("it has a URL in it: %v", err)
			}
			runtimetest.Eventually(t, "the agent to be back", func() bool {
				r := p.Replica()
				return r.State == runtime.Ready && r.PID != before.PID
			})
		})
	}
}

// TestKillOfWhatIsDown says what brings it up.
func TestKillOfWhatIsDown(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	fake.Fail(dockertest.Failure{Op: "ContainerStart"})
	_, err := p.Driver().Kill(t.Context(), "bot")
	mustFault(t, err, fault.Failed, "cannot start the container")
	_, err = p.Driver().Kill(t.Context(), "bot")
	mustFault(t, err, fault.Failed, `agent "bot" has no running process`)
	if f, _ := errors.AsType[*fault.Fault](err); f.Hint != "flisk up starts it" {
		t.Errorf("the hint is %q", f.Hint)
	}
	p.Up()
	p.MustTurn("s1", "a")
}

// TestCreateWhoseAnswerGetsLost leaves no container, and touches none that has its
// name already.
func TestCreateWhoseAnswerGetsLost(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	s := r.spec("a")
	id := r.start(s)
	for _, name := range []string{"a", "b"} {
		s.name = r.name(name)
		r.fake.Fail(dockertest.Failure{Op: "ContainerCreate", After: name == "b", Drop: true})
		_, _, err := r.e.createContainer(t.Context(), s)
		mustFault(t, err, fault.Environment, s.name, "broke: EOF")
	}
	if c := r.fake.Containers(); len(c) != 1 || c[0].ID != id || c[0].Status != "running" {
		t.Errorf("the containers are %+v", c)
	}
}

// TestWhatALostCreateLeaves is told when it cannot be removed.
func TestWhatALostCreateLeaves(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	s := r.spec("a")
	r.fake.Fail(dockertest.Failure{Op: "ContainerCreate", After: true, Drop: true})
	r.fake.Fail(dockertest.Failure{Op: "ContainerRemove", Message: "it is stuck"})
	_, _, err := r.e.createContainer(t.Context(), s)
	mustFault(t, err, fault.Environment, s.name, "broke: EOF", "it is stuck")
}

// TestReaderThatIsNotRemoved is removed at the second try.
func TestReaderThatIsNotRemoved(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	before := len(fake.Containers())
	fake.Fail(dockertest.Failure{Op: "ContainerRemove"})
	err := driverOf(p).ReadVolume(t.Context(), func(string) error { return fs.ErrInvalid })
	if !errors.Is(err, fs.ErrInvalid) || fault.KindOf(err) != fault.Failed {
		t.Errorf("the error is %v", err)
	}
	if now := fake.Containers(); len(now) != before {
		t.Errorf("the containers are %+v", now)
	}
}

// TestEngineInTrouble is not one that is not there.
func TestEngineInTrouble(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"ServerVersion", "Info"} {
		for what, failure := range map[string]dockertest.Failure{"no space left on device": {Message: "no space left on device"}, "unexpected EOF": {Cut: true}} {
			fake := dockertest.Start(t, dockertest.Options{})
			failure.Op = op
			fake.Fail(failure)
			_, err := connect(context.Background(), Endpoint{Host: fake.Host(), Why: "the test"}, "")
			mustFault(t, err, fault.Environment, "does not answer as it should", what)
		}
	}
}
