package docker

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

func TestC23_ImageOfAStaticProgram(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		img := r.image()
		first, made, err := e.loadAgentImage(t.Context(), img)
		if err != nil || !made {
			t.Fatalf("first: made %v, %v", made, err)
		}
		if again, made, err := e.loadAgentImage(t.Context(), img); err != nil || made || again != first {
			t.Errorf("again: made %v, %s instead of %s, %v", made, again, first, err)
		}

		// Its id depends on what it is made of, and on nothing else.
		if _, err := e.api.ImageRemove(t.Context(), img.tag, image.RemoveOptions{PruneChildren: true}); err != nil {
			t.Fatal(err)
		}
		if later, made, err := e.loadAgentImage(t.Context(), img); err != nil || !made || later != first {
			t.Errorf("once more: made %v, %s instead of %s, %v", made, later, first, err)
		}
		changed := img
		changed.labels = map[string]string{labelProject: r.project, labelCode: "c2"}
		if id, made, err := e.loadAgentImage(t.Context(), changed); err != nil || !made || id == first {
			t.Errorf("other labels: made %v, %s, %v", made, id, err)
		}
		changed.program = filepath.Join(t.TempDir(), "program")
		data, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(changed.program, append(data, 0), 0o600); err != nil { // whatever its mode is here
			t.Fatal(err)
		}
		if id, made, err := e.loadAgentImage(t.Context(), changed); err != nil || !made || id == first {
			t.Errorf("another program: made %v, %s, %v", made, id, err)
		}

		found, ok, err := e.inspectImage(t.Context(), img.tag)
		if err != nil || !ok {
			t.Fatal(err)
		}
		c := found.Config
		if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/agent"}) || len(c.Cmd) > 0 || c.Labels[labelCode] != "c2" ||
			found.Architecture != e.facts.Arch || found.Os != "linux" {
			t.Errorf("%s %s: %+v", found.Os, found.Architecture, c)
		}
	})
}

func TestC10_TheRunUserOwnsItsVolume(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	if _, err := r.e.createVolume(t.Context(), r.name("v"), r.labels()); err != nil {
		t.Fatal(err)
	}
	id, _ := r.run(r.spec("who", "who"))
	if lines := r.lines(id, logOptions{tail: -1}); len(lines) != 1 || lines[0].text != "65532 65532" {
		t.Errorf("it runs as %+v", lines)
	}
	s := r.spec("write", "write", "/data/x", "y")
	s.host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: r.name("v"), Target: "/data"}}
	id, code := r.run(s)
	if code != 0 {
		t.Errorf("it may not write to its volume: %+v", r.lines(id, logOptions{tail: -1}))
	}
	if _, code := r.run(r.spec("outside", "write", "/x", "y")); code == 0 {
		t.Error("it may write to the root")
	}
}

func TestImageHoldsTheRoots(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t := r.t
		s := r.spec("look")
		body, err := r.e.getArchive(t.Context(), r.create(s), "/"+rootsInImage)
		if err != nil {
			t.Fatal(err)
		}
		defer body.Close()
		reader := tar.NewReader(body)
		if _, err := reader.Next(); err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(reader); err != nil || !bytes.Equal(data, r.image().roots) {
			t.Errorf("%q, %v", data, err)
		}
	})
}

func TestImageThatIsNotTaken(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	img := r.image()
	img.program = "no-such-program"
	if _, _, err := r.e.loadAgentImage(t.Context(), img); err == nil {
		t.Error("there is an image of no program")
	}
	r.fake.Fail(dockertest.Failure{Op: "ImageLoad", Message: "no space left on device"})
	_, _, err := r.e.loadAgentImage(t.Context(), r.image())
	mustFault(t, err, fault.Failed, "no space left on device")
}
