package docker

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestWhichStagesABuildMade goes by the builder's words, and by no program's.
func TestWhichStagesABuildMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string // "=x" is the end of a stage
		want  string
	}{
		"made":               {[]string{"Step 1/3 : FROM go AS b", " ---> 0a", "Step 2/3 : RUN x", " ---> Running in 7", " ---> 0b", "=0b"}, "0b on 0a"},
		"from scratch":       {[]string{"Step 1/3 : FROM scratch AS b", " ---> \n", "Step 2/3 : COPY a b", " ---> 0b", "=0b"}, "0b on "},
		"cached":             {[]string{"Step 1/3 : FROM go AS b", " ---> 0a", "Step 2/3 : RUN x", " ---> Using cache", " ---> 0b", "=0b"}, ""},
		"cached at first":    {[]string{"Step 1/3 : FROM go AS b", " ---> 0a", "Step 2/3 : RUN x", " ---> Using cache", " ---> 0b", "Step 3/3 : RUN y", " ---> 0c", "=0c"}, "0c on 0a"},
		"nothing but a base": {[]string{"Step 1/3 : FROM go AS b", " ---> 0a", "=0a"}, ""},
		"on another stage": {[]string{
			"Step 1/3 : FROM go AS b", " ---> 0a", "Step 2/3 : RUN x", " ---> 0b", "=0b", "Step 3/4 : FROM b", " ---> 0b", "Step 4/4 : RUN y", " ---> 0c", "=0c",
		}, "0b on 0a, 0c on 0b"},
		"a program's words": {[]string{
			"Step 1/3 : FROM go AS b", " ---> 0a", "Step 2/3 : RUN x", " ---> Running in 7", "Step 1/1 : FROM mine", " ---> ff", "Step 2/2 : RUN z", " ---> 0b", "=0b",
		}, "0b on 0a"},
	} {
		var r stageReader
		for _, line := range c.lines {
			if id, ends := strings.CutPrefix(line, "="); ends {
				r.take(message{Aux: json.RawMessage(`{"ID":"` + id + `"}`)})
			} else {
				r.take(message{Stream: line})
			}
		}
		var made []string
		for _, s := range r.ended {
			if s.made {
				made = append(made, s.ID+" on "+s.Base)
			}
		}
		if got := strings.Join(made, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestStagesGoWithTheNextBuild: one build's are there, as the cache of the next.
// What was not made by a build of flisk's stays.
func TestStagesGoWithTheNextBuild(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		content := ""
		options := builds(t, dockertest.BuildResult{}, nil)
		build := options.Build
		options.Build = func(b dockertest.BuildRequest) (dockertest.BuildResult, error) {
			result, err := build(b)
			result.Stage = content
			if content == "broken" {
				result.Error = "it does not compile"
			}
			return result, err
		}
		r := newFake(t, options)
		stagesGo(t, r, func(c string, d *Driver) error {
			content = c
			_, stages, err := r.e.buildDockerfile(t.Context(), dockerfileBuild{tag: r.name("x"), dir: tree(t, map[string]string{"Dockerfile": ""}), labels: r.labels()}, &strings.Builder{})
			d.keepStages(t.Context(), r.e, r.name("x"), stages, err == nil)
			return err
		})
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		r := newReal(t)
		base := ""
		for _, content := range []string{"another", "base"} { // what has no name any more is not to go with what is built on it
			id, _, err := r.e.buildDockerfile(t.Context(), dockerfileBuild{tag: r.name("base"), dir: tree(t, map[string]string{"Dockerfile": "FROM scratch\nCOPY base /\n", "base": content + r.project}), labels: r.labels()}, &strings.Builder{})
			if err != nil {
				t.Fatal(err)
			}
			base = cmp.Or(base, id)
		}
		stagesGo(t, r, func(c string, d *Driver) error {
			files := map[string]string{
				"Dockerfile": "FROM " + base + " AS build\nCOPY go.mod /\nCOPY main.go /\nENV A=1\nFROM scratch\nCOPY --from=build /main.go /\n",
				"go.mod":     "module " + r.project, "main.go": c + r.project,
			}
			if c == "broken" {
				files["Dockerfile"] += "FROM scratch\nCOPY nothing /\n"
			}
			_, stages, err := r.e.buildDockerfile(t.Context(), dockerfileBuild{tag: r.name("x"), dir: tree(t, files), labels: r.labels()}, &strings.Builder{})
			d.keepStages(t.Context(), r.e, r.name("x"), stages, err == nil)
			return err
		})
		if _, ok, err := r.e.inspectImage(t.Context(), base); err != nil || !ok {
			t.Errorf("the base is gone: %v", err)
		}
	})
}

