package docker

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// byHand makes a container as docker run does, with no label but those given and
// its image's.
func byHand(t *testing.T, e *engine, name, from string, labels map[string]string) (id string) {
	t.Helper()
	made, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: from, Labels: labels}, &container.HostConfig{NetworkMode: "none"}, nil, nil, name)
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// TestWhatIsMadeFromTheAgentsImageIsNotOurs: it has the labels of the image, and is
// neither counted, nor stopped, nor removed; nor is the image under another name.
func TestWhatIsMadeFromTheAgentsImageIsNotOurs(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		e, s := mustEngine(t, p), p.Setup.Stack
		mine := s.ContainerProject() + "-mine"
		own, err := e.inspectContainer(t.Context(), p.Replica().Name)
		if err != nil { // its full name
			own, err = e.inspectContainer(t.Context(), driverOf(p).baseName(p.Replica().Name))
		}
		if err != nil {
			t.Fatal(err)
		}
		first := own.Image
		containers := []string{
			byHand(t, e, mine, s.Image("bot"), nil),
			byHand(t, e, mine+"-composed", s.Image("bot"), map[string]string{
				composeProject: "theirs", composeService: "bot", composeNumber: "1", composeHash: "1", composeVersion: "2.40",
				composeFiles: "/theirs/compose.yaml",
			}),
		}
		if err := e.tagImage(t.Context(), first, mine+":v1"); err != nil {
			t.Fatal(err)
		}
		made, err := e.api.ContainerCommit(t.Context(), own.ID, container.CommitOptions{Reference: mine + ":committed"})
		if err == nil { // the fake has no commit
			containers = append(containers, byHand(t, e, mine+"-committed", mine+":committed", nil))
		}
		t.Cleanup(func() {
			for _, c := range containers {
				if err := e.removeContainer(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
		there := func(when string) {
			t.Helper()
			for _, c := range containers {
				if _, err := e.inspectContainer(t.Context(), c); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
			for _, ref := range []string{mine + ":v1", made.ID} {
				if _, ok, err := e.inspectImage(t.Context(), ref); ref != "" && (err != nil || !ok) {
					t.Errorf("%s: the image %s is gone, %v", when, ref, err)
				}
			}
		}
		if o := p.Observe(); len(o.Replicas) != 1 {
			t.Errorf("replicas %+v", o.Replicas)
		}
		for _, code := range []string{"c2", "c3"} {
			p.Code(code)
			p.Up()
			there("with code " + code)
		}
		p.Down()
		there("after down")
		for _, c := range containers {
			if err := e.removeContainer(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		containers = nil
		p.Code("c4")
		p.Up()
		p.Down()
		if err := driverOf(p).Erase(t.Context(), p.P); err != nil {
			t.Error(err)
		}
		there("with no container left, and the project erased")
		for _, ref := range []string{made.ID, mine + ":v1"} { // the second is what the first is made of
			if ref != "" {
				if _, err := e.api.ImageRemove(t.Context(), ref, image.RemoveOptions{}); err != nil {
					t.Error(err)
				}
			}
		}
		if list, err := e.listImages(t.Context(), s.ID); err != nil || len(list) > 0 {
			t.Errorf("left %v, %v", list, err)
		}
	})
}

// TestALabelOfTheImageMakesNoContainerOurs: which of the two has it is all that
// counts, and what plain Compose started from the project's file is recognised.
func TestALabelOfTheImageMakesNoContainerOurs(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	s, d, e := p.Setup.Stack, driverOf(p), mustEngine(t, p)
	flisk := map[string]string{labelProject: s.ID, labelAgent: "bot"}
	with := func(labels map[string]string, more map[string]string) map[string]string {
		out := maps.Clone(labels)
		maps.Copy(out, more)
		return out
	}
	composed := func(project, service, file string) map[string]string {
		return map[string]string{composeProject: project, composeService: service, composeHash: "h", composeNumber: "1", composeFiles: file}
	}
	file := filepath.Join(s.Dir, "compose.yaml")
	for name, c := range map[string]struct {
		image, container map[string]string
		want             bool
	}{
		"docker run":                    {flisk, nil, false},
		"no label of the image":         {nil, flisk, false},
		"flisk":                         {flisk, map[string]string{labelContainer: "a"}, true},
		"flisk, on a committed image":   {with(flisk, map[string]string{labelContainer: "a"}), map[string]string{labelContainer: "b"}, true},
		"a committed container":         {with(flisk, map[string]string{labelContainer: "a", composeHash: "h"}), nil, false},
		"Compose":                       {nil, with(flisk, composed(s.ContainerProject(), "bot", "")), true},
		"Compose, under another name":   {nil, with(flisk, composed("other", "bot", file)), true},
		"Compose, somebody else's":      {flisk, composed("other", "bot", "/x/compose.yaml"), false},
		"Compose, from an agent's":      {flisk, composed(s.ContainerProject(), "db", file), false},
		"Compose, its gateway":          {nil, with(map[string]string{labelProject: s.ID}, composed(s.ContainerProject(), stack.GatewayService, file)), true},
		"Compose's, committed and run":  {with(flisk, composed(s.ContainerProject(), "bot", file)), nil, false},
		"committed, and Compose has it": {with(flisk, composed("x", "bot", "")), with(composed(s.ContainerProject(), "bot", file), map[string]string{composeHash: "i"}), true},
	} {
		ref := "of/" + shortHash(name) + ":latest"
		fake.AddImage(dockertest.Image{Ref: ref, Labels: c.image})
		id := byHand(t, e, shortHash(name), ref, c.container)
		l, err := d.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(l.everything(), func(c seen) bool { return c.ID == id }); got != c.want {
			t.Errorf("%s: ours is %t", name, got)
		}
		if err := e.removeContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}
