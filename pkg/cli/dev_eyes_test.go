package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
)

// TestC07_ABuildDuringSavesIsNotOfTheTree: what a driver built is of the tree that
// it was told of only if nobody wrote to that meanwhile. A file that went to
// another content and back is what it was, and the compiler may have read the other.
func TestC07_ABuildDuringSavesIsNotOfTheTree(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	path := filepath.Join(dir, "main.go")
	save := func(content string) {
		t.Helper()
		if err := os.WriteFile(path+"~", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
	}
	save("package main // A\n")
	then := time.Now().Add(-time.Hour) // so that the clock of the file system, which has coarse steps, tells the saves apart
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
	p, _, err := project.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := &eyes{warn: func(err error) { t.Error(err) }}
	if err := e.open(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name  string
		build func() // what happens while it builds
		still bool
	}{
		{"nothing", func() {}, true},
		{"another file, that counts for nothing", func() {
			if err := os.WriteFile(filepath.Join(dir, "agent.log"), []byte("line\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"there and back", func() { save("package main // B\n"); save("package main // A\n") }, false},
		{"there", func() { save("package main // C\n") }, false},
	} {
		if _, _, err := e.read(t.Context(), func() (*project.Project, error) { return p, nil }); err != nil {
			t.Fatal(err)
		}
		hash, still := e.forDriver(t.Context())
		code, err := hash("bot")
		if err != nil {
			t.Fatal(err)
		}
		c.build()
		if got, err := still("bot", code); err != nil || got != c.still {
			t.Errorf("%s: it is still that: %t, %v", c.name, got, err)
		}
		// It builds again, from what is there by then.
		code, err = hash("bot")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := still("bot", code); err != nil || !got {
			t.Errorf("%s, and then nothing: it is still that: %t, %v", c.name, got, err)
		}
	}
}
