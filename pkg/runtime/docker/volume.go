package docker

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
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

// Names in the volume that are read here; pkg/checkpoint owns them.
const (
	volumeFile = "VOLUME"
	agentsDir  = "a"
)

// maxReads bounds how often a volume is read again because somebody wrote to it
// meanwhile: the engine breaks its stream off when a file grows under it.
const maxReads = 5

// ReadVolume copies the volume with the project's conversations, as it is right
// now, into a temporary directory, calls read with it, and removes it. It is for
// looking, when nothing runs and while something does: the engine is not always
// able to show a directory otherwise. Nothing that read does reaches the volume.
// A volume that does not exist, or of which nothing was ever written, is
// fs.ErrNotExist.
//
// It takes a container to look at a volume: one that is made for it, never
// started, and removed.
func (d *Driver) ReadVolume(ctx context.Context, read func(dir string) error) error {
	e, err := d.connected(ctx)
	if err != nil {
		return err
	}
	return d.looking(ctx, e, func(id string) error {
		return d.copied(ctx, e, id, stack.DataDir, func(dir string) error {
			if !exists(filepath.Join(dir, volumeFile)) {
				return errEmpty(d.o.Stack.Volume.Name)
			}
			return read(dir)
		})
	})
}

func errEmpty(name string) error {
	return fmt.Errorf("nothing was ever written to the volume %q: %w", name, fs.ErrNotExist)
}

// copied copies a path of a container into a temporary directory, calls use with
// it, and removes it.
func (d *Driver) copied(ctx context.Context, e *engine, id, inside string, use func(dir string) error) (err error) {
	for tries := 1; ; tries++ {
		dir, err := os.MkdirTemp("", "flisk-volume-")
		if err != nil {
			return err
		}
		err = e.copyOut(ctx, id, inside, dir)
		if err == nil {
			err = use(dir)
		} else if !errors.Is(err, errNotFound) && ctx.Err() == nil && tries < maxReads {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			continue
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
}

// copyOut unpacks a path of a container: what is below it, when it is a directory.
func (e *engine) copyOut(ctx context.Context, id, inside, dir string) error {
	archive, err := e.getArchive(ctx, id, inside)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }() // it is only read
	if err := unpack(archive, dir); err != nil {
		return e.failed(fmt.Sprintf("read %q in the container %s", inside, e.called(id)), err)
	}
	return nil
}

// unpack writes what is below the first segment of a tar stream's names. A single
// file keeps its name. Anything but files and directories is left out: a volume
// has nothing else, and a link could lead elsewhere.
func unpack(archive io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only a handle
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, name, below := strings.Cut(path.Clean(h.Name), "/")
		if !below {
			name = path.Clean(h.Name)
		}
		name = filepath.FromSlash(name)
		switch {
		case h.Typeflag == tar.TypeDir && below:
			err = root.MkdirAll(name, userOnly)
		case h.Typeflag == tar.TypeReg:
			if err = root.MkdirAll(filepath.Dir(name), userOnly); err == nil {
				err = unpackFile(root, name, r)
			}
		}
		if err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, name string, content io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// looking calls use with a container that has the volume mounted where agents
// have it.
func (d *Driver) looking(ctx context.Context, e *engine, use func(id string) error) (err error) {
	if _, err := e.inspectVolume(ctx, d.o.Stack.Volume.Name); errors.Is(err, errNotFound) {
		return fmt.Errorf("there is no volume %q: %w", d.o.Stack.Volume.Name, fs.ErrNotExist)
	} else if err != nil {
		return err
	}
	image, err := d.anyImage(ctx, e)
	if err != nil {
		return err
	}
	labels := d.ourLabels()
	labels[labelReader] = "true"
	id, _, err := e.createContainer(ctx, containerSpec{
		name:   d.baseName("reader") + "-" + strings.ToLower(rand.Text()[:8]),
		config: container.Config{Image: image, Labels: labels, Cmd: []string{"never"}},
		host: container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: d.o.Stack.Volume.Name, Target: stack.DataDir, ReadOnly: true,
			// Else an empty volume would take what the image has in that place.
			VolumeOptions: &mount.VolumeOptions{NoCopy: true},
		}}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.removeContainer(context.WithoutCancel(ctx), id)) }()
	return use(id)
}

// anyImage is one that the engine has: no process of it will ever run.
func (d *Driver) anyImage(ctx context.Context, e *engine) (string, error) {
	list, err := e.listImages(ctx, d.o.Stack.ID)
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		return list[0].ID, nil
	}
	if _, ok, err := e.inspectImage(ctx, stack.GatewayImage); err != nil || ok {
		return stack.GatewayImage, err
	}
	return "", fault.New(fault.Environment, "flisk up makes one", "cannot look at the volume %q: it takes an image to do that, and the engine has none of the project", d.o.Stack.Volume.Name)
}

// readerAge is when a container that looks at a volume was left by somebody who
// was killed.
const readerAge = 10 * time.Minute

// removeReaders removes those that nobody uses any more.
func (d *Driver) removeReaders(ctx context.Context, l look) error {
	var errs []error
	for _, c := range l.readers {
		if made, err := time.Parse(time.RFC3339Nano, c.Created); err == nil && time.Since(made) > readerAge {
			_, _, err := d.halt(ctx, l.e, c)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// volumeID reads the id of the volume in a container of an agent's.
func (d *Driver) volumeID(ctx context.Context, e *engine, container string) (id string, err error) {
	err = d.copied(ctx, e, container, path.Join(stack.DataDir, volumeFile), func(dir string) error {
		id, err = checkpoint.VolumeID(dir)
		return err
	})
	return id, err
}
