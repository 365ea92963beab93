package durable

import (
	"errors"
	"fmt"
	"syscall"
)

// keepSize is FALLOC_FL_KEEP_SIZE, which package syscall does not name.
const keepSize = 1

func (f *rootFile) Datasync(Op) error {
	return f.control("fdatasync", syscall.Fdatasync)
}

func (f *rootFile) Preallocate(_ Op, off, n int64) error {
	err := f.control("fallocate", func(fd int) error { return syscall.Fallocate(fd, keepSize, off, n) })
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return fmt.Errorf("fallocate: %w", errors.ErrUnsupported)
	}
	return err
}

// Magic numbers of statfs(2).
const (
	magicTmpFS   = 0x01021994
	magicRamFS   = 0x858458f6
	magicOverlay = 0x794c7630
	magicNFS     = 0x6969
	magicSMB2    = 0xfe534d42
	magicCIFS    = 0xff534d42
)

func fsType(dir string) (FSType, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return OtherFS, fmt.Errorf("statfs %q: %w", dir, err)
	}
	switch uint32(st.Type) { // the kernel's field is 32 bits, sign-extended on some machines
	case magicTmpFS, magicRamFS:
		return TmpFS, nil
	case magicOverlay:
		return OverlayFS, nil
	case magicNFS, magicSMB2, magicCIFS:
		return NetworkFS, nil
	}
	return OtherFS, nil
}
