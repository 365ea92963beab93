package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/source"
)

func TestC01_TenSavesByRenameAreTenChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t).watch()
	for i := range 10 {
		r.save("main.go", fmt.Sprintf("save %d", i))
		r.expect("modified main.go")
	}
	if got := r.warnings(); got != nil {
		t.Errorf("warnings: %q", got)
	}
}

func TestC02_OneSaveIsOneChange(t *testing.T) {
	t.Parallel()
	r := newRig(t).watch()
	r.write("main.go", "truncated and written")
	r.expect("modified main.go")

	// What vim does, with its probe, its swap files and its backup.
	r.write("4913", "")
	r.write(".main.go.swp", "swap")
	r.write(".main.go.swx", "swap")
	r.must(os.Remove(r.at("4913")), os.Rename(r.at("main.go"), r.at("main.go~")))
	r.write("main.go", "by vim")
	r.must(os.Chmod(r.at("main.go"), 0o600), os.Remove(r.at("main.go~")), os.Remove(r.at(".main.go.swp")))
	r.expect("modified main.go")

	// Emacs has a lock that is a link to nothing, and is called like a Go file.
	r.must(os.Symlink("me@here.4711:1", r.at(".#main.go")))
	r.write("#main.go#", "autosave")
	r.must(os.Remove(r.at(".#main.go")), os.Remove(r.at("#main.go#")))
	r.nothing("emacs")
}

func TestC02_UnchangedContentIsNoChange(t *testing.T) {
	t.Parallel()
	r := newRig(t).watch()
	content, err := os.ReadFile(r.at("main.go"))
	r.must(err)
	for what, do := range map[string]func(){
		"chmod":            func() { r.must(os.Chmod(r.at("main.go"), 0o755)) },
		"touch":            func() { r.must(os.Chtimes(r.at("main.go"), time.Now(), time.Now())) },
		"the same bytes":   func() { r.write("main.go", string(content)) },
		"a rename, same":   func() { r.save("main.go", string(content)) },
		"save and undo":    func() { r.save("main.go", "x"); r.save("main.go", string(content)) },
		"an empty dir":     func() { r.must(os.Mkdir(r.at("empty"), 0o755)) },
		"made and removed": func() { r.write("new.go", "x"); r.must(os.Remove(r.at("new.go"))) },
		"a socket":         func() { r.must(syscall.Mkfifo(r.at("pipe"), 0o600)) },
	} {
		do()
		r.nothing(what)
	}
}

// A same-sized content within one tick of the file system's clock, and one whose
// time is set back, are changes.
func TestContentCountsAndNotTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t).watch()
	old := time.Now().Add(-time.Hour)
	r.must(os.Chtimes(r.at("main.go"), old, old))
	r.nothing("touch")
	for i := range 3 {
		r.write("main.go", fmt.Sprintf("size %d", i))
		r.must(os.Chtimes(r.at("main.go"), old, old))
		r.expect("modified main.go")
	}
}

// TestC03_AStormIsOneChange: a checkout that changes everything.
func TestC03_AStormIsOneChange(t *testing.T) {
	t.Parallel()
	r := newRig(t).watch()
	const files, perDir = 2000, 20
	for i := range files {
		r.write(fmt.Sprintf("storm/%d/%d.go", i/perDir, i), fmt.Sprint(i))
	}
	if c := r.change(); len(c.Files) != files {
		t.Errorf("%d files are in the change", len(c.Files))
	}
	r.must(os.RemoveAll(r.at("storm")))
	if c := r.change(); len(c.Files) != files || c.Files[0].Op != source.Removed {
		t.Errorf("%d files are in the change", len(c.Files))
	}
	r.nothing("the end of a storm")
}

// TestC04_WatchesAreTheDirectoriesThatCount: no watch is spent on what is ignored.
func TestC04_WatchesAreTheDirectoriesThatCount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 50 {
		r.write(fmt.Sprintf("node_modules/p%d/index.js", i), "x")
		r.write(fmt.Sprintf(".venv/lib/p%d/x.py", i), "x")
		r.write(fmt.Sprintf("data/%d/rows.csv", i), "x")
		r.write(fmt.Sprintf("out/%d/x.bin", i), "x")
	}
	r.write(".gitignore", "/data/\n/gen/\n/web/\n")
	r.write(".dockerignore", "out\n")
	r.write("gen/api/api.go", "package api")             // ignored, and built
	r.write("web/dist/js/x.js", "x")                     // ignored, and embedded
	r.write("main.go", "package x\n//go:embed web/d*\n") // …
	f := newFake()
	r.watchWith(r.options(), f.opens)
	want := []string{"", "assets", "clerk", "gen", "gen/api", "lib", "lib/deep", "lib/deep/er", "web", "web/dist", "web/dist/js"}
	for i := range want {
		want[i] = filepath.Join(r.dir, want[i])
	}
	if got := f.watched(); !slices.Equal(got, want) {
		t.Errorf("watched are %q, want %q", got, want)
	}
}

