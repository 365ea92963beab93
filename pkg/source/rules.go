package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/flisk-go/flisk/pkg/project"
)

const (
	gitignoreName    = ".gitignore"
	dockerignoreName = ".dockerignore"
)

// errNotDir is what a path gives that leads through a file which was a directory
// a moment ago.
const errNotDir = syscall.ENOTDIR

// dirState is what holds for all that is in a directory.
type dirState struct {
	git     *gitRules
	docker  patternmatcher.MatchInfo
	gitOut  bool     // a .gitignore names the directory, or one above it: nothing in it can be taken back
	ignored bool     // an ignore file names it
	outside bool     // nobody walks through it for the project's own sake: it is in a module outside of the project, or one of those below
	alone   bool     // it is read as a package that something imports: not what is below it
	aside   bool     // it is read for what a go:embed directive names
	only    []string // the names that count in it, if not nil
}

// asideState holds in the directories that have the verdict aside.
var asideState = dirState{ignored: true, outside: true, aside: true}

// verdict is what the rules say of a file or directory.
type verdict int

const (
	never          verdict = iota
	unlessEmbedded         // an ignore file names it
	aside                  // a directory that is only entered if an embedded file may be in it
	setting                // it counts, and for nothing that agents are built from
	counts
)

// judge applies the rules to something in a listed directory, and says what
// holds for all that is in it if it is a directory.
func (t *Tree) judge(in dirState, rel, base string, isDir bool) (verdict, dirState) {
	below := in
	if in.outside {
		switch {
		case in.only != nil:
			if isDir || !slices.Contains(in.only, base) {
				return never, below
			}
			return counts, below
		case isDir && matches(base, ignored):
			return never, below
		case isDir && (in.alone || in.aside || strings.HasPrefix(base, ".") || leftover(rel, true)):
			return aside, asideState
		case !isDir && !in.aside && isInput(rel):
			return counts, below
		case matches(base, ignored):
			return never, below
		}
		return unlessEmbedded, below
	}
	kind := Code
	if !isDir {
		kind = t.kindOf(rel)
	}
	switch {
	case kind == Settings, kind == EnvFile, kind == Override:
		return setting, below
	case ignoredName(rel, isDir), t.everyAgentIgnores(rel):
		return never, below
	case leftover(rel, isDir) && isDir:
		return aside, asideState
	case leftover(rel, isDir):
		return unlessEmbedded, below
	}
	below.gitOut = in.gitOut || in.git.ignores(filepath.Join(t.project.Dir, filepath.FromSlash(rel)), isDir)
	dockerOut := false
	dockerOut, below.docker = t.docker.match(rel, in.docker)
	below.ignored = below.gitOut || dockerOut
	switch {
	case !below.ignored, !isDir && isInput(rel):
		return counts, below
	case kind == Image:
		return setting, below
	}
	return unlessEmbedded, below
}

func (t *Tree) everyAgentIgnores(rel string) bool {
	return !slices.ContainsFunc(t.project.Agents, func(a project.Agent) bool { return !agentIgnores(a, rel) })
}

// Concerns reports whether a change of a file or directory can make a difference
// to the tree, by the absolute path. It errs on the side of yes. Whether it is
// there still, and of what kind it is, is looked at now.
func (t *Tree) Concerns(abs string) bool {
	if _, listed := t.dirs[abs]; listed || t.targets[abs] {
		return true
	}
	parent, listed := t.dirs[filepath.Dir(abs)]
	if !listed {
		return false // of a link's target, a neighbour; or in a directory that never counts
	}
	rel, err := filepath.Rel(t.project.Dir, abs)
	if err != nil {
		return true
	}
	rel = filepath.ToSlash(rel)
	if _, known := t.files[rel]; known {
		return true
	}
	base := filepath.Base(abs)
	info, err := os.Lstat(abs)
	isDir := err == nil && info.IsDir()
	switch verdict, _ := t.judge(parent, rel, base, isDir); {
	case verdict == never:
		return false
	case verdict == aside:
		return t.embeds.reach(rel)
	case verdict == unlessEmbedded:
		return isDir || t.embeds.cover(rel)
	}
	return true
}

// dockerRules are a project's .dockerignore.
type dockerRules struct {
	mu      sync.Mutex // a matcher compiles its patterns when it first uses them
	matcher *patternmatcher.PatternMatcher
}

// readDockerignore reads the .dockerignore of the directory that is the context
// of every build. One that cannot be understood ignores nothing; who builds with
// it says what is wrong.
func readDockerignore(dir string) (*dockerRules, error) {
	f, err := os.Open(filepath.Join(dir, dockerignoreName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
		return &dockerRules{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", dockerignoreName, err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return &dockerRules{}, nil
	}
	return &dockerRules{matcher: matcher}, nil
}

// match reports whether a path is ignored, given what was found for the directory
// that it is in.
func (d *dockerRules) match(rel string, parent patternmatcher.MatchInfo) (bool, patternmatcher.MatchInfo) {
	if d.matcher == nil {
		return false, patternmatcher.MatchInfo{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out, info, err := d.matcher.MatchesUsingParentResults(rel, parent)
	return out && err == nil, info
}

// readGitignore adds the .gitignore of a directory to the rules from above.
func readGitignore(dir string, above *gitRules) *gitRules {
	return readGitRules(dir, filepath.Join(dir, gitignoreName), above)
}

func readGitRules(dir, file string, above *gitRules) *gitRules {
	content, err := os.ReadFile(file)
	if err != nil {
		return above // git goes on without it, too
	}
	return &gitRules{above: above, dir: dir, patterns: parseGitignore(string(content))}
}

// gitRulesAbove are the rules of the repository that a project is in, above the
// project itself. Without a repository nothing above it is asked.
func gitRulesAbove(dir string) *gitRules {
	var chain []string
	for at := dir; ; at = filepath.Dir(at) {
		if at != dir {
			chain = append(chain, at)
		}
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			rules := readGitRules(at, filepath.Join(at, ".git", "info", "exclude"), nil)
			for _, above := range slices.Backward(chain) {
				rules = readGitignore(above, rules)
			}
			return rules
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
