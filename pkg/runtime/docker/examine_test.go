package docker

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// A service's volume that is somebody else's keeps up from working, and Examine
// says so before.
func TestExamineSeesSomebodyElsesServiceVolume(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	fake.AddVolume("theirs", map[string]string{labelProject: "ffffffffffff"})
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "volumes: {db: {name: theirs}}\n")
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Usage, "theirs", "is not of this project")
	var blocking []string
	for _, f := range p.Driver().Examine(t.Context()) {
		if f.Level == runtime.Blocking {
			blocking = append(blocking, f.Subject+": "+f.Text)
		}
	}
	if len(blocking) != 1 || !strings.HasPrefix(blocking[0], `volume: the volume "theirs" is not of this project`) {
		t.Errorf("it says %q", blocking)
	}
}

// TestExamine: every finding is fine where nothing is wrong.
func TestExamine(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		for _, when := range []string{"before", "while"} {
			for _, f := range p.Driver().Examine(t.Context()) {
				if f.Level != runtime.Fine {
					t.Errorf("%s it runs: %+v", when, f)
				}
			}
			if when == "before" {
				p.Up()
			}
		}
	})
}

func TestExamineWithoutEngine(t *testing.T) {
	t.Parallel()
	s := stack.Stack{Name: "shop", ID: "9f2c41d07a3e", Dir: t.TempDir(), Gateway: stack.Gateway{Bind: "127.0.0.1", Port: 8080}}
	d, err := New(Options{Stack: s, Home: t.TempDir(), Surroundings: Surroundings{Getenv: func(name string) string {
		return map[string]string{"DOCKER_HOST": "unix:///nowhere/docker.sock"}[name]
	}}})
	if err != nil {
		t.Fatal(err)
	}
	f := d.Examine(t.Context())
	if len(f) == 0 || f[0].Subject != "engine" || f[0].Level != runtime.Blocking || !strings.Contains(f[0].Text, "/nowhere/docker.sock") {
		t.Errorf("%+v", f)
	}
	_, err = d.Up(t.Context(), &runtimetest.Progress{})
	mustFault(t, err, fault.Environment, "/nowhere/docker.sock")
}
