package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/scaffold"
)

// onSource is a project on a fake engine whose agent is built by the toolchain.
func onSource(t *testing.T) *runtimetest.Project {
	t.Helper()
	p, _ := onFake(t, dockertest.Options{})
	made, err := scaffold.Init(filepath.Join(t.TempDir(), "bot"), scaffold.Options{Port: p.Setup.Stack.Gateway.Port})
	if err != nil {
		t.Fatal(err)
	}
	// What the driver works with is the stack, and a compose.yaml of the scaffold's is of another one.
	if err := os.Remove(filepath.Join(made.Dir, "compose.yaml")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	p.Setup.Stack.Dir, p.Setup.Stack.Agents[0].Dir = made.Dir, made.Dir
	return p
}

// programs are those that are kept, by their names.
func programs(t *testing.T, p *runtimetest.Project) []string {
	t.Helper()
	entries, err := os.ReadDir(driverOf(p).place.build)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "bot-c1-"+goruntime.GOARCH }) // the project's own
}

// after answers with one hash after the other, and with the last one from then on.
func after(list ...string) func(string) (string, error) {
	asked := 0
	return func(string) (string, error) {
		asked++
		return list[min(asked, len(list))-1], nil
	}
}

// TestC09_SourceThatChangesDuringTheBuild: the program is dropped, and built again.
func TestC09_SourceThatChangesDuringTheBuild(t *testing.T) {
	t.Parallel()
	p := onSource(t)
	p.Setup.SourceHash = after("h1", "h2", "h3")
	p.Up()
	if got := p.Replica().Code; got != "h3" {
		t.Errorf("what runs is %q", got)
	}
	if got := programs(t, p); !slices.Equal(got, []string{"bot-h3-" + goruntime.GOARCH}) {
		t.Errorf("programs: %q", got)
	}
	if n := strings.Count(p.P.String(), "begin build bot"); n != 2 {
		t.Errorf("%d builds, want 2:\n%s", n, p.P)
	}
}

// TestC09_RestlessBuild: where a build that is no longer the disk's will do, the
// first is dropped all the same, and the second has a name that the next up
// replaces.
func TestC09_RestlessBuild(t *testing.T) {
	t.Parallel()
	p := onSource(t)
	p.Setup.SourceHash = after("h1", "h2", "h3", "h4")
	d := driverOf(p)
	d.o.Restless = true
	if _, err := d.Up(t.Context(), p.P); err != nil {
		t.Fatalf("up: %v\n%s", err, p.P)
	}
	const unsettled = "h3-unsettled-"
	if got := p.Replica().Code; !strings.HasPrefix(got, unsettled) {
		t.Errorf("what runs is %q", got)
	}
	if a := p.MustTurn("s1", "a"); !strings.HasPrefix(a.Code, unsettled) {
		t.Errorf("it says that it is %q", a.Code)
	}
	if got := programs(t, p); len(got) != 1 || !strings.HasPrefix(got[0], "bot-"+unsettled) {
		t.Errorf("programs: %q", got)
	}
	p.Setup.SourceHash = after("h3")
	if report := p.Up(); len(report.Replaced) != 1 {
		t.Errorf("the next up: %+v", report)
	}
	if got := p.Replica().Code; got != "h3" {
		t.Errorf("after the next up runs %q", got)
	}
	if got := programs(t, p); !slices.Equal(got, []string{"bot-h3-" + goruntime.GOARCH}) {
		t.Errorf("programs after the next up: %q", got)
	}
}

// TestC09_SourceThatCannotBeRead after a build, or never rests, leaves no program:
// nobody would check it again.
func TestC09_SourceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	unreadable := errors.New("it cannot be read")
	for name, c := range map[string]struct {
		then func(n int) (string, error)
		want error
	}{
		"unreadable":  {func(int) (string, error) { return "", unreadable }, unreadable},
		"never rests": {func(n int) (string, error) { return fmt.Sprint("h", n), nil }, runtime.ErrSourceChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := onSource(t)
			d := driverOf(p)
			asked := 0
			d.o.SourceHash = func(string) (string, error) {
				if asked++; asked == 1 {
					return "h1", nil
				}
				// A kill in here leaves what there is now.
				if exists(d.place.agentProgram("bot", "h1", goruntime.GOARCH)) {
					t.Error("the program has its name before it is checked")
				}
				return c.then(asked)
			}
			if _, err := d.Up(t.Context(), p.P); !errors.Is(err, c.want) {
				t.Errorf("up: %v", err)
			}
			if got := programs(t, p); len(got) > 0 {
				t.Errorf("programs: %q", got)
			}
		})
	}
}

// TestC09_SourceThatChangesDuringAnotherBuild: the program of the first of two
// agents is checked again when that of the second is built.
func TestC09_SourceThatChangesDuringAnotherBuild(t *testing.T) {
	t.Parallel()
	p := onSource(t)
	clerk := p.Setup.Stack.Agents[0]
	clerk.Name = "clerk"
	p.Setup.Stack.Agents = append(p.Setup.Stack.Agents, clerk)
	p.Setup.SourceHash = func(agent string) (string, error) {
		if agent == "bot" && strings.Contains(p.P.String(), "begin build clerk") {
			return "second", nil
		}
		return "first", nil
	}
	p.Up()
	for _, replica := range p.Observe().Replicas {
		if want := map[string]string{"bot": "second", "clerk": "first"}[replica.Agent]; replica.Code != want || replica.Generation != 1 {
			t.Errorf("%s runs %q in generation %d, want %q in the first", replica.Name, replica.Code, replica.Generation, want)
		}
	}
}

// TestC09_DockerfileImageIsNamedLast: an image whose source cannot be read after
// the build has no name, and does not stay.
func TestC09_DockerfileImageIsNamedLast(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(suiteProgram.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := onFake(t, dockertest.Options{Build: func(dockertest.BuildRequest) (dockertest.BuildResult, error) {
		return dockertest.BuildResult{Program: program}, nil
	}})
	write(t, filepath.Join(p.Setup.Stack.Dir, "Dockerfile"), "FROM scratch\n")
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {bot: {build: {target: small}}}\n")
	d := driverOf(p)
	e := mustEngine(t, p)
	unreadable := errors.New("it cannot be read")
	asked := 0
	d.o.SourceHash = func(string) (string, error) {
		if asked++; asked == 1 {
			return "c1", nil
		}
		if _, ok, err := e.inspectImage(t.Context(), p.Setup.Stack.Image("bot")); ok || err != nil {
			t.Errorf("the image has its name before it is checked, %v", err)
		}
		return "", unreadable
	}
	if _, err := d.Up(t.Context(), p.P); !errors.Is(err, unreadable) {
		t.Errorf("up: %v", err)
	}
	if left, err := e.listImages(t.Context(), p.Setup.Stack.ID); err != nil || len(left) > 0 {
		t.Errorf("it left %+v, %v", left, err)
	}
	p.Up()
	p.MustTurn("s1", "a")
}
