package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	library "github.com/flisk-go/flisk/pkg"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/templates"
)

// UpdateLibrary replaces the library in the project that dir belongs to by the
// one of this flisk, whole or not at all, and reports whether that changed
// anything. Edits of the copy are lost; every other file is left alone.
//
// Errors are faults: of kind Usage when dir is in no project, or when something
// else is where the library should be; else of kind Failed.
func UpdateLibrary(dir string) (changed bool, err error) { return updateLibrary(realDisk{}, dir) }

func updateLibrary(d disk, dir string) (bool, error) {
	root, err := project.Find(dir)
	if err != nil {
		return false, err
	}
	at := filepath.Join(root, filepath.FromSlash(libraryDir))
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		_ = os.Rename(oldName(at), at) // a run was killed between its two renames; isLibrary says if not
	}
	if err := isLibrary(at); err != nil {
		return false, fault.New(fault.Usage, "a project that requires a released flisk needs no copy: use go get", "cannot renew the library of %q: %w", root, err)
	}
	files, err := libraryFiles()
	if err != nil {
		return false, fault.New(fault.Failed, "", "cannot render the library: %w", err)
	}
	if same(at, files) {
		return false, nil
	}
	if err := replaceTree(d, at, files); err != nil {
		return false, fault.New(fault.Failed, "", "cannot renew the library in %q: %w", at, err)
	}
	return true, nil
}

// LibraryState is how a project's copy of the library stands to this flisk.
type LibraryState int

// The states of a copy.
const (
	NoLibrary    LibraryState = iota // there is none: the project requires a released flisk
	SameLibrary                      // the one of this flisk
	OtherLibrary                     // of another version, or edited
)

// Library compares the copy of the library in a project with the one of this
// flisk. root is the project's directory.
func Library(root string) (LibraryState, error) {
	at := filepath.Join(root, filepath.FromSlash(libraryDir))
	if isLibrary(at) != nil {
		return NoLibrary, nil
	}
	files, err := libraryFiles()
	switch {
	case err != nil:
		return NoLibrary, err
	case same(at, files):
		return SameLibrary, nil
	}
	return OtherLibrary, nil
}

// isLibrary accepts only what flisk put there.
func isLibrary(dir string) error {
	if info, err := os.Lstat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%q is not a directory", dir)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mod)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "module" && strings.Trim(fields[1], `"`) == library.ModulePath {
			return nil
		}
	}
	return fmt.Errorf("%q is another module than %s", dir, library.ModulePath)
}

// libraryFiles are the files of a project that lie in the library's directory,
// by their paths in it.
func libraryFiles() ([]file, error) {
	all, err := renderSources(templates.Data{})
	var files []file
	for _, f := range all {
		if inner, ok := strings.CutPrefix(f.path, libraryDir+"/"); ok {
			files = append(files, file{path: inner, content: f.content})
		}
	}
	return files, err
}

// same reports whether a directory holds exactly the files.
func same(dir string, files []file) bool {
	var found []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, name)
		}
		return err
	})
	if err != nil || len(found) != len(files) {
		return false
	}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.path)))
		if err != nil || !bytes.Equal(content, f.content) || !slices.Contains(found, f.path) {
			return false
		}
	}
	return true
}

func newName(dir string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".new")
}

func oldName(dir string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".old")
}

// replaceTree puts a new directory in the place of an old one by two renames.
// The names beside it are fixed, so that what a killed run left is found and
// removed by the next.
func replaceTree(d disk, dir string, files []file) (err error) {
	fresh, old := newName(dir), oldName(dir)
	if err := errors.Join(os.RemoveAll(fresh), os.RemoveAll(old)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	if err := writeTree(d, fresh, files); err != nil {
		return err
	}
	if err := d.Rename(dir, old); err != nil {
		return err
	}
	if err := d.Rename(fresh, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	return os.RemoveAll(old)
}
