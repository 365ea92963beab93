package docker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// everyday is how many failures of each command are injected when not all are, at one
// of the versions, and which those are changes from run to run. FLISK_TEST_SEED, as a run printed
// it, is that run's choice again; FLISK_TEST_LONG=1 takes all.
const everyday = 3

// mostOfOne bounds how many calls of one operation fail in turn: those above it
// ask once more what was asked before, because something was not ready yet.
const mostOfOne = 10

// command is what a person asks for, between two states of a project.
type command struct {
	name   string
	before func(f *failing) error
	do     func(f *failing) error
	after  func(f *failing, err error) // right after it, whether it succeeded or not
	again  string                      // what may be said when it is given again; "" is nothing
}

// injected is one failure: of the n-th call of an operation, at a version.
type injected struct {
	api, way string
	failure  dockertest.Failure
}

func (i injected) String() string {
	return fmt.Sprintf("%s %s %d %s", i.api, i.failure.Op, i.failure.N, i.way)
}

// TestC19_EveryFailure: whatever call to the engine fails in whatever way, a
// command says so as a person's error or has done what it says; the conversation
// is whole; the same command does it when it is given again; and of what it made
// nothing is left after a down. Somebody else's things are as they were.
func TestC19_EveryFailure(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FLISK_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("FLISK_TEST_SEED=%d chooses the same again", seed)
	for _, c := range commands() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			long, choice := os.Getenv("FLISK_TEST_LONG") == "1", rand.New(rand.NewPCG(seed, 0))
			at := apis
			if !long { // each is played once to find out what it asks for
				at = []string{apis[choice.IntN(len(apis))]}
			}
			all := c.failures(t, at)
			if !long {
				choice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				all = all[:min(everyday, len(all))]
			}
			for _, i := range all {
				t.Run(i.String(), func(t *testing.T) {
					t.Parallel()
					c.fail(t, i)
				})
			}
		})
	}
}

