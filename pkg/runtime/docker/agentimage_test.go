package docker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

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
