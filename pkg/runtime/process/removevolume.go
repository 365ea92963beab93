package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// removedPrefix begins the name of a volume that is being removed: no volume's
// own name begins with a dot, and what a killed removal left is found by it.
const removedPrefix = ".removed-"

// RemoveVolume removes the project's volume and returns its name: the
// conversations are gone then. What is remembered of it is forgotten. A directory
// that is no volume is not touched. While something of the project runs it is
// refused: Down first.
func (d *Driver) RemoveVolume(ctx context.Context, p runtime.Progress) (removed []string, err error) {
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return nil, err
	}
	defer release()
	if d.observed(l).Running {
		return nil, fault.New(fault.Usage, runtime.DownOf(d.o.Stack.Dir, d.o.Stack.Instance), "something of the project runs, and uses its volume")
	}
	name := d.o.Stack.Volume.Name
	known, err := d.memory().Read()
	if err != nil {
		return nil, err
	}
	was, has := known.Volumes[runtimeName]
	if has {
		if err := d.memory().Renamed(was, name); err != nil {
			return nil, err
		}
	}
	switch _, err := checkpoint.VolumeID(d.place.volume); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fault.New(fault.Environment, "", "cannot remove the volume %q: %w", d.place.volume, err)
	default:
		if has {
			if err := d.checkVolume(was); err != nil { // it is another one
				return nil, err
			}
		}
		removed = []string{name}
	}
	end := func(string, error) {}
	if removed != nil {
		end = p.Begin("remove volume " + name)
	}
	err = d.unlinkVolume(removed != nil)
	end("", err)
	if err != nil {
		return nil, fault.New(fault.Environment, "flisk down --volumes goes on from there", "cannot remove all of the volume %q: %w", d.place.volume, err)
	}
	return removed, d.memory().Forget(runtimeName)
}

// unlinkVolume takes the volume's name away first: nobody is to find half of it.
// Somebody may have put the directory elsewhere and left a link.
func (d *Driver) unlinkVolume(there bool) error {
	going := filepath.Join(filepath.Dir(d.place.volume), removedPrefix+filepath.Base(d.place.volume))
	if err := removeTree(going); err != nil { // a killed removal's
		return err
	}
	if !there {
		return nil
	}
	if err := os.Rename(d.place.volume, going); err != nil {
		return err
	}
	return removeTree(going)
}

// removeTree removes a directory, and what a link to one leads to.
func removeTree(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(path)
	}
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(real), os.RemoveAll(path))
}
