package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

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

// TestNoSecretIsShown: a value of an env file is in the container's environment,
// as it must be, and nowhere else.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		const secret = `a$b "c" #d`
		file := filepath.Join(p.Setup.Stack.Dir, ".env")
		write(t, file, "SAYS='"+secret+"'\n")
		p.Setup.Stack.Agents[0].EnvFiles = []string{file}
		p.Up()
		if a := p.MustTurn("s1", "x"); !strings.HasSuffix(a.Reply, "SAYS="+secret) {
			t.Errorf("it arrived as %q", a.Reply)
		}
		d := driverOf(p)
		l, err := d.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range l.everything() {
			c.Config.Env = nil
			img, _, err := l.e.inspectImage(t.Context(), c.Image)
			if err != nil {
				t.Fatal(err)
			}
			shown, err := json.Marshal([]any{c.InspectResponse, img})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(shown), "a$b") {
				t.Errorf("%s shows the secret", c.name())
			}
			for port, bindings := range c.NetworkSettings.Ports {
				for _, b := range bindings {
					if b.HostIP != "127.0.0.1" {
						t.Errorf("%s is published at %s", port, b.HostIP)
					}
				}
			}
		}
		o := p.Observe()
		if shown := fmt.Sprintf("%+v", o); strings.Contains(shown, "a$b") {
			t.Errorf("what is observed shows the secret: %s", shown)
		}
		grep(t, p.Setup.Home, "a$b")
	})
}

// grep fails the test when a file below dir holds the text.
func grep(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			t.Errorf("%q holds %q", path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHardened: what a container may is what the Compose file says.
func TestHardened(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		l, err := driverOf(p).look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range l.everything() {
			h := c.HostConfig
			if !h.ReadonlyRootfs || !slices.Equal(h.CapDrop, []string{"ALL"}) || !slices.Contains(h.SecurityOpt, "no-new-privileges:true") ||
				c.Config.User != stack.User || h.RestartPolicy.Name != container.RestartPolicyUnlessStopped || h.Privileged {
				t.Errorf("%s: %+v %q", c.name(), h, c.Config.User)
			}
			for _, m := range h.Mounts {
				if strings.Contains(m.Source, "docker.sock") {
					t.Errorf("%s mounts %s", c.name(), m.Source)
				}
			}
			labels := c.Config.Labels
			if labels[composeProject] != p.Setup.Stack.ContainerProject() || labels[composeOneOff] != "False" || labels[composeNumber] != "1" || labels[composeService] == "" {
				t.Errorf("%s has the labels %v", c.name(), labels)
			}
		}
		bot, _ := l.at(runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1})
		if bot.Config.StopTimeout == nil || *bot.Config.StopTimeout != 30 {
			t.Errorf("the grace of the agent is %v", bot.Config.StopTimeout)
		}
	})
}

// TestServices: what people add in an override runs, and is changed and stopped
// with the project.
func TestServices(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{
		Images:   []dockertest.Image{{Ref: "redis:7"}},
		Registry: map[string]dockertest.Pullable{"postgres:18": {Layers: 2}},
	})
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	write(t, override, `
services:
  db: {image: "postgres:18", volumes: ["rows:/rows"], depends_on: [cache]}
  cache: {image: "redis:7"}
volumes: {rows: {}}
`)
	p.Up()
	var names []string
	for _, c := range fake.Containers() {
		names = append(names, c.Labels[composeService]+" "+c.Status)
	}
	slices.Sort(names)
	if want := []string{"bot running", "cache running", "db running", "gateway running"}; !slices.Equal(names, want) {
		t.Errorf("the containers are %v", names)
	}
	o := p.Observe()
	if len(o.Services) != 2 || o.Services[0].Name != "cache" || o.Services[1].Name != "db" {
		t.Errorf("the services, in the order of their starts: %+v", o.Services)
	}
	fake.ResetCalls()
	if up := p.Up(); up.Changed || len(fake.Ops()) > 0 {
		t.Errorf("the second up: %+v %v", up, fake.Ops())
	}
	bot := o.Replicas[0].PID
	write(t, override, `
services:
  cache: {image: "redis:7", environment: {A: b}}
`)
	p.Up()
	o = p.Observe()
	if len(o.Services) != 1 || o.Services[0].Name != "cache" || o.Replicas[0].PID != bot {
		t.Errorf("after the change: %+v", o)
	}
	p.Down()
	if c := fake.Containers(); len(c) > 0 {
		t.Errorf("down left %+v", c)
	}
	rows := p.Setup.Stack.ContainerProject() + "_rows"
	if got := fake.Volumes(); !slices.Contains(got, rows) {
		t.Errorf("the volumes are %v", got)
	}
	removed, err := driverOf(p).RemoveVolume(t.Context(), p.P)
	if err != nil || !slices.Equal(removed, []string{p.Setup.Stack.Volume.Name, rows}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// TestUnappliedKeyIsRefused: before anything is made, and what runs goes on.
func TestUnappliedKeyIsRefused(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
		refused := func() {
			t.Helper()
			write(t, override, "services: {bot: {privileged: true}}\n")
			_, err := p.Driver().Up(t.Context(), p.P)
			mustFault(t, err, fault.Usage, `service "bot"`, `flisk does not apply the key "privileged"`)
		}
		refused()
		l, err := driverOf(p).look(t.Context())
		if err != nil || len(l.everything())+len(l.networks) > 0 {
			t.Errorf("it made %+v, %v", l, err)
		}
		if v, err := l.e.listVolumes(t.Context(), p.Setup.Stack.ID); err != nil || len(v) > 0 {
			t.Errorf("it made %v, %v", v, err)
		}
		write(t, override, "services: {}\n")
		p.Up()
		before := p.Replica()
		refused()
		if after := p.Replica(); after.PID != before.PID || !after.Serving {
			t.Errorf("of %+v it made %+v", before, after)
		}
	})
}

