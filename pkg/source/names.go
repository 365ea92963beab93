package source

import (
	"path"
	"slices"
	"strings"
)

// ignored are the names, of files and directories in any depth, that never
// change what an agent is: what editors and version control leave behind for a
// moment, or for themselves.
var ignored = []string{
	".git", ".idea", ".flisk", // directories of tools, flisk's own among them
	"*" + ExportSuffix, "*" + ReportSuffix,
	".*.sw?", "*~", "4913", ".#*", "#*#", "*___jb_tmp___", "*___jb_old___", // editors
}

// leftovers are the names of what package managers and running programs leave
// behind: it counts where a go:embed directive names it, and nowhere else.
var leftovers = []string{
	"__pycache__", "*.pyc", "node_modules", ".venv",
	"*.log", "*.sqlite*",
}

// besides are the names of files beside the code: what is for its readers, and the
// databases of running programs. They count where a go:embed directive names them,
// too. Other Markdown counts always, because prompts are often written in it; and so
// do directories of these names, which may be packages.
var besides = []string{
	"README*", "LICENSE*", "CHANGELOG*",
	"*.db", "*.db-wal", "*.db-shm", "*.db-journal",
}

// The names that keep what people let flisk write into a project, exports of
// conversations and reports, apart from its code.
const (
	ExportSuffix = ".flisk.jsonl"
	ReportSuffix = ".flisk.xml"
)

// overrides are Compose's names for what people add to compose.yaml.
var overrides = []string{"compose.override.yaml", "compose.override.yml"}

// generated are what flisk writes in the top directory: how an agent runs, and
// not what it is.
var generated = []string{"compose.yaml", "traefik"}

// Ignored reports whether the name of a file, or of a directory that it is in,
// says that it does not count, unless a go:embed directive names it. The path is
// relative to the project, with slashes. A file that it does not name may still be
// one that an ignore file names; see [Read] for all the rules.
func Ignored(rel string) bool {
	for i, c := range rel {
		if c == '/' && (ignoredName(rel[:i], true) || leftover(rel[:i], true)) {
			return true
		}
	}
	return ignoredName(rel, false) || leftover(rel, false)
}

// ignoredName reports whether a name says that it never counts, of what is in a
// directory that is not ignored.
func ignoredName(rel string, isDir bool) bool {
	switch {
	case slices.Contains(generated, rel), slices.Contains(overrides, rel):
		return true
	case !isDir && isInput(rel):
		return false
	}
	return matches(path.Base(rel), ignored)
}

// leftover reports whether a name is one of leftovers or, of a file, of besides.
func leftover(rel string, isDir bool) bool {
	name := path.Base(rel)
	if isDir {
		return matches(name, leftovers)
	}
	return !isInput(rel) && (matches(name, leftovers) || matches(name, besides))
}

// matches reports whether one of the patterns is one for name.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, name) })
}

// inputs are the extensions of what the go command reads besides embedded
// files. cgo is off in every build of flisk's.
var inputs = []string{".go", ".s", ".S", ".h", ".syso", ".mod", ".sum", ".work"}

// isInput reports whether a build may read a file because of its name. The go
// command passes over the others, among them the locks of an editor (".#x.go").
func isInput(rel string) bool {
	dir, base := path.Split(rel)
	if base == "modules.txt" {
		return path.Base(dir) == "vendor" // which go.mod has to agree with
	}
	return slices.Contains(inputs, path.Ext(base)) && !strings.HasPrefix(base, ".") && !strings.HasPrefix(base, "_")
}
