package source

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
)

// Options of a reading. The zero value reads everything.
type Options struct {
	// Previous is an earlier tree of the same project. What its files' stamps show
	// to be unchanged is not read again.
	Previous *Tree

	// Enter is called with each directory before it is listed, by its absolute
	// path: who watches the directory from then on misses nothing. It is called
	// more than once for some. Of the directories that an ignore file names, it is
	// called for those with something in them that counts, and for empty ones. Its
	// error ends the reading and is returned as it is. May be nil.
	Enter func(dir string) error
}

// Read reads what of a project counts. Everything does, whatever it is called: an
// agent can embed any file, and a file that counts for nothing costs a build, while
// one that is missed runs stale code. Except
//
//   - what [Ignored] says, and what the WatchIgnore of every agent names; of the
//     former, what a go:embed directive names counts if it is no editor's, and what
//     Go files import;
//   - what .dockerignore or a .gitignore names, unless the go command reads it:
//     Go files, go.mod and their like, and what a go:embed directive names. Ignored
//     code is built all the same, and often generated;
//   - what is neither a file nor a link. A link to a directory counts with where it
//     points, and of what is behind it the packages that Go files import.
//
// Outside of the project count, of the modules that it is built from (one that it
// is in, a replacement by a local directory, a member of its workspace), the files
// that the go command reads.
//
// Files that come and go meanwhile are in the tree or not; it is for the caller to
// read again. The error is a fault of kind Failed, which wraps fs.ErrNotExist when
// the project's directory is gone, or ctx's cause.
func Read(ctx context.Context, p *project.Project, o Options) (*Tree, error) {
	follow := map[string]bool{}
	if o.Previous != nil {
		follow = o.Previous.follow
	}
	places, modules := placesOf(p)
	for {
		r := &reader{ctx: ctx, o: o, wanted: map[string]bool{}, walked: map[string]bool{}, tree: &Tree{
			project: p, places: places, modules: modules, files: map[string]File{}, dirs: map[string]dirState{}, asleep: map[string]time.Time{}, targets: map[string]bool{}, follow: follow,
		}}
		if err := r.everything(); err != nil {
			return nil, r.fault(err)
		}
		if o.Enter == nil || r.entered() {
			r.tree.follow = r.wanted
			r.tree.paths = slices.Sorted(maps.Keys(r.tree.files))
			return r.tree, nil
		}
		// What it found has to be entered first, and then read again.
		follow, o.Previous = r.wanted, r.tree
	}
}

// entered reports whether every directory was entered that has something in it
// which counts.
func (r *reader) entered() bool {
	for dir := range r.wanted {
		if !r.tree.follow[dir] {
			return false
		}
	}
	return true
}

func (r *reader) fault(err error) error {
	if e, ok := errors.AsType[*enterError](err); ok {
		return e.error
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	return fault.New(fault.Failed, "make the file readable, or move it out of the project", "cannot read the project's files: %w", err)
}

// Hash is [Tree.Hash] for the files as they are now.
func Hash(p *project.Project, agent string) (string, error) {
	if _, ok := p.Agent(agent); !ok {
		return (&Tree{project: p}).Hash(agent)
	}
	t, err := Read(context.Background(), p, Options{})
	if err != nil {
		return "", err
	}
	return t.Hash(agent)
}

// enterError keeps an error of the caller's apart from those of files.
type enterError struct{ error }

// reader is one reading.
type reader struct {
	ctx  context.Context
	tree *Tree
	o    Options

	// wanted are the ignored directories that have to be entered.
	wanted map[string]bool

	// ignored are the files that an ignore file names: whether one of them is
	// embedded is only known when all Go files were read.
	ignored []string

	// walked are the directories that were listed, or looked for and not found;
	// asides those that are entered only for what is embedded, which is known when
	// all Go files were read; needs the import paths that nobody has looked at.
	walked map[string]bool
	asides []location
	needs  []string
}

// location is a directory: where it is, and relative to the project.
type location struct{ abs, rel string }

func (r *reader) everything() error {
	p := r.tree.project
	var err error
	if r.tree.docker, err = readDockerignore(p.Dir); err != nil {
		return err
	}
	if err := r.dir(p.Dir, ".", dirState{git: gitRulesAbove(p.Dir)}); err != nil {
		return err
	}
	whole := func(a place) int { return min(1, len(a.only)) } // first: they have what the others have
	for _, place := range slices.SortedStableFunc(slices.Values(r.tree.places), func(a, b place) int { return whole(a) - whole(b) }) {
		rel, err := filepath.Rel(p.Dir, place.dir)
		if err != nil {
			return err
		}
		if err := r.dir(place.dir, filepath.ToSlash(rel), dirState{ignored: true, outside: true, only: place.only}); err != nil {
			return err
		}
	}
	if err := r.packages(); err != nil {
		return err
	}
	for len(r.asides) > 0 {
		at := r.asides[0]
		if r.asides = r.asides[1:]; r.tree.embeds.reach(at.rel) {
			if err := r.dir(at.abs, at.rel, asideState); err != nil {
				return err
			}
		}
	}
	for _, rel := range r.ignored {
		if r.tree.embeds.cover(rel) {
			if err := r.file(rel, Code, true); err != nil {
				return err
			}
			dir := filepath.Dir(filepath.Join(p.Dir, filepath.FromSlash(rel)))
			r.want(dir, dirState{ignored: inside(p.Dir, dir)})
		}
	}
	return nil
}

// dir reads a directory and what is in it.
func (r *reader) dir(abs, rel string, state dirState) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if _, done := r.tree.dirs[abs]; done {
		return nil
	}
	r.walked[abs] = true
	entered := !state.ignored || state.outside || r.tree.follow[abs]
	if entered && r.o.Enter != nil {
		if err := r.o.Enter(abs); err != nil {
			return &enterError{err}
		}
	}
	if !entered && len(r.tree.asleep) < maxAsleep {
		if info, err := os.Stat(abs); err == nil {
			r.tree.asleep[abs] = info.ModTime()
		}
	}
	entries, err := os.ReadDir(abs)
	switch {
	case rel == "." && err != nil:
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotDir):
		return nil // gone since its parent was listed
	case errors.Is(err, fs.ErrPermission) && state.ignored:
		return nil // of a database in a container, say; the go command cannot read it either
	case err != nil:
		return err
	}
	if !state.ignored && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == gitignoreName }) {
		state.git = readGitignore(abs, state.git)
	}
	if entered {
		r.tree.dirs[abs] = state
	}
	if len(entries) == 0 {
		r.want(abs, state) // what comes first would be missed
	}
	for _, entry := range entries {
		name := entry.Name()
		child := name
		if rel != "." {
			child = rel + "/" + name
		}
		verdict, below := r.tree.judge(state, child, name, entry.IsDir())
		switch {
		case verdict == never:
		case verdict == aside:
			r.asides = append(r.asides, location{filepath.Join(abs, name), child})
		case entry.IsDir():
			full := filepath.Join(abs, name)
			if state.outside && (full == r.tree.project.Dir || hasModule(full)) {
				continue // read by itself, or another module
			}
			if err := r.dir(full, child, below); err != nil {
				return err
			}
		case verdict == unlessEmbedded:
			r.ignored = append(r.ignored, child)
		default:
			if err := r.file(child, r.tree.kindOf(child), verdict == counts); err != nil {
				return err
			}
			r.want(abs, state)
		}
	}
	return nil
}