// TestOldImagesGo: of the project's own, and of nobody else.
func TestOldImagesGo(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		images := func() int {
			t.Helper()
			e, err := driverOf(p).connected(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			list, err := e.listImages(t.Context(), p.Setup.Stack.ID)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		for _, code := range []string{"c1", "c2", "c3"} {
			p.Code(code)
			p.Up()
			if n := images(); n != 1 {
				t.Errorf("with code %s there are %d images", code, n)
			}
		}
		if _, ok, err := mustEngine(t, p).inspectImage(t.Context(), stack.GatewayImage); err != nil || !ok {
			t.Errorf("the gateway's image: %v, %v", ok, err)
		}
	})
}

func mustEngine(t *testing.T, p *runtimetest.Project) *engine {
	t.Helper()
	e, err := driverOf(p).connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEraseLeavesNothing, also of what runs.
func TestEraseLeavesNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		p.MustTurn("s1", "a")
		if err := driverOf(p).Erase(t.Context(), p.P); err != nil {
			t.Fatal(err)
		}
		e := mustEngine(t, p)
		l, err := driverOf(p).look(t.Context())
		if err != nil || len(l.everything())+len(l.networks) > 0 {
			t.Errorf("left %+v, %v", l, err)
		}
		volumes, err := e.listVolumes(t.Context(), p.Setup.Stack.ID)
		if err != nil || len(volumes) > 0 {
			t.Errorf("left %v, %v", volumes, err)
		}
		images, err := e.listImages(t.Context(), p.Setup.Stack.ID)
		if err != nil || len(images) > 0 {
			t.Errorf("left %v, %v", images, err)
		}
		var left []string
		err = filepath.WalkDir(p.Setup.Home, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) != ".lock" {
				left = append(left, path)
			}
			return err
		})
		if err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
		p.Code("c1")
	})
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

