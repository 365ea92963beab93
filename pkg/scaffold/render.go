package scaffold

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"

	library "github.com/flisk-go/flisk/pkg"
	"github.com/flisk-go/flisk/templates"
)

// libraryDir is where a project keeps its copy of the library.
const libraryDir = "third_party/flisk"

// goVersion is what the language level of a project and of the library in it
// is. A test holds it against this module's own.
const goVersion = "1.26"

// file is one file to write, by its path below the target, with slashes.
type file struct {
	path    string
	content []byte
}

// render makes the files of a project, the library's sources among them, in the
// order of their paths.
func render(data templates.Data) ([]file, error) {
	data.Library, data.Go = library.ModulePath, goVersion
	tree := templates.Project()
	var files []file
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		target, ok := strings.CutSuffix(name, templates.Suffix)
		if !ok {
			return fmt.Errorf("template %q does not end in %q", name, templates.Suffix)
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		parsed, err := template.New(name).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := parsed.Execute(&out, data); err != nil {
			return err
		}
		files = append(files, file{target, out.Bytes()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range library.Sources() {
		files = append(files, file{path.Join(libraryDir, s.Path), s.Content})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return files, nil
}
