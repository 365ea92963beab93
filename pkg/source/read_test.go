package source

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
)

// files reads the tree and lists what counts.
func (t *tree) files() string {
	t.Helper()
	return strings.Join(slices.Sorted(maps.Keys(t.read(nil).Files())), " ")
}

func (t *tree) read(previous *Tree) *Tree {
	t.Helper()
	got, err := Read(t.Context(), t.p, Options{Previous: previous})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// watched reads the tree as who watches its directories.
func (t *tree) watched() *Tree {
	t.Helper()
	got, err := Read(t.Context(), t.p, Options{Enter: func(string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (t *tree) writeAll(files map[string]string) {
	t.Helper()
	for name, content := range files {
		t.write(name, content)
	}
}

// What an ignore file names counts only where a build reads it.
func TestIgnoreFiles(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.writeAll(map[string]string{
		".gitignore": "/gen/\n*.bin\n!keep.bin\n.env\nweb/\n", "assets/.gitignore": "prompt.txt\n", ".dockerignore": "docs\n!docs/keep.md\n**/*.md\n!docs/keep.md\n",
		"gen/api.go": "package api", "gen/api.json": "{}", "x.bin": "x", "keep.bin": "x", ".env": "A=1",
		"docs/x.md": "x", "docs/keep.md": "x", "clerk/README.md": "x",
		"web/dist/x.js": "x", "web/src/x.ts": "x", "web/quoted name/x.js": "x",
		"page.go": "package main\n\n//go:embed web/d*\nvar a embed.FS\n\n//go:embed \"web/quoted name\" nothing\nvar b embed.FS\n",
	})
	want := ".dockerignore .env .gitignore assets/.gitignore clerk/main.go clerk/price/price.go docs/keep.md gen/api.go go.mod keep.bin main.go page.go third_party/x/x.go web/dist/x.js web/quoted name/x.js"
	if got := tr.files(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := tr.changes(func() { tr.write("gen/api.go", "package api // changed") }); len(got) != 2 {
		t.Errorf("generated code that changes changes %v", got)
	}
	if got := tr.changes(func() { tr.write(".env", "A=2") }); got != nil {
		t.Errorf("a secret changes the hash of %v", got)
	}
}

// A project that is a part of a repository, below an ignore file of it.
func TestIgnoreFilesAbove(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	top := filepath.Join(tr.p.Dir, "..", "..", "..", "..", "nowhere")
	if rules := gitRulesAbove(top); rules.ignores(top+"/x", false) {
		t.Error("without a repository something is ignored")
	}
	repository := tr.p.Dir
	tr.p.Dir = filepath.Join(repository, "bots", "shop")
	tr.writeAll(map[string]string{"main.go": "package main", "a.txt": "x", "b.txt": "x", "c.txt": "x", "d.txt": "x"})
	for name, content := range map[string]string{".git/info/exclude": "a.txt\n", ".gitignore": "b.txt\n/c.txt\n", "bots/.gitignore": "!b.txt\n/shop/d.txt\n"} {
		file := filepath.Join(repository, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	// The go.mod of the repository makes the files beside the project a part of the build.
	if got, want := tr.files(), "../../clerk/main.go ../../clerk/price/price.go ../../go.mod ../../main.go ../../third_party/x/x.go b.txt c.txt main.go"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestC09_ModulesOutside: what a build reads from beside the project has a part in
// the hash, of the agents that are built from it.
func TestC09_ModulesOutside(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	up := filepath.Base(tr.p.Dir)
	tr.p.Dir = filepath.Join(tr.p.Dir, "shop") // so that "..", too, is the test's own
	tr.writeAll(map[string]string{
		"main.go": "package main", "go.mod": "module shop\n\nreplace (\n\tlib => ../lib\n\tfar v1.0.0 => example.com/far v1.2.0\n)\n",
		"clerk/main.go": "package main", "clerk/go.mod": "module clerk\n",
		"../lib/go.mod": "module lib\n", "../lib/lib.go": "package lib\n\n//go:embed text/*.txt\nvar f embed.FS\n", "../lib/text/a.txt": "a", "../lib/text/b.md": "b",
		"../lib/node_modules/x.go": "x", "../lib/.hidden/x.go": "x", "../lib/README.md": "x", "../lib/inner/go.mod": "module inner\n", "../lib/inner/x.go": "x",
		"../other/go.mod": "module other\n\nreplace deep => ./deep\n", "../other/x.go": "package other", "../other/deep/go.mod": "module deep\n", "../other/deep/x.go": "package deep",
	})
	mine := "../lib/go.mod ../lib/lib.go ../lib/text/a.txt clerk/go.mod clerk/main.go go.mod main.go"
	if got := tr.files(); got != mine {
		t.Errorf("%s: got  %s\nwant %s", up, got, mine)
	}
	for file, want := range map[string]string{"../lib/lib.go": "bot", "../lib/text/a.txt": "bot", "../lib/README.md": "", "../other/x.go": "", "../lib/inner/x.go": ""} {
		if got := strings.Join(tr.changes(func() { tr.write(file, "package x // changed\n//go:embed text/*.txt\n") }), " "); got != want {
			t.Errorf("%s changes %q, want %q", file, got, want)
		}
	}
	// A workspace adds its members, for every agent that is in it.
	tr.write("../go.work", "go 1.26\n\nuse (\n\t./shop\n\t./shop/clerk\n\t./other\n)\n")
	if got, want := tr.files(), "../go.work "+strings.Replace(mine, "clerk/go.mod", "../other/deep/go.mod ../other/deep/x.go ../other/go.mod ../other/x.go clerk/go.mod", 1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := tr.changes(func() { tr.write("../other/deep/x.go", "changed") }); len(got) != 2 {
		t.Errorf("a member's replacement changes %v", got)
	}
}

// What has an unchanged stamp is not read again; what may have been written to
// under its stamp is.
func TestPrevious(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	first := tr.read(nil)
	if first.files["main.go"].steady {
		t.Error("a file that was written just now is taken for steady")
	}
	// As if it had been read long ago, and with another content since.
	known := first.files["main.go"]
	known.steady, known.sum = true, [32]byte{1}
	first.files["main.go"] = known
	if again := tr.read(first); again.files["main.go"].sum != known.sum {
		t.Error("a steady file is read again")
	}
	// The same size and the same time, set by a program: only the kernel's own time differs.
	tr.write("main.go", strings.Repeat("x", int(known.Size)))
	if err := os.Chtimes(filepath.Join(tr.p.Dir, "main.go"), time.Now(), known.stamp.modified); err != nil {
		t.Fatal(err)
	}
	if again := tr.read(first); again.files["main.go"].sum == known.sum {
		t.Error("a file with another stamp is not read again")
	}
	if d := Diff(nil, first); len(d) != len(first.files) || d[0].Op != Added {
		t.Errorf("against nothing: %+v", d)
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := Read(ctx, tr.p, Options{}); !errors.Is(err, cause) {
		t.Errorf("with an ended context: %v", err)
	}
	if _, err := Read(t.Context(), tr.p, Options{Enter: func(string) error { return cause }}); err != cause {
		t.Errorf("with an error of Enter: %v", err)
	}
	if err := os.RemoveAll(tr.p.Dir); err != nil {
		t.Fatal(err)
	}
	_, err := Read(t.Context(), tr.p, Options{})
	if f, ok := errors.AsType[*fault.Fault](err); !ok || !errors.Is(err, fs.ErrNotExist) || f.Hint == "" {
		t.Errorf("without a directory: %v", err)
	}
}

// What package managers and programs leave behind counts where it is embedded, and
// of vendored code the list of it, too.
func TestEmbeddedLeftovers(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.writeAll(map[string]string{
		".gitignore": "vendor/\n", "vendor/modules.txt": "x", "vendor/a/a.go": "package a", "vendor/a/a.txt": "x",
		"node_modules/lib/dist/a.js": "x", "node_modules/lib/dist/.hidden": "x", "node_modules/lib/src/a.js": "x", "node_modules/lib/a.go": "package a", "node_modules/other/a.js": "x",
		"web/node_modules/a.js": "x", "web/_part/node_modules/a.js": "x", "web/x.log": "x", "web/x.sqlite": "x", "web/x~": "x", "other/x.log": "x", "web/README.md": "x", "web/x.db": "x", "other/x.db": "x",
		"page.go": "package main\n\nvar (\n\t//go:embed node_modules/lib/dist\tweb\n\ta embed.FS\n)\n",
	})
	both := []string{"bot", "clerk"}
	for file, want := range map[string][]string{
		"vendor/modules.txt": both, "vendor/a/a.go": both, "vendor/a/a.txt": nil,
		"node_modules/lib/dist/a.js": both, "node_modules/lib/dist/new.js": both, "node_modules/lib/dist/.hidden": nil, "node_modules/lib/src/a.js": nil,
		"node_modules/lib/a.go": nil, "node_modules/other/a.js": nil,
		"web/node_modules/a.js": both, "web/_part/node_modules/a.js": nil, "web/x.log": both, "web/x.sqlite": both, "web/x~": nil, "other/x.log": nil, "web/README.md": both, "web/new.db": both, "web/x.db": both, "other/x.db": nil,
	} {
		if got := tr.changes(func() { tr.write(file, "package changed") }); !slices.Equal(got, want) {
			t.Errorf("%s changes %v, want %v", file, got, want)
		}
		read := tr.watched()
		if got := read.Concerns(filepath.Join(tr.p.Dir, file)); got != (want != nil) {
			t.Errorf("%s concerns: %t", file, got)
		}
	}
}

// A package counts wherever its import leads, and what is beside it there does not.
func TestImportedPackages(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.p.Dir = filepath.Join(tr.p.Dir, "shop") // so that "..", too, is the test's own
	link := func(target, name string) {
		t.Helper()
		name = filepath.Join(tr.p.Dir, name)
		_ = os.Remove(name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(target, name)); err != nil {
			t.Fatal(err)
		}
	}
	imports := func(paths ...string) string {
		return "package x\n\nimport (\n\t_ \"" + strings.Join(paths, "\"\n\t_ \"") + "\"\n)\n"
	}
	tr.writeAll(map[string]string{
		".gitignore": "/gen/\n", "go.mod": "module example.com/shop\n", "clerk/main.go": "package main",
		"main.go":       imports("fmt", "example.com/shop/lib/sub", "example.com/shop/gen/link", "example.com/shop/_own", "example.com/shop/node_modules/x", "example.com/shop/foreign", "example.com/shop/near", "example.com/shop/none", "example.com/shopping/lib"),
		"../lib/lib.go": "package lib", "../lib/big/data.bin": "x", "../lib/big/big.go": "package big",
		"../lib/sub/sub.go": imports("example.com/shop/more") + "\n//go:embed text\nvar f embed.FS\n", "../lib/sub/text/deep/a.txt": "x", "../lib/sub/a.txt": "x", "../lib/sub/sub/x.go": "package sub",
		"../more/more.go": "package more", "../made/v1/made.go": "package made", "../made/v2/made.go": "package made", "../foreign/go.mod": "module foreign\n", "../foreign/x.go": "package x",
		"_own/x.go": "package own", "node_modules/x/x.go": "package x", "node_modules/y/y.go": "package y", "clerk/near/x.go": "package near",
	})
	link("../lib", "lib")
	link("../more", "more")
	link("../foreign", "foreign")
	link("clerk/near", "near")
	link("../../made/v1", "gen/link")
	both := []string{"bot", "clerk"}
	for file, want := range map[string][]string{
		"../lib/sub/sub.go": both, "../lib/sub/text/deep/a.txt": both, "../lib/sub/text/new.txt": both, "../lib/sub/new.go": both, "../more/more.go": both, "../made/v1/made.go": both,
		"_own/x.go": both, "node_modules/x/x.go": both, "clerk/near/x.go": both,
		"../lib/lib.go": nil, "../lib/big/data.bin": nil, "../lib/big/big.go": nil, "../lib/sub/a.txt": nil, "../lib/sub/sub/x.go": nil, "../made/v2/made.go": nil,
		"../foreign/x.go": nil, "node_modules/y/y.go": nil,
	} {
		content := "changed"
		if file == "../lib/sub/sub.go" {
			content = imports("example.com/shop/more") + "\n//go:embed text\nvar f, changed embed.FS\n"
		}
		if got := tr.changes(func() { tr.write(file, content) }); !slices.Equal(got, want) {
			t.Errorf("%s changes %v, want %v", file, got, want)
		}
		read := tr.watched()
		if got := read.Concerns(filepath.Join(tr.p.Dir, file)); got != (want != nil) {
			t.Errorf("%s concerns: %t", file, got)
		}
	}
	var entered []string
	if _, err := Read(t.Context(), tr.p, Options{Enter: func(dir string) error {
		rel, err := filepath.Rel(tr.p.Dir, dir)
		if entered = append(entered, rel); slices.Contains([]string{"../lib", "../lib/big", "../foreign", "node_modules"}, rel) {
			t.Errorf("%s is entered", rel)
		}
		return err
	}}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"../lib/sub", "../lib/sub/text/deep", "../more", "../made/v1", "gen", "node_modules/x"} {
		if !slices.Contains(entered, dir) {
			t.Errorf("%s is not entered", dir)
		}
	}
	if got := tr.changes(func() { link("../../made/v2", "gen/link") }); !slices.Equal(got, both) {
		t.Errorf("another target of a link changes %v", got)
	}
	again := tr.read(tr.read(nil))
	if got, want := slices.Sorted(maps.Keys(again.Files())), slices.Sorted(maps.Keys(tr.read(nil).Files())); !slices.Equal(got, want) {
		t.Errorf("read again: %v, want %v", got, want)
	}
}

func TestEmbedPatterns(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		" a": "a", " a b/c  d": "a|b/c|d", "\ta\tb \r": "a|b", ` "with space" x`: "with space|x", " `raw name`": "raw name", ` "broken`: `"broken`, "": "",
	} {
		if got := strings.Join(embedPatterns(line), "|"); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	got := embedsOf("pkg", []byte("package x\n//go:embed a all:b\nvar x = `//go:embed no`\nvar (\n \t//go:embed d\n\td embed.FS) //go:embed no\n//go:embedded no\n//go:embed c/*.txt"))
	for file, want := range map[string]bool{
		"pkg/a": true, "pkg/a/deep/x": true, "pkg/b/.x": true, "pkg/a/.x": false, "pkg/a/_deep/x": false, "pkg/d/x": true, "pkg/no": false, "pkg/c/x.txt": true, "pkg/c/x.md": false, "a": false, "pkg/ab": false, "other/a": false,
	} {
		if embeds(got).cover(file) != want {
			t.Errorf("%q is covered: %t", file, !want)
		}
	}
}
