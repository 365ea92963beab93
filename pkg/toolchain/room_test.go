package toolchain

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

// TestNoRoomForABuild: a place that cannot be written to is no mistake in the agent.
func TestNoRoomForABuild(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"go.mod": mod, "main.go": "package main\nfunc main() {}\n"})
	said := func(text string) error {
		return run(t.Context(), exec.Command("sh", "-c", "echo \"$0\" >&2; exit 1", text), Options{Dir: dir})
	}
	for name, err := range map[string]error{
		"a file in its place": Build(t.Context(), Options{Dir: dir, Out: filepath.Join(dir, "main.go", "out")}),
		"a full disk":         said("write /x/_pkg_.a: no space left on device"),
		"a read-only one":     said("open /x/_pkg_.a: read-only file system"),
	} {
		if f := kindOf(t, err, fault.Environment); !strings.Contains(f.Hint, "FLISK_HOME") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	kindOf(t, said("main.go:1:1: syntax error"), fault.Failed)
}
