package durable

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// TestLookSeesWhatStatSees: a look that always said no would only be slow.
func TestLookSeesWhatStatSees(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(statx{}); n != 256 {
		t.Fatalf("struct statx has %d bytes", n)
	}
	if sysStatx() == 0 {
		t.Skipf("not on %s", runtime.GOARCH)
	}
	dirs := []string{t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "flisk"); err == nil { // another device
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		dirs = append(dirs, dir)
	}
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 4711), 0o600); err != nil {
			t.Fatal(err)
		}
		fsys, err := OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = fsys.Close() })
		f, err := fsys.Open("x", "f", os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat("x")
		if err != nil {
			t.Fatal(err)
		}
		id, size, ok := fsys.(*rootFS).look("f")
		if !ok || id != info.ID || size != 4711 || size != info.Size {
			t.Errorf("look: %v, %d, %v; stat: %v, %d", id, size, ok, info.ID, info.Size)
		}
		if _, _, ok := fsys.(*rootFS).look("missing"); ok {
			t.Error("saw a file that is not there")
		}
	}
}

// TestFilesOfOthersAreOpened: only the owner of a file may read it without the
// time being noted, and everybody else reads it all the same. A superuser may
// do both.
func TestFilesOfOthersAreOpened(t *testing.T) {
	t.Parallel()
	fsys, err := OpenRoot("/etc")
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	f, err := fsys.Open("x", "passwd", os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := f.ReadAt("x", make([]byte, 1), 0); n != 1 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// TestReadingIsNotNoted: what a turn reads it does not write.
func TestReadingIsNotNoted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-240 * time.Hour) // so long ago that any reading would be noted
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	fsys, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	f, err := fsys.Open("x", "f", os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt("x", make([]byte, 1), 0); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if at := time.Unix(info.Sys().(*syscall.Stat_t).Atim.Unix()); at.After(long.Add(time.Hour)) {
		t.Errorf("read at %v", at)
	}
}
