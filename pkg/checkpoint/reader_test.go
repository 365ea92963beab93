package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestReaderWritesNothing: looking makes no volume, no lock and no repair.
func TestReaderWritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := OpenReader(dir, "bot"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no volume: %v", err)
	}
	if _, err := CountSessions(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no volume: %v", err)
	}
	if names := tree(t, dir); len(names) != 0 {
		t.Errorf("looking made %v", names)
	}

	f := openStore(t, dir, Options{})
	done := mustTurn(t, f, "s", "k", "in", "out")
	mustTurn(t, f, "t", "", "in", "out")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, pathOf(dir, "s"), append(readFile(t, pathOf(dir, "s")), "torn"...))
	before := snapshotOf(t, dir)

	r, err := OpenReader(dir, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v, err := r.View(t.Context(), "s")
	if err != nil || v.Turn != 1 || v.Messages[1].Text() != "out" {
		t.Errorf("view is %+v, %v", v, err)
	}
	got, err := r.Turn(t.Context(), done.ID)
	if err != nil || got.State != turn.Committed || string(got.Reply) != `"out"` {
		t.Errorf("turn is %+v, %v", got, err)
	}
	rows, next, err := r.List(t.Context(), "", 10)
	if err != nil || len(rows) != 2 || next != "" {
		t.Errorf("rows are %+v, %q, %v", rows, next, err)
	}
	if _, err := r.View(t.Context(), "unknown"); !errors.Is(err, ErrNoSession) {
		t.Errorf("unknown: %v", err)
	}
	if n, err := CountSessions(dir); err != nil || n != 2 {
		t.Errorf("%d sessions, %v", n, err)
	}
	if after := snapshotOf(t, dir); !slices.Equal(before, after) {
		t.Errorf("files are %v, were %v", after, before)
	}

	other, err := OpenReader(dir, "never-ran")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if rows, _, err := other.List(t.Context(), "", 10); err != nil || len(rows) != 0 {
		t.Errorf("an agent without a directory lists %v, %v", rows, err)
	}
}

// snapshotOf is every file with its contents.
func snapshotOf(t *testing.T, dir string) (all []string) {
	t.Helper()
	for _, name := range tree(t, dir) {
		all = append(all, name, string(readFile(t, filepath.Join(dir, name))))
	}
	return all
}

// TestListOpensOnlyItsPage, and reads only the end of great files.
func TestListOpensOnlyItsPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, fsys := twin(t, dir, Options{})
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		mustTurn(t, f, id, "", "in", "out")
	}
	fsys.Ops()
	rows, next, err := f.List(t.Context(), "", 2)
	if err != nil || len(rows) != 2 || next != rows[1].Session {
		t.Fatalf("rows are %+v, %q, %v", rows, next, err)
	}
	opened := 0
	for _, op := range fsys.Ops() {
		if op == "session.open" {
			opened++
		}
	}
	if opened != 2 {
		t.Errorf("%d files were opened for 2 rows", opened)
	}
}

// TestTemporaryFilesAreNoSessions: C32's stray files.
func TestC32_StrayFilesAreNotListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s", "", "in", "out")
	path := pathOf(dir, "s")
	shard, name := filepath.Split(path)
	for _, stray := range []string{"." + name[:nameLength] + ".tmp", "x.jsonl", name + ".bak", name + "~"} {
		writeFile(t, filepath.Join(shard, stray), []byte("stray"))
	}
	if rows, _, err := f.List(t.Context(), "", 10); err != nil || len(rows) != 1 {
		t.Errorf("rows are %+v, %v", rows, err)
	}
	if n, err := CountSessions(dir); err != nil || n != 1 {
		t.Errorf("%d sessions, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// A stale temporary file of a process that died does not stop a rewrite.
	writeFile(t, filepath.Join(shard, name), dropLastLine(readFile(t, path)))
	if err := os.Truncate(lockOf(dir, "s"), 0); err != nil {
		t.Fatal(err)
	}
	if got := mustTurn(t, openStore(t, dir, Options{}), "s", "", "in", "out"); got.Number != 2 {
		t.Errorf("turn %d", got.Number)
	}
	if _, err := os.Stat(filepath.Join(shard, "."+name[:nameLength]+".tmp")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stale temporary file: %v", err)
	}
}

func dropLastLine(data []byte) []byte {
	i := len(data) - 2
	for data[i] != '\n' {
		i--
	}
	return data[:i+1]
}
