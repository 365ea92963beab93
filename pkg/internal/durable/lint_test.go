package durable_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// forbidden are the functions of package os that reach the file system by name.
// What the store does not do through the seam, no fault test can fail.
var forbidden = []string{
	"Chdir", "Chmod", "Chown", "Chtimes", "CopyFS", "Create", "CreateTemp", "DirFS", "Lchown", "Link", "Lstat", "Mkdir",
	"MkdirAll", "MkdirTemp", "Open", "OpenFile", "OpenInRoot", "OpenRoot", "ReadDir", "ReadFile", "Readlink", "Remove",
	"RemoveAll", "Rename", "Stat", "Symlink", "TempDir", "Truncate", "WriteFile",
}

// TestStoreUsesTheSeamOnly also is C33's: without os.TempDir nothing can be
// renamed from there.
func TestStoreUsesTheSeamOnly(t *testing.T) {
	t.Parallel()
	files := 0
	for _, dir := range []string{"../../checkpoint", "../../agent"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			if strings.HasSuffix(path, "agent/listen.go") || strings.HasSuffix(path, "agent/input.go") {
				return nil // a socket to listen on and a file to read are outside the volume
			}
			for _, call := range fileCalls(t, path) {
				t.Errorf("%s: use the seam of internal/durable", call)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 10 {
		t.Fatalf("looked at %d files only", files)
	}
}

func fileCalls(t *testing.T, path string) (found []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		if spec.Name != nil && spec.Path.Value == `"os"` {
			found = append(found, set.Position(spec.Pos()).String()+": os under another name")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "os" && slices.Contains(forbidden, sel.Sel.Name) {
				found = append(found, set.Position(n.Pos()).String()+": os."+sel.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestLintFindsACall(t *testing.T) {
	t.Parallel()
	if calls := fileCalls(t, "root.go"); len(calls) < 3 {
		t.Fatalf("found %v in a file that has some", calls)
	}
}