// TestDockerfileWhenTheOverrideSaysHow: an agent whose build was changed by hand
// is built as that says, and not from its program alone.
func TestDockerfileWhenTheOverrideSaysHow(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(suiteProgram.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	built := make(chan dockertest.BuildRequest, 1)
	p, fake := onFake(t, dockertest.Options{Build: func(r dockertest.BuildRequest) (dockertest.BuildResult, error) {
		built <- r
		return dockertest.BuildResult{Log: "a step", Program: program}, nil
	}})
	write(t, filepath.Join(p.Setup.Stack.Dir, "Dockerfile"), "FROM scratch\n")
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {bot: {build: {target: small}}}\n")
	p.Up()
	if a := p.MustTurn("s1", "a"); a.Turn != 1 {
		t.Errorf("the turn: %+v", a)
	}
	if r := <-built; r.Query.Get("target") != "small" || len(r.Files["Dockerfile"]) == 0 {
		t.Errorf("the build: %v", r.Query)
	}
	if !strings.Contains(p.P.String(), "a step") {
		t.Errorf("the output of the build is not shown:\n%s", p.P)
	}
	fake.ResetCalls()
	p.Restart()
	if ops := fake.Ops(); slices.Contains(ops, "ImageBuild") {
		t.Errorf("a restart builds what is there: %v", ops)
	}
}

// TestBuildOfTheOverrideChanges: how an agent is built is a setting of it, also
// where its source stays what it is.
func TestBuildOfTheOverrideChanges(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(suiteProgram.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	built := make(chan dockertest.BuildRequest, 1)
	p, fake := onFake(t, dockertest.Options{Build: func(r dockertest.BuildRequest) (dockertest.BuildResult, error) {
		built <- r
		return dockertest.BuildResult{Program: program}, nil
	}})
	dir := p.Setup.Stack.Dir
	write(t, filepath.Join(dir, "Dockerfile"), "FROM scratch\n")
	write(t, filepath.Join(dir, "Other"), "FROM scratch\n")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sub", "Dockerfile"), "FROM scratch\n")
	p.Up()
	for turn, c := range []struct{ override, query string }{
		{"{target: small}", "target=small"},
		{"{target: big, args: {A: b}}", "target=big"},
		{"{target: big, args: {A: c}}", "buildargs="},
		{"{dockerfile: Other}", "dockerfile=Other"},
		{"{context: sub}", "dockerfile=Dockerfile"},
		{"", ""}, // its program says all again
	} {
		override := filepath.Join(dir, "compose.override.yaml")
		if c.override == "" {
			if err := os.Remove(override); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, override, "services: {bot: {build: "+c.override+"}}\n")
		}
		plan, err := p.Driver().Plan(t.Context(), runtime.OpUp)
		if err != nil || !strings.Contains(plan.String(), "build changed") {
			t.Errorf("%s: the plan is %v\n%s", c.override, err, plan)
		}
		if report := p.Up(); len(report.Replaced) != 1 {
			t.Errorf("%s: replaced %+v", c.override, report.Replaced)
		}
		if a := p.MustTurn("s1", "a"); a.Turn != turn+1 {
			t.Errorf("%s: %+v", c.override, a)
		}
		select {
		case r := <-built:
			if query := r.Query.Encode(); c.query == "" || !strings.Contains(query, c.query) {
				t.Errorf("%s: built with %s", c.override, query)
			}
		default:
			if c.query != "" {
				t.Errorf("%s: nothing was built", c.override)
			}
		}
		fake.ResetCalls()
		if report := p.Up(); report.Changed || len(fake.Ops()) > 0 {
			t.Errorf("%s: the second up asked for %v", c.override, fake.Ops())
		}
	}
}

// TestSourceThatChangesKeepsTheOldImage: the image that an up took the name from
// gets it back, also when the up had to begin again.
func TestSourceThatChangesKeepsTheOldImage(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(suiteProgram.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	builds := 0 // one at a time
	var p *runtimetest.Project
	p, _ = onFake(t, dockertest.Options{Build: func(dockertest.BuildRequest) (dockertest.BuildResult, error) {
		builds++
		switch builds {
		case 2:
			p.Code("c3") // somebody writes meanwhile
		case 3:
			return dockertest.BuildResult{Error: "it does not compile"}, nil
		}
		return dockertest.BuildResult{Program: program}, nil
	}})
	write(t, filepath.Join(p.Setup.Stack.Dir, "Dockerfile"), "FROM scratch\n")
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {bot: {build: {target: small}}}\n")
	p.Up()
	before, _, err := mustEngine(t, p).inspectImage(t.Context(), p.Setup.Stack.Image("bot"))
	if err != nil {
		t.Fatal(err)
	}
	p.Code("c2")
	_, err = p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "does not compile")
	after, ok, err := mustEngine(t, p).inspectImage(t.Context(), p.Setup.Stack.Image("bot"))
	if err != nil || !ok || after.ID != before.ID || builds != 3 {
		t.Errorf("after %d builds the name has %q, %v; it had %q", builds, after.ID, err, before.ID)
	}
	if a := p.MustTurn("s1", "a"); a.Turn != 1 {
		t.Errorf("the turn: %+v", a)
	}
}

// TestInterruptedUpTellsWhatItLeft: a way back that fails is not hidden behind the
// interruption.
func TestInterruptedUpTellsWhatItLeft(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := driverOf(p).Up(ctx, &atStep{p.P, "start bot", func() {
		cancel()
		fake.Fail(dockertest.Failure{Op: "ContainerRemove", Message: "it is stuck"})
	}})
	mustFault(t, err, fault.Interrupted, "not all")
	if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Detail, "it is stuck") {
		t.Errorf("what is left is not told: %+v", f)
	}
	if len(fake.Containers()) == 0 {
		t.Error("nothing is left")
	}
	p.Up()
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
