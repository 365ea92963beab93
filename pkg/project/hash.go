package project

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
)

// ignored are the names, of files and directories in any depth, that never
// change what an agent is: what editors, version control, package managers and
// running programs leave behind. Everything else counts, whatever it is called:
// an agent can embed any file, and a file that counts for nothing costs a build,
// while one that is missed runs stale code.
var ignored = []string{
	".git", ".idea", ".flisk", // directories of tools, flisk's own among them
	"*" + ExportSuffix, "*" + ReportSuffix,
	".*.sw?", "*~", "4913", ".#*", "#*#", "*___jb_tmp___", "*___jb_old___", // editors
	"__pycache__", "*.pyc", "node_modules", ".venv",
	"*.log", "*.sqlite*",
}

// The names that keep what people let flisk write into a project, exports of
// conversations and reports, apart from its code.
const (
	ExportSuffix = ".flisk.jsonl"
	ReportSuffix = ".flisk.xml"
)

// settings are what of the top directory says how an agent runs and not what it
// is: what flisk generates, and what people add to it.
var settings = []string{"compose.yaml", "compose.override.yaml", "compose.override.yml", "traefik"}

// Ignored reports whether a file or directory never counts for what an agent
// is, by its path relative to the project, with slashes. All that is below an
// ignored directory is ignored, too.
func Ignored(rel string) bool {
	for _, s := range settings {
		if rel == s || strings.HasPrefix(rel, s+"/") {
			return true
		}
	}
	return slices.ContainsFunc(strings.Split(rel, "/"), func(name string) bool { return matches(name, ignored) })
}

// matches reports whether one of the patterns is one for name.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}

// ignores reports whether the agent's own patterns name a file or directory
// that is not below one they name.
func (a Agent) ignores(rel string) bool {
	return matches(path.Base(rel), a.WatchIgnore) || matches(rel, a.WatchIgnore)
}

// SourceHash is a hash over the files that an agent can be built from: their
// paths in the project, their contents, and whether they are executable. Equal
// files give an equal hash, wherever the project is and whatever their times.
//
// All files of the project count except what [Ignored] and the agent's own
// WatchIgnore name, the Go files right in the directory of another agent (those
// are a package main, which nothing can import), flisk.yaml, and the agents' env files. The last two are
// settings, which a runtime compares by themselves; and the hash is shown to
// every client, so no secret may have a part in it.
func (p *Project) SourceHash(agent string) (string, error) {
	a, ok := p.Agent(agent)
	if !ok {
		return "", fault.New(fault.Usage, "", "there is no agent %q", agent)
	}
	others := map[string]bool{}
	elsewhere := map[string]bool{FileName: true} // settings, too, wherever they are
	for _, other := range p.Agents {
		others[other.Path] = other.Path != a.Path
		for _, file := range other.EnvFiles {
			elsewhere[file] = true
		}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "agent %q\n", a.Path)
	// The walk is in lexical order, so that the hash does not depend on the
	// order in which a file system lists a directory.
	err := fs.WalkDir(os.DirFS(p.Dir), ".", func(rel string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && rel != ".":
			return nil // gone since its directory was listed
		case err != nil:
			return err
		case rel == ".":
			return nil
		case (Ignored(rel) || a.ignores(rel)) && entry.IsDir():
			return fs.SkipDir
		case Ignored(rel), a.ignores(rel), elsewhere[rel], entry.IsDir():
			return nil
		case others[path.Dir(rel)] && path.Ext(rel) == ".go":
			return nil
		}
		err = hashFile(sum, p.Dir, rel, entry)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return "", fault.New(fault.Failed, "make the file readable, or move it out of the project", "cannot hash the project's files: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}

// hashFile adds one file, as a line of its own, so that no two trees write the
// same bytes. A link to a file counts with what it leads to, as it does for a
// build; other links with where they point; pipes and sockets are not opened.
func hashFile(sum hash.Hash, dir, rel string, entry fs.DirEntry) error {
	full := filepath.Join(dir, filepath.FromSlash(rel))
	mode := entry.Type()
	target := ""
	if mode&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(full); err != nil {
			return err
		}
	}
	info, err := os.Stat(full)
	if err != nil || !info.Mode().IsRegular() {
		if err != nil && target == "" {
			return err
		}
		fmt.Fprintf(sum, "%q %s %q\n", rel, mode, target)
		return nil
	}
	f, err := os.Open(full)
	if err != nil {
		return err
	}
	defer f.Close()
	content := sha256.New()
	if _, err := io.Copy(content, f); err != nil {
		return err
	}
	fmt.Fprintf(sum, "%q %t %q %x\n", rel, info.Mode()&0o111 != 0, target, content.Sum(nil))
	return nil
}
