package scaffold

import (
	"os"
	"path/filepath"
)

// disk is every change that a scaffold makes, so that a test can let any one of
// them fail.
type disk interface {
	Mkdir(path string) error                     // with the permissions that the umask leaves
	WriteFile(path string, content []byte) error // a new file; an existing one is an error
	Rename(from, to string) error
	Share(path string) error // lets everybody read a file, or pass through a directory
}

type realDisk struct{}

func (realDisk) Mkdir(path string) error      { return os.Mkdir(path, 0o777) }
func (realDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (realDisk) Share(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	perm := info.Mode().Perm() | 0o444
	if info.IsDir() {
		perm |= 0o111
	}
	return os.Chmod(path, perm)
}

func (realDisk) WriteFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		_ = f.Close() // the write's error says more
		return err
	}
	return f.Close()
}

// writeTree makes directory dir and the files below it.
func writeTree(d disk, dir string, files []file) error {
	if err := d.Mkdir(dir); err != nil {
		return err
	}
	made := map[string]bool{dir: true}
	var parents func(path string) error
	parents = func(path string) error {
		if made[path] {
			return nil
		}
		if err := parents(filepath.Dir(path)); err != nil {
			return err
		}
		made[path] = true
		return d.Mkdir(path)
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.path))
		if err := parents(filepath.Dir(path)); err != nil {
			return err
		}
		if err := d.WriteFile(path, f.content); err != nil {
			return err
		}
		for at := path; f.shared && at != dir; at = filepath.Dir(at) {
			if err := d.Share(at); err != nil {
				return err
			}
		}
	}
	return nil
}
