package toolchain

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

// TestC23_CIsSeen: whether C is needed is told without a C compiler, which a
// machine that builds agents need not have.
func TestC23_CIsSeen(t *testing.T) {
	toolchain, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(toolchain.Path, filepath.Join(bin, "go")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	const withC = "package x\n\n// int one(void) { return 1; }\nimport \"C\"\n\nfunc X() int { return int(C.one()) }\n"
	const user = "package main\n\nimport \"example.com/bot/x\"\n\nfunc main() { x.X() }\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"none, and a network": {map[string]string{"main.go": "package main\n\nimport _ \"net/http\"\nimport _ \"os/user\"\n\nfunc main() {}\n"}, nil},
		"of its own":          {map[string]string{"main.go": "package main\n\nimport \"C\"\n\nfunc main() {}\n"}, []string{"example.com/bot"}},
		"of a dependency":     {map[string]string{"main.go": user, "x/x.go": withC}, []string{"example.com/bot/x"}},
		// It builds without C, and does something else then.
		"with a stand-in":   {map[string]string{"main.go": user, "x/x.go": withC, "x/not.go": "//go:build !cgo\n\npackage x\n\nfunc X() int { panic(\"no C\") }\n"}, []string{"example.com/bot/x"}},
		"of another system": {map[string]string{"main.go": user, "x/x_windows.go": withC, "x/x.go": "//go:build !windows\n\npackage x\n\nfunc X() int { return 1 }\n"}, nil},
		"broken":            {map[string]string{"main.go": "package main\n\nimport \"example.com/bot/none\"\n\nfunc main() { x }\n"}, nil},
	} {
		c.files["go.mod"] = mod
		got, err := CPackages(t.Context(), Options{Dir: tree(t, c.files), GOOS: "linux", GOARCH: "arm64"})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
	_, err = CPackages(t.Context(), Options{Dir: filepath.Join(bin, "none")})
	kindOf(t, err, fault.Usage)
}