// failures are all that a command can meet at these versions: for each call that it
// makes when nothing fails, every way in which that can fail.
func (c command) failures(t *testing.T, at []string) []injected {
	t.Helper()
	var all []injected
	for _, api := range at {
		f := newFailing(t, api)
		if err := c.before(f); err != nil {
			t.Fatal(err)
		}
		f.fake.ResetCalls()
		if err := c.do(f); err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, call := range f.fake.Calls() {
			if n[call.Op]++; n[call.Op] > mostOfOne {
				continue
			}
			for way, failure := range waysOf(call) {
				failure.Op, failure.N = call.Op, n[call.Op]
				all = append(all, injected{api, way, failure})
			}
		}
	}
	// Ways come in no order, and a seed is to choose the same again.
	slices.SortFunc(all, func(a, b injected) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	return all
}

// waysOf are the ways in which a call can fail that make a difference to it.
func waysOf(call dockertest.Call) map[string]dockertest.Failure {
	ways := map[string]dockertest.Failure{
		"is refused":         {Message: "no space left on device"},
		"does not get there": {Drop: true},
	}
	if call.Status != http.StatusNoContent && call.Status != http.StatusNotModified {
		ways["is cut"] = dockertest.Failure{Cut: true}
	}
	if call.Method != http.MethodGet && call.Method != http.MethodHead && call.Op != "ContainerExecStart" {
		ways["loses its answer"] = dockertest.Failure{After: true, Drop: true}
	}
	return ways
}

func (c command) fail(t *testing.T, i injected) {
	f := newFailing(t, i.api)
	if err := c.before(f); err != nil {
		t.Fatal(err)
	}
	f.fake.ResetCalls()
	f.fake.Fail(i.failure)
	err := c.do(f)
	calls := f.fake.Calls()
	f.fake.Forgive() // how many calls there are depends on how often is asked whether something is ready
	t.Logf("%v", err)
	defer func() {
		if t.Failed() {
			for _, call := range calls {
				t.Logf("%d %s %s", call.Status, call.Op, call.Path)
			}
		}
	}()
	if err != nil {
		f.forPeople(err, i)
	}
	c.after(f, err)
	if err := c.do(f); err != nil && (c.again == "" || !strings.Contains(err.Error(), c.again)) {
		t.Errorf("again: %v", err)
	}
	c.after(f, nil)
	f.Up()
	f.converse()
	f.inOrder()
	f.Down()
	f.nothingRuns()
	f.othersUntouched()
}

// failing is a project on an engine that fails, with a service from an override,
// beside somebody else's container, network and volume.
type failing struct {
	*runtimetest.Project
	fake   *dockertest.Engine
	said   []string // what was answered so far in the session
	others []dockertest.ContainerState
	moved  int  // the port that it moves to
	kept   bool // no command may have removed the volume
}

func newFailing(t *testing.T, api string) *failing {
	t.Helper()
	p, fake := onFake(t, dockertest.Options{API: api, Images: []dockertest.Image{{Ref: "redis:7"}}})
	f := &failing{Project: p, fake: fake, kept: true}
	f.override("A=1")
	e := mustEngine(t, p)
	labels := map[string]string{labelProject: "somebody-else"}
	fake.AddVolume("somebodys", labels)
	if _, err := e.createNetwork(t.Context(), "somebodys", labels); err != nil {
		t.Fatal(err)
	}
	s := containerSpec{name: "somebodys", networks: []attachment{{network: "somebodys"}}}
	s.config.Image, s.config.Labels = "redis:7", labels
	id, _, err := e.createContainer(t.Context(), s)
	if err == nil {
		err = e.startContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.others = f.theirs()
	return f
}

func (f *failing) override(env string) {
	f.T.Helper()
	write(f.T, filepath.Join(f.Setup.Stack.Dir, "compose.override.yaml"),
		"services: {cache: {image: \"redis:7\", environment: ["+env+"]}}\n")
}

func (f *failing) split() (ours, theirs []dockertest.ContainerState) {
	for _, c := range f.fake.Containers() {
		if c.Labels[labelProject] == f.Setup.Stack.ID {
			ours = append(ours, c)
		} else {
			theirs = append(theirs, c)
		}
	}
	return ours, theirs
}

func (f *failing) theirs() []dockertest.ContainerState {
	_, theirs := f.split()
	return theirs
}

// forPeople fails the test unless an error is one that people can do something
// with: what failed in which way, and with the exit code of that.
func (f *failing) forPeople(err error, i injected) {
	f.T.Helper()
	kind, parts := fault.Failed, []string{"cannot ", i.failure.Message}
	switch {
	case slices.Contains([]string{"Ping", "ServerVersion", "Info"}, i.failure.Op):
		kind, parts = fault.Environment, []string{"the Docker engine at "}
	case i.failure.Drop || i.failure.Cut:
		kind, parts = fault.Environment, []string{"cannot ", ": the connection to the Docker engine at ", " broke: "}
	}
	mustFault(f.T, err, kind, parts...)
	if _, ok := errors.AsType[*fault.Fault](err); !ok {
		f.T.Errorf("%v is no fault", err)
	}
}

// volumeKept fails the test unless the volume is there and nobody asked to
// remove it.
func (f *failing) volumeKept() {
	f.T.Helper()
	if !f.kept {
		return
	}
	if slices.ContainsFunc(f.fake.Calls(), func(c dockertest.Call) bool { return c.Op == "VolumeRemove" }) {
		f.T.Error("a volume was removed")
	}
	if len(f.said) > 0 && f.fake.VolumeDir(f.Setup.Stack.Volume.Name) == "" {
		f.T.Error("the volume is gone")
	}
}

// converse is one more turn, which knows all before it.
func (f *failing) converse() {
	f.T.Helper()
	f.said = append(f.said, fmt.Sprintf("i%d", len(f.said)))
	want := fmt.Sprintf("%d:", len(f.said))
	for _, s := range f.said {
		want += " " + s
	}
	if a := f.MustTurn("s1", f.said[len(f.said)-1]); a.Reply != want+"; SAYS=" {
		f.T.Errorf("the reply is %q, want %q", a.Reply, want)
	}
	f.volumeKept()
}

// inOrder fails the test unless the project has exactly its containers, by their
// names.
func (f *failing) inOrder() {
	f.T.Helper()
	ours, _ := f.split()
	var names []string
	for _, c := range ours {
		names = append(names, c.Name)
		if c.Status != "running" {
			f.T.Errorf("%s is %s", c.Name, c.Status)
		}
	}
	d := driverOf(f.Project)
	if want := []string{d.baseName("bot-1"), d.serviceName("cache"), d.gatewayName()}; !slices.Equal(names, want) {
		f.T.Errorf("the containers are %v, want %v", names, want)
	}
}

// nothingRuns fails the test unless nothing of the project is left but its volume.
func (f *failing) nothingRuns() {
	f.T.Helper()
	ours, _ := f.split()
	for _, c := range ours {
		f.T.Errorf("the container %s (%s) is left", c.Name, c.Status)
	}
	if n := f.fake.Networks(); !slices.Equal(n, []string{"somebodys"}) {
		f.T.Errorf("the networks are %v", n)
	}
	f.volumeKept()
}

func (f *failing) othersUntouched() {
	f.T.Helper()
	for i, c := range f.theirs() {
		if c.ID != f.others[i].ID || c.PID != f.others[i].PID || c.Status != "running" {
			f.T.Errorf("somebody else's container was %+v, and is %+v", f.others[i], c)
		}
	}
	if f.fake.VolumeDir("somebodys") == "" {
		f.T.Error("somebody else's volume is gone")
	}
}
