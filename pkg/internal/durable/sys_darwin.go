package durable

import (
	"errors"
	"fmt"
	"syscall"
)

// Datasync is Sync: darwin's fdatasync does not reach the platter, and
// os.File.Sync asks for F_FULLFSYNC, which does.
func (f *rootFile) Datasync(Op) error { return f.f.Sync() }

// Preallocate is not worth F_PREALLOCATE: it only makes a full disk known
// earlier, and a commit that meets one is cut back all the same.
func (f *rootFile) Preallocate(Op, int64, int64) error {
	return fmt.Errorf("preallocate: %w", errors.ErrUnsupported)
}

// mntLocal is MNT_LOCAL, which package syscall does not name.
const mntLocal = 0x1000

func fsType(dir string) (FSType, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return OtherFS, fmt.Errorf("statfs %q: %w", dir, err)
	}
	if st.Flags&mntLocal == 0 {
		return NetworkFS, nil
	}
	return OtherFS, nil
}
