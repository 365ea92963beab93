package library

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLibraryIsWhole follows the imports of pkg/agent on disk and wants exactly
// those packages, every file of them but the tests: a new package or a file in a
// new place cannot be forgotten.
func TestLibraryIsWhole(t *testing.T) {
	t.Parallel()
	var want []string
	seen := map[string]bool{}
	var visit func(pkg string)
	visit = func(pkg string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no Go files in %s: %v", pkg, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			want = append(want, path.Join(pkg, filepath.Base(file)))
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				if inner, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), ModulePath+"/"); ok {
					visit(inner)
				}
			}
		}
	}
	visit("pkg/agent")
	slices.Sort(want)

	var got []string
	for _, s := range Sources() {
		got = append(got, s.Path)
		disk, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(s.Path)))
		if err != nil || !bytes.Equal(disk, s.Content) {
			t.Errorf("%s differs from the file on disk: %v", s.Path, err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("embedded:\n%s\nimported by pkg/agent:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
