package docker

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Volume is a volume of the project on the engine.
type Volume struct {
	Name        string
	Checkpoints bool // it holds the project's conversations
	External    bool // it is declared external, or carries no label of the project: never removed
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
	for i, v := range out {
		out[i].External = loaded.external(v.Name)
	}
	if !slices.ContainsFunc(out, func(v Volume) bool { return v.Checkpoints }) {
		switch _, err := e.inspectVolume(ctx, d.o.Stack.Volume.Name); {
		case err == nil:
			out = append(out, Volume{Name: d.o.Stack.Volume.Name, Checkpoints: true, External: true})
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
// its label, and returns their names: the conversations are gone then. One that
// is declared external, and one of anybody else's, is not touched. What is
// remembered of the volume is forgotten. While something of the project runs it
// is refused: Down first.
func (d *Driver) RemoveVolume(ctx context.Context, p runtime.Progress) (removed []string, err error) {
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return nil, err
	}
	defer release()
	if slices.ContainsFunc(l.everything(), seen.runs) {
		return nil, fault.New(fault.Usage, d.downOf(d.o.Stack.Dir), "something of the project runs, and uses its volume")
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
	for _, v := range volumes {
		if v.External {
			continue
		}
		end := p.Begin("remove volume " + v.Name)
		err := l.e.removeVolume(ctx, volumeRef{name: v.Name, project: d.o.Stack.ID, external: v.External})
		end("", err)
		if err != nil {
			return removed, err
		}
		removed = append(removed, v.Name)
	}
	return removed, d.forget()
}
