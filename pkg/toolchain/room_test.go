package toolchain

import (
	"os/exec"
	"path/filepath"
	"slices"
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

// TestWhoseFaultABuildIs: only an agent whose source is named is at fault.
func TestWhoseFaultABuildIs(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir(), Agent: "bot"}
	said := func(text string) *fault.Fault {
		return kindOf(t, run(t.Context(), exec.Command("sh", "-c", "echo \"$0\" >&2; exit 1", text), o), fault.Failed)
	}
	for text, own := range map[string]bool{
		"# example.com/bot\n./turn.go:26:16: undefined: x":                                                                  true,
		"lib/lib.go:3:2: package nothing is not in std":                                                                     true,
		"go: errors parsing go.mod:\ngo.mod:3: unknown directive: requires":                                                 true,
		"# example.com/bot\n/usr/go/pkg/tool/compile: signal: killed":                                                       false,
		"# example.com/bot\n./my bot/turn.go:3:5: undefined: x":                                                             true,
		"# example.com/bot\nruntime.main_main·f: function main is undeclared in the main package":                           true,
		"package example.com/bot\n\timports example.com/bot/a: import cycle not allowed":                                    true,
		"found packages main (main.go) and other (turn.go) in /p/bot":                                                       true,
		"turn.go:5:2: github.com/a/b@v1: reading https://modules.example/x: 502 Bad Gateway":                                false,
		"turn.go:5:2: github.com/a/b@v1: read tcp 10.0.0.1:1->10.0.0.2:2: connection reset":                                 false,
		"failed to initialize build cache at /c: mkdir /c: not a directory":                                                 false,
		"main.go:4:2: github.com/a/b@v1: Get \"https://modules.example/x\": dial tcp: lookup modules.example: no such host": false,
	} {
		if f := said(text); own != slices.Equal(f.Agents, []string{"bot"}) || !own && f.Agents != nil {
			t.Errorf("%q is the fault of %q", text, f.Agents)
		}
	}
	gone := exec.Command("true")
	gone.Dir = filepath.Join(o.Dir, "away")
	if f := kindOf(t, run(t.Context(), gone, o), fault.Environment); f.Agents != nil {
		t.Errorf("a directory that is gone is the fault of %q", f.Agents)
	}
}
