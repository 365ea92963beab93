package docker

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

func TestVolumes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		name := r.name("v")
		if _, err := e.inspectVolume(t.Context(), name); !errors.Is(err, errNotFound) {
			t.Errorf("inspect before it is made: %v", err)
		}
		for range 2 { // the second time it is there
			if v, err := e.createVolume(t.Context(), name, r.labels()); err != nil || v.Name != name {
				t.Errorf("create: %+v, %v", v, err)
			}
		}
		list, err := e.listVolumes(t.Context(), r.project)
		if err != nil || len(list) != 1 || list[0].Name != name {
			t.Errorf("list: %+v, %v", list, err)
		}
		for range 2 { // the second time it is gone
			if err := e.removeVolume(t.Context(), volumeRef{name: name, project: r.project}); err != nil {
				t.Error(err)
			}
		}
		if _, err := e.inspectVolume(t.Context(), name); !errors.Is(err, errNotFound) {
			t.Errorf("inspect after it was removed: %v", err)
		}
	})
}

func TestC17_OnlyOurVolumesAreRemoved(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		ours, bare, other := r.name("v"), r.name("v2"), r.name("v-other")
		if _, err := e.createVolume(t.Context(), ours, r.labels()); err != nil {
			t.Fatal(err)
		}
		for name, labels := range map[string]map[string]string{bare: nil, other: {labelProject: r.project + "0"}} {
			if _, err := e.api.VolumeCreate(t.Context(), volume.CreateOptions{Name: name, Labels: labels}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := e.api.VolumeRemove(context.Background(), name, false); err != nil && r.fake == nil {
					t.Error(err)
				}
			})
		}
		for _, ref := range []volumeRef{
			{name: bare, project: r.project}, {name: other, project: r.project}, {name: ours, project: ""},
			{name: bare, project: ""}, {name: ours, project: r.project, external: true},
		} {
			mustFault(t, e.removeVolume(t.Context(), ref), fault.Usage, ref.name)
			if _, err := e.inspectVolume(t.Context(), ref.name); err != nil {
				t.Errorf("%+v: %v", ref, err)
			}
		}
		for _, name := range []string{bare, other} {
			_, err := e.createVolume(t.Context(), name, r.labels())
			mustFault(t, err, fault.Usage, name, "not of this project")
		}
	})
}

// A removed container takes no volume with it, not even one without a name.
func TestC17_ContainersGoWithoutTheirVolumes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		if _, err := e.createVolume(t.Context(), r.name("v"), r.labels()); err != nil {
			t.Fatal(err)
		}
		s := r.spec("bot", "write", "/data/x", "kept")
		s.host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: r.name("v"), Target: "/data"}}
		id, code := r.run(s)
		if code != 0 {
			t.Fatalf("exit code %d: %v", code, r.lines(id, logOptions{tail: -1}))
		}
		mustFault(t, e.removeVolume(t.Context(), volumeRef{name: r.name("v"), project: r.project}), fault.Failed, "in use")
		if err := e.removeContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := e.inspectVolume(t.Context(), r.name("v")); err != nil {
			t.Error(err)
		}
		if r.fake != nil {
			for _, c := range r.fake.Calls() {
				if c.Op == "ContainerRemove" && c.Query.Has("v") {
					t.Errorf("its volumes were to be removed as well: %v", c.Query)
				}
			}
		}
	})
}

// No file of this package has a call that prunes.
func TestC17_NothingIsPruned(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		seen++
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && strings.Contains(strings.ToLower(s.Sel.Name), "prune") && s.Sel.Name != "PruneChildren" {
				t.Errorf("%s calls %s", f.Name(), s.Sel.Name)
			}
			return true
		})
	}
	if seen < 8 {
		t.Errorf("only %d files were looked at", seen)
	}
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		id, err := e.createNetwork(t.Context(), r.name("n"), r.labels())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.createNetwork(t.Context(), r.name("n"), r.labels()); !errors.Is(err, errConflict) {
			t.Errorf("a second one: %v", err)
		}
		list, err := e.listNetworks(t.Context(), r.project)
		if err != nil || len(list) != 1 || list[0].ID != id {
			t.Errorf("list: %+v, %v", list, err)
		}
		s := r.spec("bot")
		s.host.NetworkMode, s.networks = "", []attachment{{r.name("n"), []string{"bot", "bot-1-g001"}}}
		container := r.start(s)
		n, err := e.inspectNetwork(t.Context(), r.name("n"))
		if err != nil || len(n.Containers) != 1 || n.Containers[container].Name != r.name("bot") {
			t.Errorf("inspect: %+v, %v", n, err)
		}
		mustFault(t, e.removeNetwork(t.Context(), id), fault.Failed, "active endpoints")
		if _, err := e.stopContainer(t.Context(), container, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is gone
			if err := e.removeNetwork(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if _, err := e.inspectNetwork(t.Context(), id); !errors.Is(err, errNotFound) {
			t.Errorf("it is still there: %v", err)
		}
	})
}

// Whatever else the engine has, the lists do not show it.
func TestListsAreOfTheProject(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	r.fake.AddVolume("postgres", map[string]string{labelProject: "another"})
	if list, err := r.e.listVolumes(t.Context(), r.project); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, c := range r.fake.Calls() {
		if strings.HasSuffix(c.Op, "List") && !strings.Contains(c.Query.Get("filters"), labelProject+"="+r.project) {
			t.Errorf("%s has the filter %q", c.Op, c.Query.Get("filters"))
		}
	}
}