// maxAsleep bounds what Stirred looks at.
const maxAsleep = 200

// Stirred reports whether something has come or gone, since the tree was read, in
// a directory that an ignore file names and that was not entered: it may be the
// first file in there that a build reads. It costs a look at each of these
// directories, of which it forgets those beyond the first 200.
func (t *Tree) Stirred() bool {
	for dir, was := range t.asleep {
		if info, err := os.Stat(dir); err == nil && !info.ModTime().Equal(was) {
			return true
		}
	}
	return false
}

// want has an ignored directory entered, and those above it.
func (r *reader) want(abs string, state dirState) {
	if !state.ignored || state.outside {
		return
	}
	for at := abs; inside(r.tree.project.Dir, at) && !r.wanted[at]; at = filepath.Dir(at) {
		r.wanted[at] = true
	}
}

// hasModule reports whether a directory is the root of a module.
func hasModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// file reads one file into the tree.
func (r *reader) file(rel string, kind Kind, code bool) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	full := filepath.Join(r.tree.project.Dir, filepath.FromSlash(rel))
	var known File
	isKnown := false
	if r.o.Previous != nil {
		known, isKnown = r.o.Previous.files[rel]
	}
	f, err := readFile(r.ctx, full, path.Dir(rel), known, isKnown)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotDir), errors.Is(err, errNotAFile):
		return nil
	case err != nil:
		return err
	}
	f.Kind, f.code = kind, code
	r.tree.files[rel] = f
	r.tree.embeds, r.needs = append(r.tree.embeds, f.embeds...), append(r.needs, f.needs...)
	if f.Link != "" {
		return r.target(full)
	}
	return nil
}

// target has the directory entered that the file is in which a link leads to: a
// change of that file is none in the directory of the link.
func (r *reader) target(link string) error {
	real, err := filepath.EvalSymlinks(link)
	if err != nil {
		return nil // it leads nowhere
	}
	info, err := os.Stat(real)
	if err != nil || !info.Mode().IsRegular() || r.tree.targets[real] {
		return nil
	}
	r.tree.targets[real] = true
	if dir := filepath.Dir(real); r.o.Enter != nil && !inside(r.tree.project.Dir, dir) {
		if err := r.o.Enter(dir); err != nil {
			return &enterError{err}
		}
	}
	return nil
}

// kindOf says what a file is by its path.
func (t *Tree) kindOf(rel string) Kind {
	base := path.Base(rel)
	switch {
	case rel == project.FileName:
		return Settings
	case slices.ContainsFunc(t.project.Agents, func(a project.Agent) bool { return slices.Contains(a.EnvFiles, rel) }):
		return EnvFile
	case slices.Contains(overrides, rel):
		return Override
	case base == "Dockerfile" || strings.HasSuffix(base, dockerignoreName):
		return Image
	}
	return Code
}
