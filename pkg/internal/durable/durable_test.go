package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
)

func root(t *testing.T) (*durabletest.FS, string) {
	t.Helper()
	dir := t.TempDir()
	inner, err := durable.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	return durabletest.New(inner), dir
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = string(b)
	}
	return got
}

func TestWriteGoesThroughItsStepsInOrder(t *testing.T) {
	t.Parallel()
	fsys, dir := root(t)
	if err := os.WriteFile(filepath.Join(dir, ".f.tmp"), []byte("stale"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := func() error {
		if _, err := fsys.Stat("before", "f"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the name shows the file too early: %v", err)
		}
		return nil
	}
	placed, err := durable.Write(fsys, "f", []byte("new"), durable.WriteOptions{Place: durable.CreateFile, Temp: ".f.tmp", BeforePlace: before})
	if !placed || err != nil {
		t.Fatalf("placed %v, %v", placed, err)
	}
	want := []durable.Op{"create.clean", "create.open", "create.write", "create.check", "create.sync", "before", "create.rename", "create.dirsync"}
	if ops := fsys.Ops(); !slices.Equal(ops, want) {
		t.Errorf("operations are %v, want %v", ops, want)
	}
	if got := contents(t, dir); len(got) != 1 || got["f"] != "new" {
		t.Errorf("files are %v", got)
	}
	info, err := os.Stat(filepath.Join(dir, "f"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

func TestWriteThatFailsLeavesTheOldFile(t *testing.T) {
	t.Parallel()
	for _, op := range []durable.Op{"create.clean", "create.open", "create.write", "create.check", "create.sync", "create.rename", "create.dirsync"} {
		for _, fault := range []durabletest.Fault{{Op: op, Err: syscall.EIO, Nth: 1}, {Op: op, Err: syscall.ENOSPC, Nth: 1, Written: 1}} {
			fsys, dir := root(t)
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			fsys.Fail(fault)
			placed, err := durable.Write(fsys, "f", []byte("new"), durable.WriteOptions{Place: durable.CreateFile, Temp: ".f.tmp"})
			if !errors.Is(err, fault.Err) {
				t.Errorf("%s: error is %v", op, err)
			}
			want := "old"
			if op == durable.OpCreateDirSync {
				want = "new"
			}
			if placed != (want == "new") {
				t.Errorf("%s: placed is %v", op, placed)
			}
			if got := contents(t, dir); len(got) != 1 || got["f"] != want {
				t.Errorf("%s: files are %v", op, got)
			}
		}
	}
}

func TestWriteNoReplaceKeepsTheWinner(t *testing.T) {
	t.Parallel()
	fsys, dir := root(t)
	o := durable.WriteOptions{Place: durable.VolumeFile, Temp: ".f.tmp", NoReplace: true}
	if placed, err := durable.Write(fsys, "f", []byte("first"), o); !placed || err != nil {
		t.Fatal(placed, err)
	}
	if placed, err := durable.Write(fsys, "f", []byte("second"), o); placed || !errors.Is(err, fs.ErrExist) {
		t.Fatal(placed, err)
	}
	if got := contents(t, dir); len(got) != 1 || got["f"] != "first" {
		t.Errorf("files are %v", got)
	}
}

// TestC33 asserts that a temporary file never comes from another directory.
func TestC33_TempIsBesideItsFile(t *testing.T) {
	t.Parallel()
	fsys, dir := root(t)
	_, err := durable.Write(fsys, "f", nil, durable.WriteOptions{Place: durable.CreateFile, Temp: "other/.f.tmp"})
	if err == nil || len(contents(t, dir)) != 0 {
		t.Fatal("a temporary file in another directory was taken")
	}
}

func TestNothingIsReachableOutsideOfTheRoot(t *testing.T) {
	t.Parallel()
	fsys, dir := root(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../x", "/x", "link/x", "a/../../x"} {
		if _, err := fsys.Open("x", name, os.O_RDWR|os.O_CREATE); err == nil {
			t.Errorf("opened %q", name)
		}
		if err := fsys.Mkdir("x", name); err == nil {
			t.Errorf("made %q", name)
		}
	}
	if got := contents(t, outside); len(got) != 0 {
		t.Errorf("outside there is %v", got)
	}
}

func TestPreallocateLeavesTheSize(t *testing.T) {
	t.Parallel()
	fsys, _ := root(t)
	f, err := fsys.Open("x", "f", os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Preallocate("x", 0, 64<<10); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	if info, err := f.Stat("x"); err != nil || info.Size != 0 {
		t.Fatalf("size is %d, %v", info.Size, err)
	}
	if err := f.Datasync("x"); err != nil {
		t.Fatal(err)
	}
}

func TestLocksExclude(t *testing.T) {
	t.Parallel()
	fsys, _ := root(t)
	var files [3]durable.File
	for i := range files {
		f, err := fsys.Open("x", "f", os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = f
	}
	try := func(i int, mode durable.LockMode, want bool) {
		t.Helper()
		if ok, err := files[i].TryLock("x", mode); err != nil || ok != want {
			t.Fatalf("lock %d: %v, %v; want %v", i, ok, err, want)
		}
	}
	try(0, durable.Exclusive, true)
	try(1, durable.Exclusive, false)
	try(1, durable.Shared, false)
	got := make(chan error)
	go func() { got <- files[2].Lock("x") }()
	if err := files[0].Close(); err != nil { // closing gives a lock back
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	try(1, durable.Shared, false)
	if err := files[2].Unlock("x"); err != nil {
		t.Fatal(err)
	}
	try(1, durable.Shared, true)
	try(2, durable.Shared, true)
}

func TestMakeRootMakesParents(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b c", "d")
	for range 2 {
		if err := durable.MakeRoot(dir); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("mode is %v, %v", info.Mode(), err)
	}
}

func TestReadAllReadsWhatIsThere(t *testing.T) {
	t.Parallel()
	fsys, dir := root(t)
	for _, size := range []int{0, 1, 511, 512, 100_000} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), want, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := durable.ReadFile(fsys, "x", "f")
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d bytes of %d, %v", len(got), size, err)
		}
	}
}

// TestIsTellsFilesApart: yes only for the file that is open, with its size, by
// its own name.
func TestIsTellsFilesApart(t *testing.T) {
	t.Parallel()
	fsys, dir := root(t)
	outside := t.TempDir()
	file := filepath.Join(dir, "d", "f")
	for _, err := range []error{
		os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("five5"), 0o600), os.Symlink("f", file+"-link"),
		os.WriteFile(filepath.Join(outside, "f"), []byte("five5"), 0o600), os.Symlink(outside, filepath.Join(dir, "out")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := fsys.Open("x", "d/f", os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat("x")
	if err != nil {
		t.Fatal(err)
	}
	is := func(name string, size int64, want bool, wantErr error) {
		t.Helper()
		got, err := fsys.Is("is", name, info.ID, size)
		if got != want || !errors.Is(err, wantErr) {
			t.Errorf("%q with %d bytes: %v, %v", name, size, got, err)
		}
	}
	is("d/f", 5, true, nil)
	is("d/f", 6, false, nil)
	is("d/f-link", 5, false, nil)
	is("d/missing", 5, false, fs.ErrNotExist)
	if _, err := fsys.Is("is", "out/f", info.ID, 5); err == nil {
		t.Error("looked outside of the root")
	}
	if err := os.WriteFile(file+"2", []byte("five5"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+"2", file); err != nil {
		t.Fatal(err)
	}
	is("d/f", 5, false, nil)
	fsys.Ops()
	fsys.Fail(durabletest.Fault{Op: "is", Err: syscall.EIO})
	is("d/f", 5, false, syscall.EIO)
	if ops := fsys.Ops(); !slices.Equal(ops, []durable.Op{"is"}) {
		t.Errorf("operations are %v", ops)
	}
}
