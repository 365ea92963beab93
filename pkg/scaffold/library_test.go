package scaffold

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
)

// outdated is a project whose library is not this one's.
func outdated(t *testing.T) (dir, lib string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "bot")
	scaffold(t, dir)
	lib = filepath.Join(dir, filepath.FromSlash(libraryDir))
	for path, content := range map[string]string{
		filepath.Join(lib, "pkg", "turn", "id.go"):   "package turn // old",
		filepath.Join(lib, "pkg", "turn", "gone.go"): "package turn // no longer part of it",
		filepath.Join(dir, "turn.go"):                "package main // theirs",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, lib
}

func TestUpdateLibrary(t *testing.T) {
	t.Parallel()
	dir, lib := outdated(t)
	want := filepath.Join(t.TempDir(), "bot")
	scaffold(t, want)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if changed, err := UpdateLibrary(filepath.Join(dir, "sub")); err != nil || !changed {
		t.Fatalf("changed %t, %v", changed, err)
	}
	if got, want := snapshot(t, lib), snapshot(t, filepath.Join(want, filepath.FromSlash(libraryDir))); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if theirs, err := os.ReadFile(filepath.Join(dir, "turn.go")); err != nil || string(theirs) != "package main // theirs" {
		t.Errorf("turn.go became %q, %v", theirs, err)
	}
	before := snapshot(t, dir)
	if changed, err := UpdateLibrary(dir); err != nil || changed {
		t.Errorf("a second time: changed %t, %v", changed, err)
	}
	if after := snapshot(t, dir); !slices.Equal(before, after) {
		t.Errorf("a second time changed the project:\n%v\n%v", before, after)
	}
}

func TestUpdateLibraryRefuses(t *testing.T) {
	t.Parallel()
	none := t.TempDir()
	other, lib := outdated(t)
	if err := os.WriteFile(filepath.Join(lib, "go.mod"), []byte("module example.com/theirs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	without, gone := outdated(t)
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	linked, link := outdated(t)
	if err := errors.Join(os.RemoveAll(link), os.Symlink(lib, link)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		none:    "there is no " + project.FileName,
		other:   "is another module",
		without: "no such file or directory",
		linked:  "is not a directory",
	} {
		before := snapshot(t, dir)
		_, err := UpdateLibrary(dir)
		if f := kindOf(t, err, fault.Usage); !strings.Contains(f.Message, want) || f.Hint == "" {
			t.Errorf("got %+v, want %q", f, want)
		}
		if after := snapshot(t, dir); !slices.Equal(before, after) {
			t.Errorf("before %v\nafter  %v", before, after)
		}
	}
}

// TestUpdateLibraryAnyStepMayFail: after each failure the old library is whole.
func TestUpdateLibraryAnyStepMayFail(t *testing.T) {
	t.Parallel()
	dir, _ := outdated(t)
	before := snapshot(t, dir)
	for n := 0; ; n++ {
		_, err := updateLibrary(&failing{left: n}, dir)
		if err == nil {
			if n < 20 {
				t.Fatalf("only %d changes renew the library", n)
			}
			return
		}
		if kindOf(t, err, fault.Failed); !errors.Is(err, errInjected) {
			t.Fatal(err)
		}
		if after := snapshot(t, dir); !slices.Equal(before, after) {
			t.Fatalf("change %d failed and left\n%s", n, strings.Join(after, "\n"))
		}
	}
}

// A run that was killed leaves directories that the next one clears away, also
// when it was killed while there was no library.
func TestUpdateLibraryAfterAKill(t *testing.T) {
	t.Parallel()
	dir, lib := outdated(t)
	if err := errors.Join(os.Rename(lib, oldName(lib)), os.MkdirAll(filepath.Join(newName(lib), "pkg"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if changed, err := UpdateLibrary(dir); err != nil || !changed {
		t.Fatalf("changed %t, %v", changed, err)
	}
	entries, err := os.ReadDir(filepath.Dir(lib))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
