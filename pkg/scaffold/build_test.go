package scaffold

import (
	"bytes"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// offline is an environment in which nothing can be fetched and nothing was.
func offline(t *testing.T) []string {
	t.Helper()
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains([]string{"GOFLAGS", "GOWORK", "PWD"}, name) && !strings.HasPrefix(name, "FLISK_") {
			env = append(env, kv)
		}
	}
	return append(env, "GOPROXY=off", "GOSUMDB=off", "GONOSUMDB=*", "GOTOOLCHAIN=local", "GOMODCACHE="+t.TempDir())
}

// TestScaffoldBuildsOffline builds, vets and tests a new project with no
// network, an empty module cache and this toolchain only, in a directory with a
// space and a letter that is not ASCII.
func TestScaffoldBuildsOffline(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "Meine Größe")
	scaffold(t, dir)
	before := snapshot(t, dir)
	env := offline(t)
	program := filepath.Join(t.TempDir(), "bot")
	for _, args := range [][]string{
		{"build", "-o", program, "."},
		{"vet", "./..."},
		{"test", "./..."},
		{"mod", "verify"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = dir, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if after := snapshot(t, dir); !slices.Equal(before, after) {
		t.Errorf("the project changed: it needed more than it came with\n%s", strings.Join(after, "\n"))
	}
}

// What is given to people as code to edit looks as gofmt wants it.
func TestScaffoldedSourceIsFormatted(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "shop")
	scaffold(t, dir)
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if formatted, err := format.Source(text); err != nil || !bytes.Equal(text, formatted) {
			t.Errorf("%s is not formatted: %v", name, err)
		}
	}
}
