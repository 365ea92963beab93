package claim

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Scratch makes a directory below parent, which is made when needed, for what
// must not outlive this process: it is locked until release removes it. What
// processes left there that were killed is removed first.
func Scratch(parent string) (dir string, release func() error, err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	if err := ClearScratch(parent); err != nil {
		return "", nil, err
	}
	for {
		dir, err := os.MkdirTemp(parent, "")
		if err != nil {
			return "", nil, err
		}
		lock, err := Dir(dir)
		if errors.Is(err, ErrLocked) || errors.Is(err, fs.ErrNotExist) {
			continue // somebody who clears up took it before it had a lock
		}
		if err != nil {
			return "", nil, errors.Join(err, os.Remove(dir))
		}
		return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
	}
}

// ClearScratch removes the directories below parent whose processes are gone. A
// parent that is not there has none.
func ClearScratch(parent string) error {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		dir := filepath.Join(parent, entry.Name())
		lock, err := Dir(dir)
		switch {
		case errors.Is(err, ErrLocked) || errors.Is(err, fs.ErrNotExist): // in use, or gone
		case err != nil:
			errs = append(errs, err)
		default:
			errs = append(errs, os.RemoveAll(dir), lock.Close())
		}
	}
	return errors.Join(errs...)
}