// TestC06_OwnFilesAreNoChange: what flisk, an agent, and the tools around them
// write into the project.
func TestC06_OwnFilesAreNoChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(".gitignore", "/shop\n/data/\n")
	r.write(".dockerignore", "notes.md\n**/*.bak\n")
	r.watch()
	for _, f := range []string{
		"compose.yaml", "traefik/traefik.yaml", "traefik/dynamic/routes.yaml", ".flisk/volume/s1.jsonl", ".flisk/build/bot", "shop",
		"agent.log", "assets/db.sqlite", "assets/db.sqlite-wal", "__pycache__/x.pyc", "node_modules/x/y.js", ".venv/bin/x", ".git/HEAD", ".idea/x.xml",
		"data/rows/1.csv", "notes.md", "assets/x.bak", "assets/x.tmp", "backup.flisk.jsonl", "report.flisk.xml",
	} {
		r.write(f, "one")
		r.write(f, "two")
	}
	r.nothing("what is ignored")
}

func TestKindsAndAgents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(".gitignore", ".env\n")
	r.write(".dockerignore", "Dockerfile\n")
	r.watch()
	for _, c := range []struct {
		file   string
		kind   source.Kind
		agents string
	}{
		{"main.go", source.Code, "bot"}, {"clerk/main.go", source.Code, "clerk"}, {"go.mod", source.Code, "bot clerk"}, {"go.work", source.Code, "bot clerk"},
		{"assets/new.txt", source.Code, "bot clerk"}, {"flisk.yaml", source.Settings, ""}, {".env", source.EnvFile, ""},
		{"compose.override.yaml", source.Override, ""}, {"Dockerfile", source.Image, ""}, {".dockerignore", source.Image, "bot clerk"},
	} {
		content := "changed, of " + c.file
		if c.file == ".dockerignore" {
			content = "Dockerfile\nother\n"
		}
		r.save(c.file, content)
		got := r.change()
		if len(got.Files) != 1 || got.Files[0].Path != c.file || got.Files[0].Kind != c.kind || !got.Has(c.kind) || strings.Join(got.Agents(), " ") != c.agents {
			t.Errorf("%s: %+v", c.file, got.Files)
		}
	}
}

