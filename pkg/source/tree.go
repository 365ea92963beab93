// Package source is what agents are made of: the files of a project that count,
// and the hash that names an agent's code.
//
// Call [Read] for the tree of a project, [Tree.Hash] for the hash of an agent's
// code in it, and [Diff] for what two trees have apart. Who builds an agent and
// who watches its files ask the same package, so that "what runs is what is on
// disk" is a comparison of two hashes.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
)

// Tree is what of a project's files counts, as they were read. It does not
// change, and may be used by any number of goroutines.
type Tree struct {
	project *project.Project
	places  []place
	modules []module
	linked  []string             // directories of packages outside of the project that links lead to, absolute
	files   map[string]File      // by path relative to the project, with slashes; "../lib/x.go" is outside of it
	paths   []string             // of files, sorted
	dirs    map[string]dirState  // that were listed, by absolute path
	follow  map[string]bool      // directories that an ignore file names and that are entered all the same, by absolute path
	asleep  map[string]time.Time // directories that an ignore file names and that are not entered, with their times
	targets map[string]bool      // files outside of the project that links in it lead to, by absolute path
	embeds  embeds
	docker  *dockerRules

	mu     sync.Mutex
	hashes map[string]string // by agent
}

// Files returns the files that count, by their paths relative to the project,
// with slashes. A path that begins with ".." is outside of the project. The map
// is the caller's own.
func (t *Tree) Files() map[string]File { return maps.Clone(t.files) }

// Len is how many files count.
func (t *Tree) Len() int { return len(t.files) }

// Hash names an agent's code: a hash over the files that it can be built from,
// their paths in the project, their contents, and whether they are executable.
// Equal files give an equal hash, wherever the project is and whatever their
// times.
//
// All files that count are in it except what the agent's own WatchIgnore names,
// the Go files right in the directory of another agent (those are a package main,
// which nothing can import), modules outside of the project that only other
// agents are built from, flisk.yaml, and the agents' env files. The last two are
// settings, which a runtime compares by themselves; and the hash is shown to
// every client, so no secret may have a part in it.
func (t *Tree) Hash(agent string) (string, error) {
	a, ok := t.project.Agent(agent)
	if !ok {
		return "", fault.New(fault.Usage, "", "there is no agent %q", agent)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.hashes[agent]; ok {
		return known, nil
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "agent %q\n", a.Path)
	part := t.partOf(a)
	for _, rel := range t.paths {
		if f := t.files[rel]; part(rel, f) {
			_, _ = sum.Write([]byte(f.line(rel))) // a hash never fails
		}
	}
	hash := hex.EncodeToString(sum.Sum(nil)[:6])
	if t.hashes == nil {
		t.hashes = map[string]string{}
	}
	t.hashes[agent] = hash
	return hash, nil
}

// Rested reports whether nobody wrote to the files of an agent's code between an
// earlier reading and this one: equal content is not enough for who reads them in
// between, as a compiler does, when they go back and forth.
func (t *Tree) Rested(earlier *Tree, agent string) bool {
	a, ok := t.project.Agent(agent)
	was, before := earlier.project.Agent(agent)
	if !ok || !before {
		return false
	}
	part, partWas := t.partOf(a), earlier.partOf(was)
	for rel, f := range earlier.files {
		if partWas(rel, f) && !t.files[rel].stamp.equal(f.stamp) {
			return false
		}
	}
	for rel, f := range t.files {
		if _, there := earlier.files[rel]; !there && part(rel, f) {
			return false
		}
	}
	return true
}

// partOf tells which files have a part in an agent's hash.
func (t *Tree) partOf(a project.Agent) func(rel string, f File) bool {
	others := map[string]bool{}
	for _, other := range t.project.Agents {
		if other.Path != a.Path {
			others[other.Path] = true
		}
	}
	var outside []string
	for _, place := range t.places {
		if slices.Contains(place.agents, a.Name) {
			outside = append(outside, place.dir)
		}
	}
	return func(rel string, f File) bool {
		switch {
		case !f.code, others[path.Dir(rel)] && isGo(rel), agentIgnores(a, rel):
			return false
		case strings.HasPrefix(rel, "../"):
			abs := filepath.Join(t.project.Dir, filepath.FromSlash(rel))
			in := func(dir string) bool { return inside(dir, abs) }
			return slices.ContainsFunc(outside, in) || slices.ContainsFunc(t.linked, in)
		}
		return true
	}
}

// agentIgnores reports whether the agent's own patterns name a file, or a
// directory that it is in.
func agentIgnores(a project.Agent, rel string) bool {
	for at := rel; len(a.WatchIgnore) > 0 && at != "." && at != ".."; at = path.Dir(at) {
		if matches(path.Base(at), a.WatchIgnore) || matches(at, a.WatchIgnore) {
			return true
		}
	}
	return false
}

func isGo(rel string) bool { return path.Ext(rel) == ".go" }

// Change is a file that two trees have apart.
type Change struct {
	Path string // relative to the project, with slashes
	Kind Kind
	Op   Op
	Size int64 // that it has now, in bytes

	// Agents are those whose code the file is part of, sorted; none for a file
	// that is a setting only.
	Agents []string
}

// Op says what has become of a file.
type Op string

// The values of Op. A renamed file is one that was removed and one that was added.
const (
	Added    Op = "added"
	Modified Op = "modified"
	Removed  Op = "removed"
)

// Diff lists what of the files changed from one tree to another, sorted by path.
// Times and permissions are no change: who sets a file's executable bit, and
// nothing else, changes an agent's hash and reloads nothing. A nil tree is empty.
func Diff(from, to *Tree) []Change {
	return diff(from, to, func(was, now File) bool { return !was.Same(now) })
}

// Touched lists what somebody wrote to from one tree to another: what Diff lists,
// and files that are as they were under another time or in another place.
func Touched(from, to *Tree) []Change {
	return diff(from, to, func(was, now File) bool { return !was.Same(now) || !was.stamp.equal(now.stamp) })
}

func diff(from, to *Tree, modified func(was, now File) bool) []Change {
	if from == nil {
		from = &Tree{project: to.project}
	}
	var out []Change
	for rel, now := range to.files {
		was, ok := from.files[rel]
		switch {
		case !ok:
			out = append(out, Change{rel, now.Kind, Added, now.Size, to.agentsOf(rel, now)})
		case modified(was, now):
			out = append(out, Change{rel, now.Kind, Modified, now.Size, to.agentsOf(rel, now)})
		}
	}
	for rel, was := range from.files {
		if _, ok := to.files[rel]; !ok {
			out = append(out, Change{rel, was.Kind, Removed, 0, from.agentsOf(rel, was)})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func (t *Tree) agentsOf(rel string, f File) []string {
	var names []string
	for _, a := range t.project.Agents {
		if t.partOf(a)(rel, f) {
			names = append(names, a.Name)
		}
	}
	return names
}
