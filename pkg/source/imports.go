package source

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// importsOf are the import paths of a Go file, as far as it can be read.
func importsOf(content []byte) []string {
	file, _ := parser.ParseFile(token.NewFileSet(), "", content, parser.ImportsOnly) // what is wrong is the compiler's to tell
	if file == nil {
		return nil
	}
	var out []string
	for _, spec := range file.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, imported)
		}
	}
	return out
}

// packages reads the packages of the known modules that something imports and that
// no walk has come to. The go command builds whatever an import names: behind a
// link to a directory, wherever that leads, and in directories that patterns pass
// over. What nothing imports there may be as big as it likes.
func (r *reader) packages() error {
	for len(r.needs) > 0 {
		needs := r.needs
		r.needs = nil
		for _, imported := range needs {
			for _, m := range r.tree.modules {
				if err := r.imported(m, imported); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// imported reads the package that an import path names if it is one of a module's.
func (r *reader) imported(m module, imported string) error {
	rest, ok := strings.CutPrefix(imported, m.path)
	if !ok || m.path == "" || rest != "" && rest[0] != '/' {
		return nil
	}
	dir := filepath.Join(m.dir, filepath.FromSlash(rest))
	if r.walked[dir] || !inside(m.dir, dir) {
		return nil
	}
	var links []string
	for at := dir; at != m.dir; at = filepath.Dir(at) {
		if hasModule(at) {
			return nil // of another module
		}
		if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			links = append(links, at)
		}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	project := r.tree.project.Dir
	for _, link := range links { // where it points counts, also where an ignore file names it
		rel, err := filepath.Rel(project, link)
		if err == nil {
			err = r.file(filepath.ToSlash(rel), Code, true)
		}
		if err != nil {
			return err
		}
		r.want(filepath.Dir(link), dirState{ignored: inside(project, link)})
	}
	real := behindLink(project, dir)
	rel, err := filepath.Rel(project, real)
	if err != nil || r.walked[real] {
		return err
	}
	if !inside(project, real) {
		r.tree.linked = append(r.tree.linked, real)
	}
	return r.dir(real, filepath.ToSlash(rel), dirState{ignored: true, outside: true, alone: true})
}
