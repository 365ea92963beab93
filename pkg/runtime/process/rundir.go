package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
)

// makeRunDir makes the run directory and its parent for this user alone. Both
// may be below /tmp, where anybody can put something first: what is there must
// be a real directory of this user that nobody else can write to.
func (p place) makeRunDir() error {
	if err := os.MkdirAll(p.base, userOnly); err != nil {
		return notPrivate(p.base, err)
	}
	if err := checkPrivate(p.base); err != nil {
		return notPrivate(p.base, err)
	}
	if err := os.Mkdir(p.run, userOnly); err != nil && !errors.Is(err, fs.ErrExist) {
		return notPrivate(p.run, err)
	}
	if err := checkPrivate(p.run); err != nil {
		return notPrivate(p.run, err)
	}
	return nil
}

// runDirExists reports whether there is a run directory. One that is not
// private is an error: nothing in it can be believed.
func (p place) runDirExists() (bool, error) {
	err := checkPrivate(p.run)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, notPrivate(p.run, err)
	}
	return true, nil
}

func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("it is not a directory but %s", info.Mode().Type())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d", stat.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others can write to it (mode %#o)", info.Mode().Perm())
	}
	return nil
}

func notPrivate(dir string, err error) error {
	return fault.New(fault.Environment, "remove it, or set FLISK_RUN_DIR to a directory of your own",
		"cannot use the run directory %q: %w", dir, err)
}

// writeFile replaces a file whole. A reader sees the old content or the new.
func writeFile(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(data, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

func readFile(path string, value any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	return nil
}
