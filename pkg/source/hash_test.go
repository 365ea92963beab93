package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
)

const two = `version: 1
name: shop
id: 9f2c41d07a3e
agents: {bot: {}, clerk: {path: clerk}}
volumes: {checkpoints: {name: flisk-shop-9f2c41d07a3e}}
`

// load parses a flisk.yaml into a directory of its own.
func load(t *testing.T, content string) *project.Project {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := project.Parse(dir, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tree is a project on disk that can be changed and hashed.
type tree struct {
	*testing.T
	p *project.Project
}

func newTree(t *testing.T) *tree {
	tr := &tree{t, load(t, two)}
	for _, f := range []string{"main.go", "go.mod", "assets/prompt.txt", "clerk/main.go", "clerk/price/price.go", "third_party/x/x.go"} {
		tr.write(f, "content of "+f)
	}
	return tr
}

func (t *tree) write(rel, content string) {
	t.Helper()
	path := filepath.Join(t.p.Dir, rel)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (t *tree) hash(agent string) string {
	t.Helper()
	h, err := Hash(t.p, agent)
	if err != nil || len(h) != 12 {
		t.Fatalf("hash %q, %v", h, err)
	}
	return h
}

// changes reports which agents' hashes a change changes.
func (t *tree) changes(change func()) []string {
	t.Helper()
	before := map[string]string{}
	for _, a := range t.p.AgentNames() {
		before[a] = t.hash(a)
	}
	change()
	var changed []string
	for _, a := range t.p.AgentNames() {
		if t.hash(a) != before[a] {
			changed = append(changed, a)
		}
	}
	return changed
}

func TestSourceHashChangesWithWhatIsBuilt(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	both := []string{"bot", "clerk"}
	step := func(name string, want []string, change func()) {
		t.Helper()
		if got := tr.changes(change); !slices.Equal(got, want) {
			t.Errorf("%s changed %v, want %v", name, got, want)
		}
	}
	for _, f := range []string{"go.mod", "go.sum", "go.work", "assets/prompt.txt", "assets/new.bin", "notes.md", "turn_test.go.txt", "sub/.env",
		"third_party/x/x.go", "clerk/price/price.go", "a.log.txt", "sub/compose.yaml", "sub/" + project.FileName} {
		step(f, both, func() { tr.write(f, "changed") })
		step(f+" unchanged", nil, func() { tr.write(f, "changed") })
	}
	for _, f := range []string{".env", project.FileName} { // settings, and secrets among them
		step(f, nil, func() { tr.write(f, "changed") })
	}
	// A package main is imported by nobody.
	step("main.go", []string{"bot"}, func() { tr.write("main.go", "changed") })
	step("clerk/main.go", []string{"clerk"}, func() { tr.write("clerk/main.go", "changed") })
	step("clerk/prompt.txt", both, func() { tr.write("clerk/prompt.txt", "changed") })

	step("exec bit", both, func() {
		if err := os.Chmod(filepath.Join(tr.p.Dir, "assets/prompt.txt"), 0o755); err != nil {
			t.Fatal(err)
		}
	})
	step("read bit", nil, func() {
		if err := os.Chmod(filepath.Join(tr.p.Dir, "assets/prompt.txt"), 0o711); err != nil {
			t.Fatal(err)
		}
	})
	step("time", nil, func() {
		if err := os.Chtimes(filepath.Join(tr.p.Dir, "main.go"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	})
	step("rename", both, func() {
		if err := os.Rename(filepath.Join(tr.p.Dir, "go.sum"), filepath.Join(tr.p.Dir, "go.sun")); err != nil {
			t.Fatal(err)
		}
	})
	step("empty directory", nil, func() {
		if err := os.Mkdir(filepath.Join(tr.p.Dir, "empty"), 0o755); err != nil {
			t.Fatal(err)
		}
	})
	step("removed", both, func() {
		if err := os.Remove(filepath.Join(tr.p.Dir, "go.sun")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestC02_C06_DroppingsDoNotCount: what editors, package managers, flisk and a
// running agent leave in the tree.
func TestC02_C06_DroppingsDoNotCount(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	for _, f := range []string{
		".turn.go.swp", ".turn.go.swx", "turn.go~", "4913", ".#turn.go", "#turn.go#", "turn.go___jb_tmp___", "turn.go___jb_old___",
		".idea/workspace.xml", ".git/HEAD", "assets/.git/HEAD", ".flisk/volume/VOLUME",
		"__pycache__/a", "x.pyc", "node_modules/a/b.js", ".venv/bin/x", "agent.log", "assets/agent.log", "db.sqlite", "db.sqlite-journal", "backup.flisk.jsonl",
		"README.md", "assets/README", "LICENSE", "LICENSE-MIT.txt", "CHANGELOG.md", "data.db", "data.db-wal", "assets/data.db-shm", "data.db-journal", "out/report.flisk.xml",
		"compose.yaml", "compose.override.yaml", "traefik/dynamic/routes.yaml",
	} {
		if got := tr.changes(func() { tr.write(f, "dropped") }); got != nil {
			t.Errorf("%s changed %v", f, got)
		}
	}
	// Near misses count.
	for _, f := range []string{"49130", "gitignore", "log", "sqlite.go", "traefik.go", "swp", "x.swp.go", "data.jsonl", "flisk.jsonl", "layout.xml",
		"prompt.md", "A_README.md", "README.go", "db", "data.db.txt", "LICENSES/x.go", "CHANGELOG/x.txt", "x.db/x.txt"} {
		if got := tr.changes(func() { tr.write(f, "content") }); !slices.Contains(got, "bot") {
			t.Errorf("%s changed %v", f, got)
		}
	}
}

// What its owner said changes nothing about an agent does not, and counts for
// the other agents all the same.
func TestWatchIgnoreDoesNotCount(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.p.Agents[0].WatchIgnore = []string{"*.md", "docs", "assets/*.tmp"}
	for f, want := range map[string][]string{
		"notes.md": {"clerk"}, "clerk/notes.md": {"clerk"}, "docs/a/b.txt": {"clerk"}, "assets/x.tmp": {"clerk"},
		"x.tmp": {"bot", "clerk"}, "sub/assets/x.tmp": {"bot", "clerk"}, "assets/prompt.txt": {"bot", "clerk"},
	} {
		if got := tr.changes(func() { tr.write(f, "changed") }); !slices.Equal(got, want) {
			t.Errorf("%s changed %v, want %v", f, got, want)
		}
	}
}

func TestSourceHashOfAnotherPlace(t *testing.T) {
	t.Parallel()
	if a, b := newTree(t), newTree(t); a.hash("bot") != b.hash("bot") {
		t.Error("two equal projects have two hashes")
	} else if a.hash("bot") == a.hash("clerk") {
		t.Error("two agents have one hash")
	}
}

// Links and pipes must neither hang the walk nor lead it round in a circle.
func TestSourceHashOfOddFiles(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	outside := filepath.Join(t.TempDir(), "shared.go")
	at := func(rel string) string { return filepath.Join(tr.p.Dir, rel) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(outside, []byte("one"), 0o644))
	must(os.Symlink(".", at("circle")))
	must(os.Symlink("nowhere", at("dangling")))
	must(os.Symlink(outside, at("shared.go")))
	must(syscall.Mkfifo(at("pipe"), 0o644))
	if got := tr.changes(func() { must(os.WriteFile(outside, []byte("two"), 0o644)) }); !slices.Contains(got, "bot") {
		t.Error("the content behind a link does not count")
	}
	if got := tr.changes(func() { must(os.Remove(at("circle"))); must(os.Symlink("assets", at("circle"))) }); len(got) != 2 {
		t.Error("where a link to a directory points does not count")
	}
}

func TestSourceHashErrors(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	if _, err := Hash(tr.p, "nobody"); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("an unknown agent: %v", err)
	}
	if err := os.RemoveAll(tr.p.Dir); err != nil {
		t.Fatal(err)
	}
	if h, err := Hash(tr.p, "bot"); err == nil {
		t.Errorf("a project that is gone has the hash %s", h)
	}
}
