package docker

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// TestFailedServiceKeepsTheOldOne: whatever goes wrong with the successor of a
// service, the old one runs afterwards, under its name.
func TestFailedServiceKeepsTheOldOne(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	write(t, override, "services: {cache: {image: \"redis:7\"}}\n")
	p.Up()
	cache := func() (id, name string) {
		t.Helper()
		var found []string
		for _, c := range fake.Containers() {
			if c.Labels[composeService] == "cache" {
				found = append(found, c.Name)
				if id, name = c.ID, c.Name; c.Status != "running" {
					t.Errorf("%s is %s", c.Name, c.Status)
				}
			}
		}
		if len(found) != 1 {
			t.Fatalf("the containers of the service are %v", found)
		}
		return id, name
	}
	id, name := cache()
	same := func() {
		t.Helper()
		if now, called := cache(); now != id || called != name {
			t.Errorf("the service is %s, %s; it was %s, %s", now, called, id, name)
		}
		if s := p.Observe().Services; len(s) != 1 || s[0].Stopped {
			t.Errorf("the services are %+v", s)
		}
	}

	write(t, override, "services: {cache: {image: \"nobody:1\"}}\n")
	plan, err := p.Driver().Plan(t.Context(), runtime.OpUp)
	if err != nil || len(plan) != 3 || plan[0].Do != runtime.Pull || plan[0].Cause != `the engine has no image "nobody:1"` {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	fake.ResetCalls()
	_, err = p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "nobody:1")
	if ops := fake.Ops(); slices.Contains(ops, "ContainerStop") {
		t.Errorf("something was stopped for an image that is not there: %v", ops)
	}
	same()

	write(t, override, "services: {cache: {image: \"redis:7\", environment: {A: b}}}\n")
	fake.Fail(dockertest.Failure{Op: "ContainerStart"})
	_, err = p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "service cache does not start", name+"-next")
	same()

	p.Up()
	if now, called := cache(); now == id || called != name {
		t.Errorf("after an up that came to its end the service is %s, %s", now, called)
	}
}

// TestForeignVolumeOfAService is refused before anything is made, with a way out.
func TestForeignVolumeOfAService(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	rows := p.Setup.Stack.ContainerProject() + "_rows"
	e := mustEngine(t, p)
	if _, err := e.createVolume(t.Context(), rows, map[string]string{labelProject: "other"}); err != nil {
		t.Fatal(err)
	}
	fake.ResetCalls()
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"),
		"services: {cache: {image: \"redis:7\", volumes: [\"rows:/rows\"]}}\nvolumes: {rows: {}}\n")
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Usage, rows, "not of this project")
	if f, _ := errors.AsType[*fault.Fault](err); !strings.Contains(f.Hint, "volumes: {rows: {name: "+rows+"_"+p.Setup.Stack.ID+"}}") {
		t.Errorf("the hint is %q", f.Hint)
	}
	if ops := fake.Ops(); len(ops) > 0 {
		t.Errorf("it asked for %v", ops)
	}
}

// TestServiceVolumeOfAnOldName: the data of a service from before the Compose
// project's name had a part of the id is not left behind without a word.
func TestServiceVolumeOfAnOldName(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	const service = "services: {cache: {image: \"redis:7\", volumes: [\"rows:/rows\"]}}\n"
	write(t, override, service+"volumes: {rows: {}}\n")
	old := p.Setup.Stack.Name + "_rows"
	if _, err := mustEngine(t, p).createVolume(t.Context(), old, driverOf(p).ourLabels()); err != nil {
		t.Fatal(err)
	}
	fake.ResetCalls()
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Usage, `the data of the volume "rows" is in "`+old+`"`)
	keep := "volumes: {rows: {name: " + old + "}}"
	if f, _ := errors.AsType[*fault.Fault](err); !strings.Contains(f.Hint, keep) {
		t.Errorf("the hint is %q", f.Hint)
	}
	if ops := fake.Ops(); len(ops) > 0 {
		t.Errorf("it asked for %v", ops)
	}
	write(t, override, service+keep+"\n")
	p.Up()
}

// TestAnotherComposeProject: a project that was renamed, or that runs under the name
// that its Compose project had before that had a part of the id, is one Compose
// project after the next up.
func TestAnotherComposeProject(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {cache: {image: \"redis:7\"}}\n")
	p.Up()
	p.MustTurn("s1", "a")
	p.Setup.Stack.Name += "-2"
	name := p.Setup.Stack.ContainerProject()
	plan, err := p.Driver().Plan(t.Context(), runtime.OpUp)
	if err != nil || !slices.ContainsFunc(plan, func(s runtime.Step) bool {
		return strings.Contains(s.Cause, "the Compose project") && strings.Contains(s.Cause, name)
	}) {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	p.Up()
	all := fake.Containers()
	for _, c := range all {
		if c.Labels[composeProject] != name || !strings.HasPrefix(c.Name, name+"-") {
			t.Errorf("%s is of the Compose project %q, want %q", c.Name, c.Labels[composeProject], name)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d containers, want the gateway, the agent and the service", len(all))
	}
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after it: %+v", a)
	}
}

func TestLastCheck(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]*container.Health{
		"": nil,
		"its health check: exit code 1, no response\nat all": {Log: []*container.HealthcheckResult{{Output: "older"}, {ExitCode: 1, Output: "no response\nat all\n"}}},
		"its health check: exit code -1":                     {Log: []*container.HealthcheckResult{{ExitCode: -1}}},
	} {
		if got := strings.Join(lastCheck(h), "\n"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestComposeWarningsOfAnUp: what is odd about the override is told by what applies it,
// and not by what looks at volumes.
func TestComposeWarningsOfAnUp(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {cache: {image: \"redis:7\", environment: {A: \"${NOBODY_SETS_THIS}\"}}}\n")
	told := 0
	d := driverOf(p)
	d.o.Warn = func(text string) {
		if strings.Contains(text, "NOBODY_SETS_THIS") {
			told++
		}
	}
	if _, err := d.Volumes(t.Context()); err != nil || told > 0 {
		t.Errorf("a look at the volumes told it %d times, %v", told, err)
	}
	if _, err := d.Up(t.Context(), p.P); err != nil || told != 1 {
		t.Errorf("an up told it %d times, %v", told, err)
	}
}

func TestAdvisedPull(t *testing.T) {
	t.Parallel()
	for said, hint := range map[string]string{
		"pull access denied for db": "docker login",
		"dial tcp: i/o timeout":     "docker pull db:1",
	} {
		err := advised(fault.New(fault.Failed, "", "cannot pull: %s", said), "db:1")
		if f, _ := errors.AsType[*fault.Fault](err); f == nil || !strings.Contains(f.Hint, hint) {
			t.Errorf("%s: %+v", said, err)
		}
	}
}
