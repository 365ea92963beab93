package verify

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flisk-go/flisk/pkg/scaffold"
	"github.com/flisk-go/flisk/pkg/toolchain"
)

// project is one scaffolded project for all tests, with its program built from
// it as it is.
var project = sync.OnceValues(func() (string, error) {
	root, err := os.MkdirTemp("", "flisk-verify-test-")
	if err != nil {
		return "", err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil { // as the go command sees it
		return "", err
	}
	dir := filepath.Join(root, "bot")
	if _, err := scaffold.Init(dir, scaffold.Options{Port: 8080}); err != nil {
		return dir, err
	}
	return dir, toolchain.Build(context.Background(), toolchain.Options{Dir: dir, Out: dir + ".program"})
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := project(); dir != "" {
		if gone := os.RemoveAll(filepath.Dir(dir)); errors.Join(err, gone) != nil {
			code = 1
		}
	}
	os.Exit(code)
}

// goodAgent is the program of the scaffold.
func goodAgent(t *testing.T) string {
	t.Helper()
	dir, err := project()
	if err != nil {
		t.Fatal(err)
	}
	return dir + ".program"
}

// mutatedAgent builds the scaffold as the file of a mutant says.
func mutatedAgent(t *testing.T, mutant string) string {
	t.Helper()
	patches, err := readPatches(filepath.Join(mutants, mutant+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return patchedAgent(t, mutant, patches)
}

// patchedAgent builds the scaffold with replacements in some files, which are
// named as the library's directory sees them.
func patchedAgent(t *testing.T, mutant string, patches map[string][]edit) string {
	t.Helper()
	dir, err := project()
	if err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "third_party", "flisk")
	replace := map[string]string{}
	for name, edits := range patches {
		original := filepath.Join(library, filepath.FromSlash(name))
		text, err := os.ReadFile(original)
		if err != nil {
			t.Fatalf("mutant %s patches a file that is not there: %v", mutant, err)
		}
		patched := string(text)
		for _, e := range edits {
			if n := strings.Count(patched, e.find); n != 1 {
				t.Fatalf("mutant %s looks in %s for text that is there %d times; write the patch anew for what the library looks like now:\n%s", mutant, name, n, e.find)
			}
			patched = strings.Replace(patched, e.find, e.put, 1)
		}
		to := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.WriteFile(to, []byte(patched), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[original] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), mutant)
	if err := toolchain.Build(t.Context(), toolchain.Options{Dir: dir, Out: program, Overlay: path, Output: t.Output()}); err != nil {
		t.Fatalf("mutant %s does not build: %v", mutant, err)
	}
	return program
}
