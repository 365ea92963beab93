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
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/genfile"
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
	shared  bool // everybody may read it, whatever the umask
}

// render makes the files of a project that will be in dir, in the order of their
// paths.
func render(dir string, data templates.Data) ([]file, error) {
	files, err := renderSources(data)
	if err != nil {
		return nil, err
	}
	generated, err := generate(dir, files)
	files = append(files, generated...)
	slices.SortFunc(files, byPath)
	return files, err
}

func byPath(a, b file) int { return cmp.Compare(a.path, b.path) }

// renderSources makes the files of a project that people edit or compile, the
// library's sources among them, in the order of their paths.
func renderSources(data templates.Data) ([]file, error) {
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
		files = append(files, file{path: target, content: out.Bytes()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range library.Sources() {
		files = append(files, file{path: path.Join(libraryDir, s.Path), content: s.Content})
	}
	slices.SortFunc(files, byPath)
	return files, nil
}

// generate makes the files that follow from flisk.yaml, which is among files: as
// flisk up would make them.
func generate(dir string, files []file) ([]file, error) {
	at := slices.IndexFunc(files, func(f file) bool { return f.path == project.FileName })
	if at < 0 {
		return nil, fmt.Errorf("there is no template of %s", project.FileName)
	}
	p, _, err := project.Parse(dir, files[at].content)
	if err != nil {
		return nil, err
	}
	made, err := genfile.Of(stack.Of(p, ""))
	if err != nil {
		return nil, err
	}
	var out []file
	for _, f := range made {
		out = append(out, file{f.Path, f.Content, f.Shared})
	}
	return out, nil
}