// TestC07_WhatChangesMeanwhileIsOneChange: during a reload nobody waits.
func TestC07_WhatChangesMeanwhileIsOneChange(t *testing.T) {
	t.Parallel()
	r := newRig(t).watch()
	r.save("main.go", "A")
	r.expect("modified main.go")
	r.save("main.go", "B")
	r.save("clerk/main.go", "C")
	r.save("main.go", "D")
	r.expect("modified clerk/main.go, modified main.go")

	// What was saved before the watcher was made is told as well: what was built
	// decides, and not who looked when.
	base := r.base
	r.must(r.w.Close())
	r.save("main.go", "E")
	r.watch()
	r.base = base
	r.expect("modified main.go")
	// And what somebody else asked for is no news withheld.
	r.save("main.go", "F")
	if _, err := r.w.Tree(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.expect("modified main.go")
}

func TestDirectories(t *testing.T) {
	t.Parallel()
	r := newRig(t).watch()
	outside := filepath.Join(filepath.Dir(r.dir), "elsewhere")
	r.must(os.MkdirAll(filepath.Join(outside, "in"), 0o755), os.WriteFile(filepath.Join(outside, "in", "x.go"), []byte("x"), 0o644))
	step := func(want string, do func()) {
		t.Helper()
		do()
		r.expect(want)
	}
	step("added a/b/c/x.go, added a/y.go", func() { r.write("a/b/c/x.go", "x"); r.write("a/y.go", "y") })
	step("modified a/b/c/x.go", func() { r.write("a/b/c/x.go", "again") })
	step("removed a/b/c/x.go, removed a/y.go, added z/b/c/x.go, added z/y.go", func() { r.must(os.Rename(r.at("a"), r.at("z"))) })
	step("modified z/b/c/x.go", func() { r.write("z/b/c/x.go", "renamed") })
	step("added a/b/x.go", func() { r.write("a/b/x.go", "a new one under the old name") })
	step("modified a/b/x.go, modified z/b/c/x.go", func() { r.write("a/b/x.go", "both"); r.write("z/b/c/x.go", "both") })
	step("removed z/b/c/x.go, removed z/y.go", func() { r.must(os.Rename(r.at("z"), filepath.Join(outside, "z"))) })
	r.must(os.WriteFile(filepath.Join(outside, "z", "y.go"), []byte("not ours any more"), 0o644))
	r.nothing("a directory that was moved out")
	r.must(os.Rename(r.at("lib"), r.at("away")), os.Rename(r.at("away"), r.at("lib")))
	r.nothing("a directory that was away for a moment")
	step("added lib/top.go", func() { r.write("lib/top.go", "seen") })
	step("added in/x.go", func() { r.must(os.Rename(filepath.Join(outside, "in"), r.at("in"))) })
	step("modified in/x.go", func() { r.write("in/x.go", "ours now") })
	step("modified in/x.go", func() { // another directory of the same name
		r.must(os.RemoveAll(r.at("in")))
		r.write("in/x.go", "new again")
	})
	step("modified in/x.go", func() { r.write("in/x.go", "and again") })
	step("removed in/x.go, added in/x.go/y.go", func() { r.must(os.Remove(r.at("in/x.go"))); r.write("in/x.go/y.go", "a directory") })
	step("modified in/x.go/y.go", func() { r.write("in/x.go/y.go", "in it") })
}

// TestRootComesBack: the project's directory is removed, or moved together with
// the one it is in, and comes back.
func TestRootComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ gone, back func(r *rig) }{
		"removed": {
			func(r *rig) { r.must(os.RemoveAll(r.dir)) },
			func(r *rig) { r.write("main.go", "cloned anew") },
		},
		"moved": {
			func(r *rig) { r.must(os.Rename(r.dir, r.dir+"2")) },
			func(r *rig) { r.write("main.go", "cloned anew") },
		},
		"above": {
			func(r *rig) { r.must(os.Rename(filepath.Dir(r.dir), filepath.Dir(r.dir)+"2")) },
			func(r *rig) { r.write("main.go", "cloned anew") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			// One more level, so that the directory above can be moved.
			dir := filepath.Join(filepath.Dir(r.dir), "above", "shop")
			r.must(os.MkdirAll(filepath.Dir(dir), 0o755), os.Rename(r.dir, dir))
			r.dir = dir
			r.load(dir)
			r.watch()
			c.gone(r)
			_, err := r.w.Next(t.Context(), r.base)
			if f, ok := errors.AsType[*fault.Fault](err); !ok || !errors.Is(err, fs.ErrNotExist) || f.Kind != fault.Failed {
				t.Fatalf("while it is gone: %v", err)
			}
			c.back(r)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			got, err := r.w.Next(ctx, r.base)
			if err != nil || !slices.ContainsFunc(got.Files, func(f source.Change) bool { return f.Path == "main.go" && f.Op == source.Modified }) {
				t.Fatalf("when it is back: %+v, %v", got.Files, err)
			}
			r.base = got.Tree
			r.save("main.go", "seen")
			r.expect("modified main.go")
		})
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// The project under another name.
	link := filepath.Join(filepath.Dir(r.dir), "link")
	r.must(os.Symlink(r.dir, link))
	r.load(link)
	// A file that is elsewhere, and a circle.
	target := filepath.Join(filepath.Dir(r.dir), "shared", "shared.go")
	r.must(os.Mkdir(filepath.Dir(target), 0o755), os.WriteFile(target, []byte("one"), 0o644), os.Symlink(target, r.at("shared.go")), os.Symlink(".", r.at("circle")))
	r.watch()
	r.save("main.go", "through a link")
	r.expect("modified main.go")
	r.must(os.WriteFile(target, []byte("two"), 0o644))
	r.expect("modified shared.go")
	r.must(os.WriteFile(filepath.Join(filepath.Dir(target), "other.go"), []byte("not ours"), 0o644))
	r.nothing("a neighbour of a link's target")
	r.must(os.Remove(r.at("circle")), os.Symlink("assets", r.at("circle")))
	r.expect("modified circle")
}

