package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

func parentOf(dir string) string { return filepath.Dir(filepath.Clean(dir)) }

// WriteOptions say how [Write] puts a whole file in its place.
type WriteOptions struct {
	// Place is the prefix of the operations' names.
	Place Op
	// Temp is the name that the file has while it is written, in the directory
	// of its final name: a rename across file systems would not be atomic.
	Temp string
	// Reserve is disk space to preallocate for the file, in bytes.
	Reserve int64
	// NoReplace makes an existing final name fs.ErrExist and leaves it alone.
	NoReplace bool
	// BeforePlace, if not nil, runs when the contents are durable and the final
	// name does not show them yet. Its error stops the write.
	BeforePlace func() error
}

// Write makes data the contents of name, whole or not at all, durably: write a
// new file, check its length, fsync, close, rename, fsync the directory.
//
// Placed reports whether the name stands for the new file. With placed and an
// error the directory could not be synced: a power cut may bring the old file
// back. Without placed the old file is untouched, and the temporary one removed
// as far as that is possible.
func Write(fsys FS, name string, data []byte, o WriteOptions) (placed bool, err error) {
	if path.Dir(o.Temp) != path.Dir(name) {
		return false, fmt.Errorf("temporary file %q is not beside %q", o.Temp, name)
	}
	// Whoever writes name holds its lock, so a file at Temp is left from a
	// process that died.
	if err := fsys.Remove(o.Place+stepClean, o.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	defer func() {
		if !placed || o.NoReplace { // a link leaves the first name in place
			_ = fsys.Remove(o.Place+stepClean, o.Temp) // the next write removes it, if this does not
		}
	}()
	if err := writeTemp(fsys, data, o); err != nil {
		return false, err
	}
	if o.BeforePlace != nil {
		if err := o.BeforePlace(); err != nil {
			return false, err
		}
	}
	if o.NoReplace {
		err = fsys.Link(o.Place+stepLink, o.Temp, name)
	} else {
		err = fsys.Rename(o.Place+stepRename, o.Temp, name)
	}
	if err != nil {
		return false, err
	}
	return true, fsys.SyncDir(o.Place+stepDirSync, path.Dir(name))
}

func writeTemp(fsys FS, data []byte, o WriteOptions) (err error) {
	f, err := fsys.Open(o.Place+stepOpen, o.Temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	if o.Reserve > 0 {
		if err := f.Preallocate(OpPreallocate, 0, o.Reserve); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if _, err := f.WriteAt(o.Place+stepWrite, data, 0); err != nil {
		return err
	}
	info, err := f.Stat(o.Place + stepCheck)
	if err != nil {
		return err
	}
	if info.Size != int64(len(data)) {
		return fmt.Errorf("%q has %d bytes after writing %d: %w", o.Temp, info.Size, len(data), io.ErrShortWrite)
	}
	return f.Sync(o.Place + stepSync)
}

// EnsureDir makes one directory where it is missing and, in any case, the
// entry of it durable: whoever made it may not have come that far.
func EnsureDir(fsys FS, mkdir, sync Op, name string) error {
	if err := fsys.Mkdir(mkdir, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsys.SyncDir(sync, path.Dir(name))
}

// ReadAll reads a file to its end.
func ReadAll(f File, op Op) ([]byte, error) {
	info, err := f.Stat(op)
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size+1) // one more byte finds the end without a second read
	used := 0
	for {
		n, err := f.ReadAt(op, data[used:], int64(used))
		used += n
		if err == io.EOF {
			return data[:used], nil
		}
		if err != nil {
			return nil, err
		}
		if used == len(data) { // it grew since Stat
			data = append(data, make([]byte, len(data))...)
		}
	}
}

// ReadFile opens, reads and closes a file.
func ReadFile(fsys FS, op Op, name string) ([]byte, error) {
	f, err := fsys.Open(op, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, op)
}
