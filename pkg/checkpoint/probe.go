package checkpoint

import (
	"fmt"
	"os"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// probe tries, once and before the first turn, all that the store needs of the
// volume: write, fsync, rename, directory fsync, unlink, and that flock
// excludes. What is wanting but can be lived with comes back as warnings.
func (f *File) probe() (warnings []string, err error) {
	fsType, err := f.root.Type()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotVolume, err)
	}
	switch fsType {
	case durable.TmpFS:
		warnings = append(warnings, "the volume is a tmpfs: all sessions are lost when the host restarts")
	case durable.OverlayFS:
		if f.options.RefuseOverlay {
			return nil, fmt.Errorf("%w: %q is the container's own layer and goes with it; mount a volume there", ErrNotVolume, f.dir)
		}
		warnings = append(warnings, "the volume is a container's own layer (overlayfs): all sessions are lost with the container")
	case durable.NetworkFS:
		warnings = append(warnings, "the volume is on "+string(fsType)+": its locks and syncs are not those of a local disk")
	}

	name := f.reader.dir() + "/.probe-" + f.replica
	_, err = durable.Write(f.root, name, []byte("probe\n"), durable.WriteOptions{Place: durable.ProbeFile, Temp: name + tempSuffix})
	if err != nil {
		return nil, notVolume(f.root, f.dir, err)
	}
	excludes, err := f.probeLock(name)
	if e := f.root.Remove(durable.OpProbeRemove, name); err == nil {
		err = e
	}
	if err != nil {
		return nil, notVolume(f.root, f.dir, err)
	}
	if !excludes {
		warnings = append(warnings, "locks do not exclude on this volume: run one replica only")
	}
	return warnings, nil
}

// probeLock reports whether the lock of one descriptor keeps another one out.
func (f *File) probeLock(name string) (excludes bool, err error) {
	var files [2]durable.File
	for i := range files {
		if files[i], err = f.root.Open(durable.OpProbe, name, os.O_RDWR); err != nil {
			return false, err
		}
		defer files[i].Close()
	}
	if ok, err := files[0].TryLock(durable.OpProbeLock, durable.Exclusive); err != nil || !ok {
		return false, err
	}
	second, err := files[1].TryLock(durable.OpProbeLock, durable.Exclusive)
	return !second, err
}
