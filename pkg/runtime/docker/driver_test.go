package docker

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/versions"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

var suiteProgram runtimetest.Program

// dockerPlace is an engine as a place of the suite.
func dockerPlace(getenv func(string) string) runtimetest.Place {
	options := func(s runtimetest.Setup) Options {
		return Options{
			Stack: s.Stack, Home: s.Home, SourceHash: s.SourceHash, Force: s.Force, LeaveAgents: s.LeaveAgents,
			ReadyTimeout: s.ReadyTimeout,
			Surroundings: Surroundings{Getenv: getenv, Home: os.Getenv("HOME")},
		}
	}
	return runtimetest.Place{
		Program: &suiteProgram,
		New: func(t *testing.T, s runtimetest.Setup) runtime.Driver {
			t.Helper()
			d, err := New(options(s))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() }) // only idle connections
			return d
		},
		Install: func(t *testing.T, s runtimetest.Setup, agent, code, program string) {
			t.Helper()
			path := placeOf(s.Home, s.Stack).agentProgram(agent, code, goruntime.GOARCH)
			if err := os.MkdirAll(filepath.Dir(path), userOnly); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(program, path); err != nil && !os.IsExist(err) {
				t.Fatal(err)
			}
		},
		RemoveSession: func(t *testing.T, s runtimetest.Setup, agent, id string) {
			t.Helper()
			d, err := New(options(s))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			c := Command{Args: []string{"sessions", "rm", "--agent", agent, "--", id}, Stdout: &out, Stderr: &out}
			if exit, err := d.ChangeVolume(t.Context(), &runtimetest.Progress{}, c); err != nil || exit != 0 {
				t.Errorf("remove session %s: exit code %d, %v\n%s", id, exit, err, &out)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		},
		Clean: func(t *testing.T, s runtimetest.Setup) {
			t.Helper()
			d, err := New(options(s))
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			l, err := d.look(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(l.everything()) + len(l.networks); n > 0 {
				t.Errorf("%d containers and networks are left", n)
			}
			if err := d.Erase(ctx, &runtimetest.Progress{}); err != nil {
				t.Errorf("erase: %v", err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		},
	}
}

// realPlace skips the test where there is no engine, unless there must be one.
func realPlace(t *testing.T) runtimetest.Place {
	t.Helper()
	newReal(t)
	return dockerPlace(os.Getenv)
}

func fakePlace(t *testing.T, o dockertest.Options) (runtimetest.Place, *dockertest.Engine) {
	t.Helper()
	o.Images = append(o.Images, dockertest.Image{Ref: stack.GatewayImage})
	fake := dockertest.Start(t, o)
	return dockerPlace(func(name string) string {
		if name == "DOCKER_HOST" {
			return fake.Host()
		}
		return ""
	}), fake
}

// TestSuite holds the driver against what every runtime does: on a real engine,
// and on the fake one in the versions that this one does not have.
func TestSuite(t *testing.T) {
	t.Parallel()
	for _, api := range otherAPIs() {
		t.Run("fake "+api, func(t *testing.T) {
			t.Parallel()
			runtimetest.Suite(t, func(t *testing.T) runtimetest.Place {
				place, _ := fakePlace(t, dockertest.Options{API: api})
				return place
			})
		})
	}
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		runtimetest.Suite(t, realPlace)
	})
}

// otherAPIs are those of apis, but for the one that shows the same as the real
// engine.
func otherAPIs() []string {
	endpoint, err := Resolve(Surroundings{os.Getenv, os.Getenv("HOME")})
	if err != nil || os.Getenv("FLISK_TEST_LONG") == "1" {
		return apis
	}
	e, err := connect(context.Background(), endpoint, "")
	if err != nil {
		return apis
	}
	defer func() { _ = e.close() }() // only idle connections
	return slices.DeleteFunc(slices.Clone(apis), func(api string) bool {
		return e.speaks("1.44") == versions.GreaterThanOrEqualTo(api, "1.44")
	})
}

// onFake is a project on a fake engine.
func onFake(t *testing.T, o dockertest.Options) (*runtimetest.Project, *dockertest.Engine) {
	t.Helper()
	place, fake := fakePlace(t, o)
	return runtimetest.NewProject(t, place), fake
}

// both runs a test on the fake engine, and on the real one.
func both(t *testing.T, test func(t *testing.T, p *runtimetest.Project)) {
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		p, _ := onFake(t, dockertest.Options{})
		test(t, p)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, runtimetest.NewProject(t, realPlace(t)))
	})
}

// driverOf is the project's driver with all its methods.
func driverOf(p *runtimetest.Project) *Driver { return p.Driver().(*Driver) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustEngine(t *testing.T, p *runtimetest.Project) *engine {
	t.Helper()
	e, err := driverOf(p).connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// atStep does something when a step begins.
type atStep struct {
	runtime.Progress
	step string
	do   func()
}

func (a *atStep) Begin(step string) func(string, error) {
	if step == a.step || strings.HasPrefix(step, a.step+"-") {
		a.do()
	}
	return a.Progress.Begin(step)
}
