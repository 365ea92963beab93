package genfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Change is what has to be done so that a project has its generated files.
type Change struct {
	Dir    string  // of the project
	Stale  []Stale // those that are missing or other than they should be, in order
	writes []write
}

// Stale is a file that has to be written.
type Stale struct {
	Path  string // in the project, with slashes
	Cause string // why, for people
}

// write is one file that has to change.
type write struct {
	file File
	old  []byte // nil when there was none
	only bool   // its permissions alone are wrong
}

// Plan looks at the generated files of a project and changes nothing. A file that
// is not as flisk wrote it is a fault of kind Usage that names the file and the
// way out; then nothing must be done with the project that would write it.
func Plan(dir string, files []File) (Change, error) {
	c := Change{Dir: dir}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return c, cannot("look at", dir, err)
	}
	defer root.Close()
	var refused []string
	for _, f := range files {
		old, info, err := look(root, f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.Stale = append(c.Stale, Stale{f.Path, "it is not there"})
			c.writes = append(c.writes, write{file: f})
			continue
		case err != nil:
			return c, cannot("look at", f.Path, err)
		}
		switch seen := Inspect(old); {
		case seen == Foreign:
			refused = append(refused, fmt.Sprintf("%q was not written by flisk", f.Path))
		case seen == Edited:
			refused = append(refused, fmt.Sprintf("%q was edited, and flisk writes it", f.Path))
		case !bytes.Equal(old, f.Content):
			c.Stale = append(c.Stale, Stale{f.Path, "it is not what flisk.yaml says"})
			c.writes = append(c.writes, write{file: f, old: old})
		case f.Shared && !readable(root, f.Path, info):
			c.writes = append(c.writes, write{file: f, old: old, only: true})
		}
	}
	return c, refusal(refused)
}

// refusal names the files that are somebody else's.
func refusal(refused []string) error {
	const hint = "put what you changed into compose.override.yaml or flisk.yaml, and remove or rename the file; then flisk up"
	switch len(refused) {
	case 0:
		return nil
	case 1:
		return fault.New(fault.Usage, hint, "%s", refused[0])
	}
	f := fault.New(fault.Usage, hint, "%d generated files are not as flisk wrote them", len(refused))
	f.Detail = strings.Join(refused, "\n")
	return f
}

// maxFile bounds a generated file: one of the largest project has some 100 KiB.
const maxFile = 4 << 20

// look reads a file that is a regular one. Anything else is Foreign, too, but
// must not be opened: a pipe would wait.
func look(root *os.Root, name string) ([]byte, fs.FileInfo, error) {
	name = filepath.FromSlash(name)
	info, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, info, nil
	}
	content, err := root.ReadFile(name)
	return content, info, err
}

const (
	sharedFile = 0o644
	sharedDir  = 0o755
)

// readable reports whether everybody may read a file below directories that flisk
// made.
func readable(root *os.Root, name string, info fs.FileInfo) bool {
	if info.Mode().Perm()&0o444 != 0o444 {
		return false
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := root.Stat(filepath.FromSlash(dir))
		if err != nil || info.Mode().Perm()&0o555 != 0o555 {
			return false
		}
	}
	return true
}

// Apply writes what is stale: all of it or nothing. Each file is replaced in one
// step, so that who reads it meanwhile finds the old one or the new one. Files
// that need no change are not touched.
func (c Change) Apply() (err error) {
	if len(c.writes) == 0 {
		return nil
	}
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return cannot("write into", c.Dir, err)
	}
	defer root.Close()
	var done []write
	defer func() {
		if err != nil {
			for _, w := range done {
				err = errors.Join(err, w.undo(root))
			}
		}
	}()
	for _, w := range c.writes {
		if err := w.do(root); err != nil {
			return cannot("write", w.file.Path, err)
		}
		done = append(done, w)
	}
	return nil
}

func (w write) do(root *os.Root) error {
	if err := w.parents(root); err != nil {
		return err
	}
	if w.only {
		return root.Chmod(filepath.FromSlash(w.file.Path), sharedFile)
	}
	return replace(root, w.file, w.file.Content)
}

// undo brings back what was there. A directory that was made for a file stays.
func (w write) undo(root *os.Root) error {
	switch {
	case w.only:
		return nil
	case w.old == nil:
		return root.Remove(filepath.FromSlash(w.file.Path))
	}
	return replace(root, w.file, w.old)
}

// parents makes the directories above a file, and lets everybody into those of a
// shared one.
func (w write) parents(root *os.Root) error {
	dir := path.Dir(w.file.Path)
	if dir == "." {
		return nil
	}
	if err := root.MkdirAll(filepath.FromSlash(dir), 0o777); err != nil {
		return err
	}
	for ; w.file.Shared && dir != "."; dir = path.Dir(dir) {
		name := filepath.FromSlash(dir)
		info, err := root.Stat(name)
		if err != nil {
			return err
		}
		if perm := info.Mode().Perm(); perm|sharedDir != perm {
			if err := root.Chmod(name, perm|sharedDir); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace puts a file in its place by a rename, from a name beside it that
// nobody takes for configuration.
func replace(root *os.Root, file File, content []byte) (err error) {
	name := filepath.FromSlash(file.Path)
	temporary := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"-"+rand.Text()[:8]+".tmp")
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	placed := false
	defer func() {
		if !placed {
			_ = f.Close() // at worst the second time
			err = errors.Join(err, root.Remove(temporary))
		}
	}()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if file.Shared {
		if err := f.Chmod(sharedFile); err != nil {
			return err
		}
	}
	// A rename can be on disk before the content is.
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := root.Rename(temporary, name); err != nil {
		return err
	}
	placed = true
	return nil
}

func cannot(do, what string, err error) error {
	return fault.New(fault.Failed, "", "cannot %s %q: %w", do, what, err)
}
