package docker

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// withRows is a project with a service whose image keeps data in /rows and in
// /log, on the fake engine and on the real one. override says what else the
// service has.
func withRows(t *testing.T, test func(t *testing.T, p *runtimetest.Project, override func(more string), image string)) {
	run := func(t *testing.T, p *runtimetest.Project, image string) {
		test(t, p, func(more string) {
			t.Helper()
			write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"),
				fmt.Sprintf("services: {db: {image: %q, environment: {FLISK_LISTEN: \"0.0.0.0:4001\"}%s}}\nvolumes: {log: {}}\n", image, more))
		}, image)
	}
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		p, _ := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "rows:1", Volumes: []string{"/rows", "/log/"}}}})
		run(t, p, "rows:1")
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		r := newReal(t)
		image := r.name("rows") + ":latest"
		_, err := r.e.api.ContainerCommit(t.Context(), r.create(r.spec("rows")), container.CommitOptions{
			Reference: image, Changes: []string{"VOLUME /rows", "VOLUME /log"},
		})
		if err != nil {
			t.Fatal(err)
		}
		run(t, runtimetest.NewProject(t, realPlace(t)), image)
	})
}

// rowsOf are the volumes of the service, by place.
func rowsOf(t *testing.T, p *runtimetest.Project) map[string]string {
	t.Helper()
	db := containersOf(t, p)["db"]
	return map[string]string{"/rows": db.volumeAt("/rows"), "/log": db.volumeAt("/log")}
}

// TestImageVolumesSurvive: what an image declares as a volume outlives the
// replacement of its container and a down, and goes with the project's volumes.
func TestImageVolumesSurvive(t *testing.T) {
	t.Parallel()
	withRows(t, func(t *testing.T, p *runtimetest.Project, override func(string), _ string) {
		override(`, volumes: ["log:/log"]`)
		p.Up()
		first, id := rowsOf(t, p), containersOf(t, p)["db"].ID
		if first["/log"] != p.Setup.Stack.ContainerProject()+"_log" || !strings.HasPrefix(first["/rows"], driverOf(p).baseName("db")+"-rows-") {
			t.Errorf("the volumes are %v", first)
		}
		if up := p.Up(); up.Changed {
			t.Errorf("the second up: %+v", up)
		}
		override(`, volumes: ["log:/log"], labels: {a: b}`)
		p.Up()
		if now := rowsOf(t, p); now["/rows"] != first["/rows"] || containersOf(t, p)["db"].ID == id {
			t.Errorf("after a replacement they are %v, were %v", now, first)
		}
		p.Down()
		p.Up()
		if now := rowsOf(t, p); now["/rows"] != first["/rows"] {
			t.Errorf("after a down they are %v, were %v", now, first)
		}
		p.Down()
		removed, err := driverOf(p).RemoveVolume(t.Context(), p.P)
		if err != nil || len(removed) != 3 || !slices.Contains(removed, first["/rows"]) {
			t.Errorf("removed %v, %v", removed, err)
		}
	})
}

// TestNamelessVolumesAreTakenOver: the container that plain Compose made has a
// volume that the engine named. Its successors have it, too, also after a down,
// and it is removed with the project's.
func TestNamelessVolumesAreTakenOver(t *testing.T) {
	t.Parallel()
	withRows(t, func(t *testing.T, p *runtimetest.Project, override func(string), image string) {
		e, d := mustEngine(t, p), driverOf(p)
		nameless, other := strings.Repeat("ab", 28)+newName()[:8], strings.Repeat("cd", 28)+newName()[:8]
		for _, name := range []string{nameless, other} {
			if _, err := e.api.VolumeCreate(t.Context(), volume.CreateOptions{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if err := e.api.VolumeRemove(context.Background(), other, false); err != nil {
				t.Error(err)
			}
		})
		labels := d.ourLabels()
		labels[composeProject], labels[composeService], labels[composeOneOff] = p.Setup.Stack.ContainerProject(), "db", "False"
		_, _, err := e.createContainer(t.Context(), containerSpec{
			name:   p.Setup.Stack.Name + "-" + newName(),
			config: container.Config{Image: image, Labels: labels, Cmd: []string{"who"}},
			host:   container.HostConfig{NetworkMode: "none", Binds: []string{nameless + ":/rows"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		override("")
		for range 2 {
			p.Up()
			if now := rowsOf(t, p); now["/rows"] != nameless || now["/log"] == "" {
				t.Errorf("the volumes are %v, want %q", now, nameless)
			}
			p.Down()
		}
		removed, err := d.RemoveVolume(t.Context(), p.P)
		if err != nil || !slices.Contains(removed, nameless) || slices.Contains(removed, other) {
			t.Errorf("removed %v, %v", removed, err)
		}
		if _, err := e.inspectVolume(t.Context(), other); err != nil {
			t.Errorf("somebody else's: %v", err)
		}
	})
}

// TestExternalNamelessVolumeStays: what somebody declared external is not the
// project's, also when it has no name and is not declared any more.
func TestExternalNamelessVolumeStays(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "rows:1", Volumes: []string{"/rows"}}}})
	theirs := strings.Repeat("ef", 32)
	fake.AddVolume(theirs, nil)
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	write(t, override, "services: {db: {image: 'rows:1', volumes: ['theirs:/rows']}}\nvolumes: {theirs: {external: true, name: "+theirs+"}}\n")
	p.Up()
	if now := rowsOf(t, p)["/rows"]; now != theirs {
		t.Fatalf("the service has %q", now)
	}
	p.Down()
	write(t, override, "services: {}\n")
	removed, err := driverOf(p).RemoveVolume(t.Context(), p.P)
	if err != nil || slices.Contains(removed, theirs) || !slices.Contains(fake.Volumes(), theirs) {
		t.Errorf("removed %v, %v", removed, err)
	}
}
