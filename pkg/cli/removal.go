package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
)

// volumeRemover is a driver that can remove the project's volumes.
type volumeRemover interface {
	RemoveVolume(ctx context.Context, p runtime.Progress) (removed []string, err error)
}

// manyVolumes is a driver of a project that may have volumes besides that of its
// conversations.
type manyVolumes interface {
	Volumes(ctx context.Context) ([]docker.Volume, error)
}

func (o *opened) removeVolumes(ctx context.Context, p runtime.Progress) ([]string, error) {
	remover, ok := o.driver.(volumeRemover)
	if !ok {
		return nil, fault.New(fault.Failed, "", "the volumes of %s cannot be removed", runtimeWords(o.runtime))
	}
	return remover.RemoveVolume(ctx, p)
}

// removal is what the volumes of a project are that shall be removed.
type removal struct {
	volume VolumeJSON // with the conversations
	names  []string   // of all that would go
	kept   []KeptJSON
}

// KeptJSON is a volume that "down --volumes" does not remove.
type KeptJSON struct {
	Name string `json:"name"`
	Why  string `json:"why"` // for people: it is declared external, or somebody else's
}

// removal looks at what "down --volumes" would remove.
func (o *opened) removal(ctx context.Context) (removal, error) {
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return removal{}, err
	}
	r := removal{volume: o.volumeOf(ctx, observed)}
	many, ok := o.driver.(manyVolumes)
	if !ok {
		if r.volume.Exists {
			r.names = []string{r.volume.Name}
		}
		return r, nil
	}
	volumes, err := many.Volumes(ctx)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	for _, v := range volumes {
		if v.Kept != "" {
			r.kept = append(r.kept, KeptJSON{v.Name, v.Kept})
		} else {
			r.names = append(r.names, v.Name)
		}
	}
	return r, nil
}

func otherThan(r project.Runtime) project.Runtime {
	if r == project.Docker {
		return project.Process
	}
	return project.Docker
}

// elsewhere is the volume that a project has on the other runtime, where that is
// remembered and has sessions: each runtime has a volume of its own, of the same
// name.
func (a *app) elsewhere(ctx context.Context, o *opened) *VolumeJSON {
	other := otherThan(o.runtime)
	known, err := a.remembered(o.project)
	if _, was := known.Volumes[string(other)]; err != nil || !was {
		return nil
	}
	driver, err := a.newDriver(a, other, o.project, nil)
	if err != nil {
		return nil
	}
	there := &opened{project: o.project, runtime: other, driver: driver}
	observed, err := driver.Observe(ctx)
	if err != nil {
		return nil // what was asked for is done; an engine that is away has no part in it
	}
	if v := there.volumeOf(ctx, observed); v.Exists && (v.Sessions > 0 || v.Problem != "") {
		return &v
	}
	return nil
}

// confirmRemoval shows what is about to be lost and asks, before anything is
// stopped. Nothing to lose is no question.
func confirmRemoval(ctx context.Context, a *app) error {
	o, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	r, err := o.removal(ctx)
	if err != nil {
		return err
	}
	if len(r.names) == 0 || a.global.yes {
		return nil
	}
	if !a.global.json {
		for _, name := range r.names {
			text := "volume " + name
			if name == r.volume.Name {
				text += " · " + r.volume.state()
			}
			a.streams.Err.Note("remove", console.Warn, text)
		}
		for _, v := range r.kept {
			a.streams.Err.Note("keep", console.Quiet, "volume "+v.Name+": "+v.Why)
		}
	}
	kept := "nothing was stopped or removed"
	if a.global.json { // it has not seen the list
		kept += ", neither " + strings.Join(r.names, " nor ")
	}
	question := "remove it, with %s, for good?"
	if len(r.names) > 1 {
		question = "remove them, with %s, for good?"
	}
	return a.confirm(ctx, fmt.Sprintf(question, r.volume.held()), kept)
}

// held is what a volume holds that is to go.
func (v VolumeJSON) held() string {
	switch {
	case v.Problem != "":
		return "what cannot be read"
	case v.Sessions == 0:
		return "no session"
	}
	return countSessions(v.Sessions)
}
