// Package scaffold makes new projects, all or nothing and never over anything
// that exists, and renews the library in old ones.
package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/templates"
)

// Agent is the name of the one agent that a project begins with.
const Agent = "bot"

// Options of Init. The zero value lets Init choose.
type Options struct {
	Name string // of the project; by default made of the directory's name, see ProjectName
	Port int    // of the gateway; by default the first free one from project.DefaultPort
}

// Made is a new project.
type Made struct {
	Dir   string // absolute
	Name  string
	ID    string
	Port  int
	Agent string
	Files int // number of files, the library's among them
}

// Init makes a project in dir, which must not exist or be empty but for a .git;
// its parent must exist. When Init fails, dir and all around it is as it was.
// (Only the death of this process in the middle can leave a directory whose name
// begins with ".flisk-init-".)
//
// Errors are faults: of kind Usage for a target or an option that will not do,
// of kind Environment when no port is free, else of kind Failed.
func Init(dir string, o Options) (Made, error) { return initialize(realDisk{}, dir, o) }

func initialize(d disk, dir string, o Options) (Made, error) {
	target, err := examine(dir)
	if err != nil {
		return Made{}, err
	}
	made := Made{Dir: target.path, Name: o.Name, ID: randomHex(6), Port: o.Port, Agent: Agent}
	if made.Name == "" {
		made.Name = ProjectName(filepath.Base(target.path))
	}
	if !project.ValidName(made.Name) {
		return Made{}, fault.New(fault.Usage, fmt.Sprintf("try %q", ProjectName(o.Name)),
			"%q cannot name a project: use 1 to %d characters of a-z, 0-9 and -, the first and the last one not a -", o.Name, project.MaxName)
	}
	if o.Port < 0 || o.Port > 65535 {
		return Made{}, fault.New(fault.Usage, "", "port %d is not from 1 to 65535", o.Port)
	}
	if o.Port == 0 {
		if made.Port, err = freePort(project.DefaultPort); err != nil {
			return Made{}, err
		}
	}
	files, err := render(target.path, templates.Data{
		Name: made.Name, ID: made.ID, Agent: Agent, Port: made.Port, Volume: project.VolumeName(made.Name, made.ID),
	})
	if err != nil {
		return Made{}, fault.New(fault.Failed, "", "cannot render the project: %w", err)
	}
	made.Files = len(files)
	if err := target.put(d, files); err != nil {
		return Made{}, fault.New(fault.Failed, "nothing was left behind", "cannot make a project in %q: %w", dir, err)
	}
	return made, nil
}

// target is a place where a project may be made.
type target struct {
	path   string // absolute
	exists bool   // it is an empty directory
}

// examine says no to every place where something could be overwritten. It looks
// at dir as it was named: "." is no symbolic link, however the shell got there.
func examine(dir string) (target, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return target{}, fault.New(fault.Usage, "", "cannot tell where %q is: %w", dir, err)
	}
	info, err := os.Lstat(filepath.Clean(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		parent := filepath.Dir(path)
		if info, err := os.Stat(parent); err != nil || !info.IsDir() {
			return target{}, fault.New(fault.Usage, "make it first", "there is no directory %q to make a project in", parent)
		}
		return target{path, false}, nil
	case err != nil:
		return target{}, fault.New(fault.Usage, "", "cannot look at %q: %w", dir, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return target{}, fault.New(fault.Usage, "name the directory itself, or another one", "%q is a symbolic link", dir)
	case !info.IsDir():
		return target{}, fault.New(fault.Usage, "name another directory", "%q is a file", dir)
	}
	found, err := contents(path)
	if err != nil {
		return target{}, fault.New(fault.Usage, "", "cannot look into %q: %w", dir, err)
	}
	if slices.Contains(found, project.FileName) {
		return target{}, fault.New(fault.Usage, `"flisk up" runs it; "flisk init --update-library" renews its library`, "%q is a flisk project already", dir)
	}
	if len(found) > 0 {
		return target{}, fault.New(fault.Usage, "name a new or an empty directory", "%q is not empty: it holds %s", dir, list(found))
	}
	return target{path, true}, nil
}

// contents are the names in a directory, sorted, without what a project may
// share it with: the repository that it will be kept in.
func contents(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.Name() != ".git" {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// list names the first few.
func list(names []string) string {
	const most = 4
	var quoted []string
	for _, name := range names[:min(len(names), most)] {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	text := strings.Join(quoted, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// put writes the files to a directory beside the target and renames it. When
// the target exists it stays the directory it is (a shell may stand in it):
// then the temporary directory is inside, and what it holds moves up.
func (t target) put(d disk, files []file) (err error) {
	name := ".flisk-init-" + randomHex(4)
	temporary := filepath.Join(filepath.Dir(t.path), name)
	if t.exists {
		temporary = filepath.Join(t.path, name)
	}
	moved := false
	defer func() {
		if !moved {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
	}()
	if err := writeTree(d, temporary, files); err != nil {
		return err
	}
	if t.exists {
		return t.fill(d, temporary)
	}
	// On an empty directory that came to be meanwhile this succeeds, on anything
	// else it fails.
	if err := d.Rename(temporary, t.path); err != nil {
		return err
	}
	moved = true
	return nil
}

// fill moves everything from a directory inside the target to the target, and
// takes it back when it cannot move all. flisk.yaml comes last: with it the
// directory is a project.
func (t target) fill(d disk, temporary string) (err error) {
	names, err := contents(temporary)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(s string) bool { return s == project.FileName })
	names = append(names, project.FileName)
	var done []string
	defer func() {
		if err != nil {
			for _, path := range done {
				err = errors.Join(err, os.RemoveAll(path))
			}
		}
	}()
	for _, name := range names {
		to := filepath.Join(t.path, name)
		if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%q appeared while the project was made", name), err)
		}
		if err := d.Rename(filepath.Join(temporary, name), to); err != nil {
			return err
		}
		done = append(done, to)
	}
	return nil
}