func stagesGo(t *testing.T, r *rig, build func(content string, d *Driver) error) {
	home := filepath.Join(t.TempDir(), "projects")
	d := &Driver{place: place{stages: filepath.Join(home, "x.stages"), images: filepath.Join(home, "x.images")}, warned: &warnings{told: map[string]bool{}}}
	there := func() string {
		var out []string
		for _, s := range readStages(d.place.stages) {
			if _, ok, err := r.e.inspectImage(t.Context(), s.ID); err != nil || !ok {
				t.Errorf("%s is written down, and not there: %v", s.ID, err)
			}
			out = append(out, s.ID)
		}
		return strings.Join(out, " ")
	}
	all := func() int {
		list, err := r.e.api.ImageList(t.Context(), image.ListOptions{All: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	do := func(content string) (stages string) {
		t.Helper()
		if err := build(content, d); (err != nil) != (content == "broken") {
			t.Fatalf("the build of %s: %v", content, err)
		}
		return there()
	}
	one := do("one")
	if one == "" || strings.Contains(one, " ") || do("one") != one {
		t.Fatalf("after the first build: %q, and %q", one, there())
	}
	images := all()
	below, err := r.e.imageHistory(t.Context(), one)
	if err != nil || len(below) < 2 {
		t.Fatalf("%v, %v", below, err)
	}
	if broken := do("broken"); !strings.HasPrefix(broken, one+" ") {
		t.Errorf("after one that failed: %q, and %q before it", broken, one)
	}
	two := do("two")
	if two == "" || strings.Contains(two, " ") || two == one {
		t.Errorf("after another: %q, and %q before it", two, one)
	}
	if _, ok, err := r.e.inspectImage(t.Context(), one); err != nil || ok {
		t.Errorf("the first build's stage is there: %v", err)
	}
	if r.fake != nil && all() != images { // others come and go on a real engine
		t.Errorf("%d images, and %d before it", all(), images)
	}
	for i, id := range below[1:] {
		// On the real engine: the source is its own, and the module file is the next one's, too.
		if _, ok, err := r.e.inspectImage(t.Context(), id); err != nil || ok == (r.fake == nil && i == 0) {
			t.Errorf("%d below the first build's stage: %t, %v", i+1, ok, err)
		}
	}
	// Named meanwhile, it is somebody's.
	if err := r.e.tagImage(t.Context(), two, r.name("mine")); err != nil {
		t.Fatal(err)
	}
	three := do("three")
	if _, ok, err := r.e.inspectImage(t.Context(), two); err != nil || !ok {
		t.Errorf("a stage with a name is gone: %v", err)
	}
	if err := r.e.removeImageAlone(t.Context(), r.name("mine")); err != nil {
		t.Fatal(err)
	}
	d.removeStages(t.Context(), r.e, func(stage) bool { return true })
	if _, ok, err := r.e.inspectImage(t.Context(), three); err != nil || ok || there() != "" {
		t.Errorf("in the end %q is there: %v", three, err)
	}
}

// TestEraseRemovesStages, which no label tells.
func TestEraseRemovesStages(t *testing.T) {
	t.Parallel()
	options := builds(t, dockertest.BuildResult{Stage: "one"}, nil)
	p, _ := onFake(t, options)
	write(t, filepath.Join(p.Setup.Stack.Dir, "Dockerfile"), "FROM scratch\n")
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {bot: {build: {target: small}}}\n")
	if _, err := p.Driver().Up(t.Context(), p.P); err == nil { // it is no agent
		t.Error("an up of another program succeeded")
	}
	d := driverOf(p)
	stages := readStages(d.place.stages)
	if len(stages) != 1 {
		t.Fatalf("written down: %+v", stages)
	}
	if err := d.Erase(t.Context(), &runtimetest.Progress{}); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := mustEngine(t, p).inspectImage(t.Context(), stages[0].ID); err != nil || ok || exists(d.place.stages) {
		t.Errorf("it is there: %t, %v", ok, err)
	}
}
