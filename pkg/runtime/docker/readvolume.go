package docker

import (
	"archive/tar"
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
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/stack"
)

// Survey says which sessions the project's volume has, as it is right now. Nothing
// of it is copied anywhere: its files pass by. A volume that does not exist, or of
// which nothing was ever written, is fs.ErrNotExist. When ctx ends, what was seen
// until then is returned with the error.
func (d *Driver) Survey(ctx context.Context) (s *checkpoint.Survey, err error) {
	e, err := d.connected(ctx)
	if err != nil {
		return nil, err
	}
	if s := d.surveyThroughAgent(ctx, e); s != nil {
		return s, nil
	}
	err = d.looking(ctx, e, func(id string) error {
		for tries := 1; ; tries++ {
			if s, err = d.survey(ctx, e, id); err == nil || !worthAnother(ctx, err, tries) {
				return err
			}
		}
	})
	return s, err
}

// agentTime bounds a read through the container of an agent that runs: while it
// goes on, the engine lets nobody inspect or stop that.
const agentTime = 500 * time.Millisecond

// surveyThroughAgent is a survey that needs no container of its own, because one of
// an agent's has the volume; nil when there is none, or it did not do.
func (d *Driver) surveyThroughAgent(ctx context.Context, e *engine) *checkpoint.Survey {
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	list, err := e.listContainers(ctx, d.o.Stack.ID)
	if err != nil {
		return nil
	}
	for _, c := range list {
		has := slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool {
			return m.Type == mount.TypeVolume && m.Name == d.o.Stack.Volume.Name && path.Clean(m.Destination) == stack.DataDir
		})
		if has && c.State == container.StateRunning && c.Labels[labelAgent] != "" && d.ours(c.Labels) {
			if s, err := d.survey(ctx, e, c.ID); err == nil {
				return s
			}
		}
	}
	return nil
}

func (d *Driver) survey(ctx context.Context, e *engine, id string) (*checkpoint.Survey, error) {
	s, err := d.identified(ctx, e, id)
	if err != nil {
		return nil, err
	}
	err = e.walk(ctx, id, path.Join(stack.DataDir, checkpoint.AgentsDir), func(h *tar.Header, name string, content io.Reader) error {
		if h.Typeflag == tar.TypeDir {
			content = nil
		}
		return s.Add(path.Join(checkpoint.AgentsDir, name), content)
	})
	if errors.Is(err, errNotFound) { // no agent has been there
		err = nil
	}
	return s, err
}

// identified begins a survey in a container that has the volume mounted.
func (d *Driver) identified(ctx context.Context, e *engine, id string) (s *checkpoint.Survey, err error) {
	err = e.walk(ctx, id, path.Join(stack.DataDir, checkpoint.VolumeFile), func(_ *tar.Header, _ string, content io.Reader) error {
		s, err = checkpoint.NewSurvey(content)
		return err
	})
	if errors.Is(err, errNotFound) {
		err = errEmpty(d.o.Stack.Volume.Name)
	}
	return s, err
}

// volumeID reads the id of the volume in a container of an agent's.
func (d *Driver) volumeID(ctx context.Context, e *engine, container string) (string, error) {
	s, err := d.identified(ctx, e, container)
	if err != nil {
		return "", err
	}
	return s.Volume, nil
}

// ReadVolume copies the volume with the project's conversations, as it is right
// now, into a directory of its own, calls read with it, and removes it. It is for
// looking, when nothing runs and while something does: the engine is not always
// able to show a directory otherwise. Nothing that read does reaches the volume.
// A volume that does not exist, or of which nothing was ever written, is
// fs.ErrNotExist.
//
// It takes a container to look at a volume: one that is made for it, never
// started, and removed.
func (d *Driver) ReadVolume(ctx context.Context, read func(dir string) error) error {
	return d.ReadFiles(ctx, []string{"."}, read)
}

// ReadFiles is ReadVolume with a copy of these files only ("." is all of them), by
// their paths below the volume, which are copied in this order. Those that are not
// there are left out.
func (d *Driver) ReadFiles(ctx context.Context, files []string, read func(dir string) error) error {
	e, err := d.connected(ctx)
	if err != nil {
		return err
	}
	return d.looking(ctx, e, func(id string) error {
		for tries := 1; ; tries++ {
			dir, release, err := claim.Scratch(d.place.copies)
			if err != nil {
				return here(err)
			}
			err = d.copyFiles(ctx, e, id, files, dir)
			again := err != nil && worthAnother(ctx, err, tries)
			if err == nil {
				err = read(dir)
			}
			if gone := release(); gone != nil || !again {
				return errors.Join(err, gone)
			}
		}
	})
}

