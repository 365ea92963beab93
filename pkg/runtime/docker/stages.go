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

	"github.com/containerd/errdefs"
)

// A build by a Dockerfile leaves each stage but the last as an image without a name
// and without a label: the builder labels the last one only. They are the cache of
// the next build, and 100 MB each where there is a compiler's output in them. So
// what a build's stream says that it made is written down, and removed after the
// next build that did not use it.

// stage is one of a build.
type stage struct {
	ID     string // of its last image
	Base   string // how the id of the image begins that it was built on, which is somebody else's; "" is scratch
	Image  string // name of what was built
	Engine string // id of the one that has it

	made bool // by this build: its last image was not in the cache
	last bool // the image that the build was for
}

// stageReader takes the stages out of the stream of a build.
type stageReader struct {
	ended []stage

	current stage
	begun   bool // by its FROM
	based   bool // the line about its base was seen
}

// Lines of the builder's, each a message of its own. What a program that is run
// prints may look like them: it comes behind the lines about its stage's beginning,
// and can only make that pass for cached.
const (
	stepLine   = "Step "
	fromLine   = " : FROM "
	idLine     = " ---> "
	cachedLine = " ---> Using cache"
)

func (r *stageReader) take(m message) {
	id := m.image()
	switch {
	case id != "":
		r.current.ID = id
		r.ended = append(r.ended, r.current)
		r.current, r.begun, r.based = stage{}, false, false
	case !r.begun:
		r.begun = strings.HasPrefix(m.Stream, stepLine) && strings.Contains(m.Stream, fromLine)
	case strings.HasPrefix(m.Stream, stepLine):
		r.current.made = r.based
	case strings.HasPrefix(m.Stream, cachedLine):
		r.current.made = false
	case strings.HasPrefix(m.Stream, idLine) && !r.based:
		r.current.Base, r.based = strings.TrimSpace(strings.TrimPrefix(m.Stream, idLine)), true
	}
}

// readStages reads what was written down. A file that cannot be read is nothing:
// it is only about space.
func readStages(path string) (stages []stage) {
	content, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(content, &stages) != nil {
		return nil
	}
	return stages
}

func writeStages(path string, stages []stage) error {
	if len(stages) == 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	content, err := json.Marshal(stages)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), userOnly)
	}
	if err != nil {
		return err
	}
	return replaceBy(filepath.Dir(path), path, content)
}

// keepStages writes down which stages a build of an image made. When it succeeded,
// those of earlier builds are removed that it did not use.
func (d *Driver) keepStages(ctx context.Context, e *engine, image string, built []stage, succeeded bool) {
	known := readStages(d.place.stages)
	for _, s := range built {
		s.Image, s.Engine = image, e.facts.ID
		if s.last && succeeded {
			d.keepImage(s)
		} else if s.made && !slices.ContainsFunc(known, s.is) {
			known = append(known, s)
		}
	}
	if err := writeStages(d.place.stages, known); err != nil {
		d.warn("the build left images without a name that flisk will not remove: " + err.Error())
		return
	}
	if succeeded {
		d.removeStages(ctx, e, func(s stage) bool { return s.Image == image && !slices.ContainsFunc(built, s.isImage) })
	}
}

func (s stage) is(other stage) bool      { return s.isImage(other) && s.Engine == other.Engine }
func (s stage) isImage(other stage) bool { return s.ID == other.ID }

// removeStages removes those of the engine that are not wanted any more. What it
// cannot remove now, the next one will.
func (d *Driver) removeStages(ctx context.Context, e *engine, unwanted func(stage) bool) {
	known := readStages(d.place.stages)
	left := slices.DeleteFunc(slices.Clone(known), func(s stage) bool {
		return s.Engine == e.facts.ID && unwanted(s) && e.removeStage(ctx, s) == nil
	})
	if len(left) < len(known) {
		_ = writeStages(d.place.stages, left) // one that is gone is removed again
	}
}

// removeStage removes a stage's last image, and those below it down to its base as
// far as nothing else is built on them. What got a name meanwhile is kept.
func (e *engine) removeStage(ctx context.Context, s stage) error {
	below, err := e.imageHistory(ctx, s.ID)
	if err != nil {
		return err
	}
	return e.removeDown(ctx, s, below)
}

// removeDown removes images that a stage's is made of, its own first, as far as
// they have no name and nothing else is built on them.
func (e *engine) removeDown(ctx context.Context, s stage, below []string) error {
	for _, id := range below {
		if s.Base != "" && strings.HasPrefix(strings.TrimPrefix(id, "sha256:"), s.Base) {
			return nil
		}
		found, there, err := e.inspectImage(ctx, id)
		if err == nil && !there && id == s.ID { // its name was its last
			continue
		}
		if err != nil || !there || len(found.RepoTags)+len(found.RepoDigests) > 0 {
			return err
		}
		switch err := e.removeImageAlone(ctx, id); {
		case errors.Is(err, errConflict) && id != s.ID:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// imageHistory are the ids of an image and of those that it was built on, as far
// as the engine has them; none when there is no such image.
func (e *engine) imageHistory(ctx context.Context, id string) (ids []string, err error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	list, err := e.api.ImageHistory(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, e.failed(fmt.Sprintf("look at what the image %q was built on", id), err)
	}
	for _, item := range list {
		if item.ID != "<missing>" { // it came from elsewhere
			ids = append(ids, item.ID)
		}
	}
	return ids, nil
}
