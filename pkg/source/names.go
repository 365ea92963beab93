package source

import (
	"path"
	"slices"
	"strings"
)

// ignored are the names, of files and directories in any depth, that never
// change what an agent is: what editors, version control, package managers and
// running programs leave behind.
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

// overrides are Compose's names for what people add to compose.yaml.
var overrides = []string{"compose.override.yaml", "compose.override.yml"}

// generated are what flisk writes in the top directory: how an agent runs, and
// not what it is.
var generated = []string{"compose.yaml", "traefik"}

// Ignored reports whether the name of a file, or of a directory that it is in,
// says that it never counts. The path is relative to the project, with slashes.
// A file that it does not name may still be one that an ignore file names; see
// [Read] for all the rules.
func Ignored(rel string) bool {
	for i, c := range rel {
		if c == '/' && ignoredName(rel[:i], true) {
			return true
		}
	}
	return ignoredName(rel, false)
}

// ignoredName is Ignored for what is in a directory that is not ignored.
func ignoredName(rel string, isDir bool) bool {
	base := path.Base(rel)
	switch {
	case slices.Contains(generated, rel), slices.Contains(overrides, rel):
		return true
	case !isDir && isInput(base):
		return false
	}
	return matches(base, ignored)
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
func isInput(base string) bool {
	return slices.Contains(inputs, path.Ext(base)) && !strings.HasPrefix(base, ".") && !strings.HasPrefix(base, "_")
}
