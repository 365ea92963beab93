package durable

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
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