// maxReads bounds how often a volume is read again because somebody wrote to it
// meanwhile: the engine breaks its stream off when a file grows under it.
const maxReads = 5

func worthAnother(ctx context.Context, err error, tries int) bool {
	_, here := errors.AsType[unwritten](err)
	return tries < maxReads && !here && ctx.Err() == nil && !errors.Is(err, errNotFound) && !errors.Is(err, fs.ErrNotExist)
}

// unwritten is why a copy cannot be made on this machine, as on a disk that is
// full: reading once more would not help.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

// here is the error of a place for copies.
func here(err error) error {
	if err == nil {
		return nil
	}
	return unwritten{fault.New(fault.Environment, "FLISK_HOME says where that is", "there is no place for a copy of the conversations: %w", err)}
}

// ErrEmpty says of a volume that it is there, and that nothing was ever written to
// it. It is fs.ErrNotExist, too.
var ErrEmpty = fmt.Errorf("it is empty: %w", fs.ErrNotExist)

func errEmpty(name string) error {
	return fmt.Errorf("nothing was ever written to the volume %q: %w", name, ErrEmpty)
}

// copyFiles copies files of the volume from a container, and what makes it one.
func (d *Driver) copyFiles(ctx context.Context, e *engine, id string, files []string, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return here(err)
	}
	defer func() { _ = root.Close() }() // only a handle
	for _, file := range append([]string{checkpoint.VolumeFile}, files...) {
		err := e.walk(ctx, id, path.Join(stack.DataDir, file), func(h *tar.Header, name string, content io.Reader) error {
			return unpack(root, h, filepath.FromSlash(path.Join(path.Dir(file), name)), content)
		})
		switch {
		case errors.Is(err, errNotFound) && file == checkpoint.VolumeFile:
			return errEmpty(d.o.Stack.Volume.Name)
		case err != nil && !errors.Is(err, errNotFound):
			return err
		}
	}
	return nil
}

// walk shows each file and directory below a path of a container by its name
// below that, or the one file that it is. A directory comes before what is in it.
func (e *engine) walk(ctx context.Context, id, inside string, each func(h *tar.Header, name string, content io.Reader) error) error {
	archive, err := e.getArchive(ctx, id, inside)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }() // it is only read
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_, name, below := strings.Cut(path.Clean(h.Name), "/")
			if !below {
				name = path.Clean(h.Name)
			}
			if below || h.Typeflag != tar.TypeDir {
				err = each(h, name, r)
			}
		}
		if _, ours := errors.AsType[unwritten](err); ours {
			return err
		}
		if err != nil {
			return e.failed(fmt.Sprintf("read %q in the container %s", inside, e.called(id)), err)
		}
	}
}

// unpack writes one entry of an archive. Anything but files and directories is
// left out: a volume has nothing else, and a link could lead elsewhere. A file
// that is there already is the first of its name that was asked for.
func unpack(root *os.Root, h *tar.Header, name string, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return here(root.MkdirAll(name, userOnly))
	case tar.TypeReg:
	default:
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(name), userOnly); err != nil {
		return here(err)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return here(err)
	}
	from := &source{Reader: content}
	if _, err := io.Copy(f, from); err != nil {
		_ = f.Close() // the error before it says more
		if from.err != nil {
			return from.err
		}
		return here(err)
	}
	return here(f.Close())
}

// source remembers why it could not be read: a copy that fails may have failed at
// either end.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
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
	defer func() { err = errors.Join(err, e.discard(ctx, id)) }()
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
	return "", fault.New(fault.Environment, "flisk up makes one", "cannot look at the volume %q: %w", d.o.Stack.Volume.Name, errNoImage)
}

var errNoImage = errors.New("it takes an image to do that, and the engine has none of the project")

// readerAge is when a container that looks at a volume was left by somebody who
// was killed.
const readerAge = 10 * time.Minute

// removeReaders removes those that nobody uses any more, and copies that they
// were for.
func (d *Driver) removeReaders(ctx context.Context, l look) error {
	errs := []error{claim.ClearScratch(d.place.copies)}
	for _, c := range l.readers {
		if made, err := time.Parse(time.RFC3339Nano, c.Created); err == nil && time.Since(made) > readerAge {
			_, err := d.halt(ctx, l.e, c)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
