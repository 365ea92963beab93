package docker

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// An image that is built on an agent's, or committed from its container, has all
// its labels. So which images flisk made is written down, and of any other one
// nothing but a name of flisk's own is taken away.

// keepImage writes down that flisk made an image.
func (d *Driver) keepImage(made stage) {
	known := readStages(d.place.images)
	if slices.ContainsFunc(known, made.is) {
		return
	}
	if err := writeStages(d.place.images, append(known, made)); err != nil {
		d.warn("an image stays when nothing uses it any more: it is not written down that flisk made it: " + err.Error())
	}
}

// dropImages removes images that flisk made, and that have no name but that of an
// agent's that is not wanted. What it cannot remove now, the next one will.
func (d *Driver) dropImages(ctx context.Context, e *engine, l look, wanted []string) error {
	return d.dropMade(ctx, e, l, func(s stage, names []string) bool {
		return slices.Contains(wanted, s.Image) && slices.Contains(names, s.Image)
	})
}

// dropUnnamed removes images that flisk made, that gave their names to later ones
// and that nothing uses any more. It is only about space: what it cannot remove
// now, the next one will. Whoever calls it keeps other changes out: an image has no
// name yet in the middle of its build.
func (d *Driver) dropUnnamed(ctx context.Context, e *engine, l look) {
	_ = d.dropMade(ctx, e, l, func(_ stage, names []string) bool { return len(names) > 0 })
}

// dropMade removes images that flisk made, that no container has, and of whose names
// keep says that they are not to stay.
func (d *Driver) dropMade(ctx context.Context, e *engine, l look, keep func(made stage, names []string) bool) error {
	known := readStages(d.place.images)
	var errs []error
	left := slices.DeleteFunc(slices.Clone(known), func(s stage) bool {
		if s.Engine != e.facts.ID || slices.ContainsFunc(l.everything(), func(c seen) bool { return c.Image == s.ID }) {
			return false
		}
		found, there, err := e.inspectImage(ctx, s.ID)
		if err == nil && there {
			if keep(s, found.RepoTags) {
				return false
			}
			err = e.dropImage(ctx, s)
		}
		if !errors.Is(err, errConflict) { // something else is made of it
			errs = append(errs, err)
		}
		return err == nil
	})
	if len(left) < len(known) {
		_ = writeStages(d.place.images, left) // one that is gone is removed again
	}
	return errors.Join(errs...)
}

// dropImage takes the name of an agent's image off one that flisk made, and
// removes it unless it has another one.
func (e *engine) dropImage(ctx context.Context, made stage) error {
	below, err := e.imageHistory(ctx, made.ID)
	if err != nil {
		return err
	}
	found, there, err := e.inspectImage(ctx, made.ID)
	if err != nil || !there {
		return err
	}
	if slices.Contains(found.RepoTags, made.Image) { // of several it goes alone
		if err := e.removeImageAlone(ctx, made.Image); err != nil {
			return err
		}
	}
	return e.removeDown(ctx, made, below)
}

// dropNames takes names of agents' images that are not wanted off images of which
// it is not written down that flisk made them. One that had no other goes with it.
func (d *Driver) dropNames(ctx context.Context, e *engine, wanted []string) error {
	list, err := e.listImages(ctx, d.o.Stack.ID)
	if err != nil {
		return err
	}
	var errs []error
	for _, image := range list {
		if !d.ours(image.Labels) {
			continue
		}
		for _, tag := range image.RepoTags {
			if d.ownName(tag) && !slices.Contains(wanted, tag) {
				if err := e.removeImageAlone(ctx, tag); !errors.Is(err, errConflict) {
					errs = append(errs, err)
				}
			}
		}
	}
	return errors.Join(errs...)
}

// ownName reports whether a name is that of an agent's image of this project,
// whatever the project was called.
func (d *Driver) ownName(tag string) bool {
	project, _, _ := strings.Cut(tag, "/")
	return strings.HasPrefix(project, "flisk-") && strings.HasSuffix(project, "-"+d.o.Stack.ID)
}
