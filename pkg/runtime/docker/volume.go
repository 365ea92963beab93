package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Volume is a volume of the project on the engine.
type Volume struct {
	Name        string
	Checkpoints bool // it holds the project's conversations

	// Kept says why it is never removed, for people: it is declared external, or is
	// somebody else's. "" is for all others.
	Kept string

	nameless bool // no label says that it is the project's
}

// Volumes lists the volumes of the project that exist on the engine, the one
// with its conversations first. It changes nothing.
func (d *Driver) Volumes(ctx context.Context) ([]Volume, error) {
	e, err := d.connected(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := d.load(ctx)
	if err != nil {
		return nil, err
	}
	out, err := d.labelled(ctx, e)
	if err != nil {
		return nil, err
	}
	nameless, err := d.namelessVolumes(ctx, e)
	if err != nil {
		return nil, err
	}
	out = append(out, nameless...)
	for i, v := range out {
		if loaded.external(v.Name) {
			out[i].Kept = declaredExternal
		} else if v.Checkpoints {
			if out[i].Kept, err = d.exchanged(ctx, e); err != nil {
				return nil, err
			}
		}
	}
	if !slices.ContainsFunc(out, func(v Volume) bool { return v.Checkpoints }) {
		name := d.o.Stack.Volume.Name
		switch v, err := e.inspectVolume(ctx, name); {
		case err == nil && loaded.external(name):
			out = append(out, Volume{Name: name, Checkpoints: true, Kept: declaredExternal})
		case err == nil:
			out = append(out, Volume{Name: name, Checkpoints: true, Kept: d.whose(v.Labels)})
		case !errors.Is(err, errNotFound):
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b Volume) int {
		switch {
		case a.Checkpoints == b.Checkpoints:
			return cmp.Compare(a.Name, b.Name)
		case a.Checkpoints:
			return -1
		}
		return 1
	})
	return out, nil
}

const declaredExternal = "it is declared external"

// exchanged says of a volume with the project's label that it is another one than
// the project had; "" where it is not, or holds nothing, or cannot be looked at.
func (d *Driver) exchanged(ctx context.Context, e *engine) (string, error) {
	known, err := d.memory().Read()
	was, has := known.Volumes[runtimeName]
	if err != nil || !has || was.Name != d.o.Stack.Volume.Name {
		return "", err
	}
	id, err := d.liveID(ctx, look{e: e})
	switch {
	case errors.Is(err, errNoImage) || errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil || id == was.ID:
		return "", err
	}
	return fmt.Sprintf("it is another one (%s) than that of the project's conversations (%s), made elsewhere under its name", id, was.ID), nil
}

// labelled are the volumes that carry the project's label.
func (d *Driver) labelled(ctx context.Context, e *engine) ([]Volume, error) {
	list, err := e.listVolumes(ctx, d.o.Stack.ID)
	if err != nil {
		return nil, err
	}
	var out []Volume
	for _, v := range list {
		if d.ours(v.Labels) {
			out = append(out, Volume{Name: v.Name, Checkpoints: v.Name == d.o.Stack.Volume.Name})
		}
	}
	return out, nil
}

// RemoveVolume removes every volume of the project on the engine that carries
// its label, and returns their names: the conversations are gone then. Those that
// [Driver.Volumes] says are kept are not touched. What is remembered of the volume
// is forgotten, unless somebody else's is in its place. While something of the
// project runs it is refused: Down first.
func (d *Driver) RemoveVolume(ctx context.Context, p runtime.Progress) (removed []string, err error) {
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return nil, err
	}
	defer release()
	if slices.ContainsFunc(l.everything(), seen.runs) {
		return nil, fault.New(fault.Usage, runtime.DownOf(d.o.Stack.Dir, d.o.Stack.Instance), "something of the project runs, and uses its volume")
	}
	// A container that never runs can hold a volume, too.
	for _, c := range l.everything() {
		if err := d.remove(ctx, l.e, c); err != nil {
			return nil, err
		}
	}
	volumes, err := d.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	forget := true
	for _, v := range volumes {
		if v.Kept != "" {
			forget = forget && (!v.Checkpoints || v.Kept == declaredExternal)
			continue
		}
		end := p.Begin("remove volume " + v.Name)
		err := l.e.removeVolume(ctx, volumeRef{name: v.Name, project: d.o.Stack.ID, nameless: v.nameless})
		end("", err)
		if err != nil {
			return removed, err
		}
		removed = append(removed, v.Name)
	}
	if !forget {
		return removed, nil
	}
	return removed, d.memory().Forget(runtimeName)
}
