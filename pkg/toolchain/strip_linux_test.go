package toolchain

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStrip: a program without a debugger's tables still says where it panicked,
// and how to link is the user's to say.
func TestStrip(t *testing.T) {
	dir := tree(t, map[string]string{
		"go.mod":  mod,
		"main.go": "package main\n\nvar word = \"none\"\n\nfunc main() {\n\tpanic(word)\n}\n",
	})
	for name, c := range map[string]struct {
		strip    bool
		goflags  string
		debugger bool
		word     string
	}{
		"whole":                          {false, "", true, "none"},
		"stripped":                       {true, "", false, "none"},
		"stripped, with other flags":     {true, "-tags=x", false, "none"},
		"linked as its user says":        {true, "-ldflags=-X=main.word=mine", true, "mine"},
		"linked as said with two dashes": {true, "--ldflags=-X=main.word=mine", true, "mine"},
	} {
		t.Setenv("GOFLAGS", c.goflags)
		out := filepath.Join(t.TempDir(), "bot")
		if err := Build(t.Context(), Options{Dir: dir, Out: out, GOOS: "linux", Strip: c.strip}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		program, err := elf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := program.DWARF(); (err == nil) != c.debugger {
			t.Errorf("%s: a debugger's tables: %v", name, err)
		}
		_ = program.Close() // it was only read
		said, _ := exec.Command(out).CombinedOutput()
		if text := string(said); !strings.Contains(text, "panic: "+c.word) || !strings.Contains(text, "main.go:6") {
			t.Errorf("%s: it says\n%s", name, text)
		}
	}
}
