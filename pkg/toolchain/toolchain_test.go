package toolchain

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/internal/proc"
)

// tree writes files, path → content, and returns its directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "Größe 1")
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const mod = "module example.com/bot\n\ngo 1.21\n"

func kindOf(t *testing.T, err error, want fault.Kind) *fault.Fault {
	t.Helper()
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Kind != want {
		t.Fatalf("error %v is not a fault of kind %d", err, want)
	}
	if strings.Contains(f.Message, "\n") {
		t.Errorf("the message has several lines: %q", f.Message)
	}
	return f
}

// entries are the names in a directory.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestFind(t *testing.T) {
	t.Parallel()
	g, err := Find(t.Context())
	if err != nil || !filepath.IsAbs(g.Path) || !version.IsValid(g.Version) {
		t.Errorf("found %+v, %v", g, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("stopped")
	cancel(cause)
	if _, err := Find(ctx); !errors.Is(err, cause) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestMissingOrBrokenToolchain(t *testing.T) {
	dir := tree(t, map[string]string{"go.mod": mod, "main.go": "package main\nfunc main() {}\n"})
	t.Setenv("PATH", t.TempDir())
	f := kindOf(t, Build(t.Context(), Options{Dir: dir, Out: filepath.Join(dir, "out")}), fault.Environment)
	if !strings.Contains(f.Message, "there is no Go toolchain") || !strings.Contains(f.Hint, "go.dev/dl") {
		t.Errorf("got %+v", f)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\necho what\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	_, err := Find(t.Context())
	if f := kindOf(t, err, fault.Environment); !strings.Contains(f.Message, bin) {
		t.Errorf("got %+v", f)
	}
}

// A toolchain that is too old is told in flisk's words, before anything runs;
// one that the user lets choose its version is left alone.
func TestTooOldToolchain(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\necho go version go1.25.3 linux/amd64\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("GOTOOLCHAIN", "")
	dir := tree(t, map[string]string{"go.mod": "module a // go 1.1\n\ngo 1.26.1 // because\n", "main.go": "package main\nfunc main() {}\n"})
	f := kindOf(t, Build(t.Context(), Options{Dir: dir, Out: filepath.Join(dir, "out")}), fault.Environment)
	for _, want := range []string{"go1.26.1", "go1.25.3", "go.mod"} {
		if !strings.Contains(f.Message, want) {
			t.Errorf("message %q does not name %q", f.Message, want)
		}
	}
	g := Go{Path: "/x/go", Version: "go1.25.3"}
	for _, fine := range []string{"1.25", "1.25.3", "1.9", "", "latest"} {
		if err := g.check(module{goVersion: fine}); err != nil {
			t.Errorf("go %s: %v", fine, err)
		}
	}
	if err := (Go{Version: "devel"}).check(module{goVersion: "1.99"}); err != nil {
		t.Errorf("a development version: %v", err)
	}
	t.Setenv("GOTOOLCHAIN", "auto")
	if err := g.check(module{goVersion: "1.99"}); err != nil {
		t.Errorf("with GOTOOLCHAIN=auto: %v", err)
	}
}

// TestBuild makes one program, in a directory with a space and a letter that is
// not ASCII, and replaces it while it exists.
func TestBuild(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"go.mod":           mod,
		"agents/b/main.go": "package main\n\nimport \"example.com/bot/words\"\n\nfunc main() { println(words.Hello) }\n",
		"words/words.go":   "package words\n\nconst Hello = \"hello\"\n",
	})
	out := filepath.Join(t.TempDir(), "bot")
	if err := os.WriteFile(out, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: filepath.Join(dir, "agents", "b"), Root: dir, Agent: "shop", Out: out}
	if err := Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(out).CombinedOutput(); err != nil || string(said) != "hello\n" {
		t.Errorf("the program says %q, %v", said, err)
	}
	if left := entries(t, filepath.Dir(out)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if runtime.GOOS == "linux" {
		f, err := elf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 || f.Section(".interp") != nil {
			t.Errorf("the program is not static: %v, %v", libs, err)
		}
	}

	// An overlay replaces one file for one build.
	patched := filepath.Join(dir, "patched.txt")
	overlay := filepath.Join(dir, "overlay.json")
	content := fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(dir, "words", "words.go"), patched)
	if err := errors.Join(os.WriteFile(patched, []byte("package words\n\nconst Hello = \"patched\"\n"), 0o644), os.WriteFile(overlay, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
	o.Overlay = overlay
	if err := Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(out).CombinedOutput(); err != nil || string(said) != "patched\n" {
		t.Errorf("the patched program says %q, %v", said, err)
	}
	o.Overlay = ""

	// A build that fails leaves the program as it is, and says what the compiler
	// says, with the place as the project sees it.
	if err := os.WriteFile(filepath.Join(dir, "words", "words.go"), []byte("package words\n\nconst Hello = missing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	o.Output = &shown
	f := kindOf(t, Build(t.Context(), o), fault.Failed)
	if want := "words/words.go:3:15: undefined: missing"; !strings.Contains(f.Detail, "\n"+want) && !strings.Contains(f.Detail, "\n./"+want) {
		t.Errorf("detail %q, want %q", f.Detail, want)
	}
	if want := `agent "shop" in "agents/b" does not build`; f.Message != want {
		t.Errorf("message %q, want %q", f.Message, want)
	}
	if strings.TrimRight(shown.String(), "\n") != f.Detail {
		t.Errorf("shown %q, detail %q", shown.String(), f.Detail)
	}
	if said, err := exec.Command(out).CombinedOutput(); err != nil || string(said) != "patched\n" {
		t.Errorf("after a failed build the program says %q, %v", said, err)
	}
	if left := entries(t, filepath.Dir(out)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatIsNoAgent(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"go.mod":          mod,
		"lib/lib.go":      "package lib\n",
		"docs/readme.md":  "no Go here\n",
		"tests/a_test.go": "package main\n",
	})
	// A directory below no go.mod at all.
	lone := tree(t, map[string]string{"main.go": "package main\nfunc main() {}\n"})
	out := filepath.Join(t.TempDir(), "out")
	for where, want := range map[string]string{
		filepath.Join(dir, "gone"):       "there is no directory",
		filepath.Join(dir, "lib"):        `is "lib", not "main"`,
		filepath.Join(dir, "docs"):       "there are no Go files",
		filepath.Join(dir, "tests"):      "there are no Go files",
		filepath.Join(dir, "lib/lib.go"): "lib.go",
		lone:                             "there is no go.mod",
	} {
		err := Build(t.Context(), Options{Dir: where, Out: out})
		if f := kindOf(t, err, fault.Usage); !strings.Contains(f.Message, want) {
			t.Errorf("%s: %q, want %q", where, f.Message, want)
		}
	}
	if left := entries(t, filepath.Dir(out)); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestAgentIsNamed: by its name and where it is in the project, as people know it.
func TestAgentIsNamed(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		`the agent in "/p/bot"`:         {Dir: "/p/bot"},
		`the agent in "bot"`:            {Dir: "/p/bot", Root: "/p"},
		`agent "bot" in "agents/shop"`:  {Dir: "/p/agents/shop", Root: "/p", Agent: "bot"},
		`agent "bot"`:                   {Dir: "/p", Root: "/p", Agent: "bot"},
		`agent "bot" in "/elsewhere/x"`: {Dir: "/elsewhere/x", Root: "/p", Agent: "bot"},
	} {
		if got := o.agent(); got != want {
			t.Errorf("%+v is called %s, want %s", o, got, want)
		}
	}
}

// TestCancelledBuildLeavesNoProcess stands a script in for the go command that
// starts a compiler which ignores interrupts: both must be gone when Build
// returns, and so must the work directory that the killed command could not
// remove.
func TestCancelledBuildLeavesNoProcess(t *testing.T) {
	bin, state := t.TempDir(), t.TempDir()
	pids := filepath.Join(state, "pids")
	script := `#!/bin/sh
if [ "$1" = version ]; then echo go version go1.99.0 linux/amd64; exit; fi
trap '' INT
mkdir "${GOTMPDIR:?}/go-build1" && echo half > "$GOTMPDIR/go-build1/_pkg_.a" || exit 9
sleep 300 &
echo $$ $! > "` + pids + `.tmp"
mv "` + pids + `.tmp" "` + pids + `"
wait
`
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	dir := tree(t, map[string]string{"go.mod": mod, "main.go": "package main\nfunc main() {}\n"})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the user stopped it")
	done := make(chan error, 1)
	go func() { done <- Build(ctx, Options{Dir: dir, Out: filepath.Join(state, "out")}) }()

	var command, compiler int
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for compiler == 0 {
		if text, err := os.ReadFile(pids); err == nil {
			if _, err := fmt.Sscan(string(text), &command, &compiler); err != nil {
				t.Fatal(err)
			}
		} else if time.Now().After(deadline) {
			t.Fatal("the build did not start")
		} else {
			<-tick.C
		}
	}
	cancel(cause)
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("a stopped build returns %v", err)
	}
	if left := entries(t, state); len(left) != 1 || left[0] != "pids" {
		t.Errorf("left behind: %v", left)
	}
	for name, pid := range map[string]int{"go command": command, "compiler": compiler} {
		id, err := proc.Identify(pid)
		if err == nil {
			// It has been sent SIGKILL; it may not be off the table yet.
			wait, stop := context.WithTimeout(t.Context(), 10*time.Second)
			if err := id.Wait(wait); err != nil {
				t.Errorf("the %s outlives the build: %v", name, err)
			}
			stop()
		}
	}
}