// TestModulesOutside: what a build reads from beside the project.
func TestModulesOutside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	beside := filepath.Join(filepath.Dir(r.dir), "lib")
	write := func(rel, content string) {
		t.Helper()
		r.must(os.MkdirAll(filepath.Dir(filepath.Join(beside, rel)), 0o755), os.WriteFile(filepath.Join(beside, rel), []byte(content), 0o644))
	}
	write("go.mod", "module lib\n")
	write("words/words.go", "package words\n\n//go:embed data\nvar f embed.FS\n")
	write("words/data/x.txt", "x")
	write("README.md", "nothing")
	r.write("go.mod", "module shop\n\nrequire lib v0.0.0\n\nreplace lib => ../lib\n")
	r.watch()
	write("words/words.go", "package words\n\n//go:embed data\nvar f embed.FS // changed\n")
	r.expect("modified ../lib/words/words.go")
	write("words/data/x.txt", "y")
	r.expect("modified ../lib/words/data/x.txt")
	write("README.md", "something")
	r.nothing("what no build reads")
	r.save("go.mod", "module shop\n\nreplace lib => ") // half of it
	r.expect("removed ../lib/go.mod, removed ../lib/words/data/x.txt, removed ../lib/words/words.go, modified go.mod")
	r.save("go.mod", "module shop\n\nreplace lib => ../lib\n")
	r.expect("added ../lib/go.mod, added ../lib/words/data/x.txt, added ../lib/words/words.go, modified go.mod")
}

// An ignored directory is not watched until something in it is built.
func TestGeneratedCode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(".gitignore", "gen/\n/rest/\n")
	r.write("rest/notes.txt", "nothing that is built")
	r.watch()
	r.write("rest/first.go", "package rest")
	r.expect("added rest/first.go")
	r.write("gen/api.go", "package api")
	r.expect("added gen/api.go")
	r.write("gen/api.go", "package api // again")
	r.expect("modified gen/api.go")
	r.write("gen/deep/x.go", "package deep")
	r.expect("added gen/deep/x.go")
	r.write("gen/notes.txt", "not built")
	r.nothing("a file that is ignored")
	r.save(".gitignore", "/rest/\n")
	r.expect("modified .gitignore, added gen/notes.txt")
	r.save(".gitignore", "gen/\n/rest/\nassets/\n")
	r.expect("modified .gitignore, removed assets/prompt.txt, removed gen/notes.txt")
}

// A tree that cannot be read is told once, and over when it can.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	r := newRig(t).watch()
	r.write("secret.go", "x")
	r.must(os.Chmod(r.at("secret.go"), 0))
	if _, err := r.w.Next(t.Context(), r.base); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("unreadable: %v", err)
	}
	r.must(os.Chmod(r.at("secret.go"), 0o644))
	r.expect("added secret.go")
}

func TestClose(t *testing.T) {
	t.Parallel()
	r := newRig(t).watch()
	waited := make(chan error, 1)
	go func() {
		_, err := r.w.Next(t.Context(), r.base)
		waited <- err
	}()
	r.must(r.w.Close(), r.w.Close())
	if err := <-waited; !errors.Is(err, ErrClosed) {
		t.Errorf("who waited gets %v", err)
	}
	if _, err := r.w.Tree(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("who asks gets %v", err)
	}
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := newRig(t).watch().w.Next(ctx, nil); !errors.Is(err, cause) {
		t.Errorf("with an ended context: %v", err)
	}
	r = newRig(t)
	r.must(os.RemoveAll(r.dir))
	if _, err := New(t.Context(), r.options()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

// TestCheckoutIsOneChange lets git write the files.
func TestCheckoutIsOneChange(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	r := newRig(t)
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), git, append([]string{"-C", r.dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	const files = 400
	all := func(content string) {
		for i := range files {
			r.write(fmt.Sprintf("pkg/p%d/x.go", i%20+i), content)
		}
	}
	run("init", "-q")
	all("one")
	run("add", ".")
	run("commit", "-qm", "one")
	run("checkout", "-qb", "two")
	all("two")
	run("commit", "-qam", "two")
	r.watch()
	run("checkout", "-q", "-")
	changed := len(r.change().Files)
	run("checkout", "-q", "two")
	if again := len(r.change().Files); changed == 0 || again != changed {
		t.Errorf("%d and %d files are in the changes", changed, again)
	}
}
