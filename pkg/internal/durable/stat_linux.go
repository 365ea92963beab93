package durable

import (
	"io/fs"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// What package syscall does not name. The number is the same on every
// architecture.
const (
	sysOpenat2    = 437
	openPath      = 0x200000 // O_PATH
	resolveBelow  = 0x08     // RESOLVE_BENEATH: also no link out of the root
	resolvePlain  = 0x02     // RESOLVE_NO_MAGICLINKS
	openHowLength = 24
)

// quietly opens files so that reading them does not write down when: a turn
// reads its hint after the one before it wrote it. Only a file's owner may.
const quietly = syscall.O_NOATIME

// openHow is struct open_how of openat2(2).
type openHow struct{ flags, mode, resolve uint64 }

// lstat is [os.Root.Lstat], which opens every directory on the way: a turn looks
// twice whether its file is still the one that has its name, and that took a
// tenth of it. The kernel walks the same way, under the same rule, in one call.
// Where it cannot, or is not let, os.Root does.
func (r *rootFS) lstat(name string) (Info, error) {
	fd, err := r.openPath(name)
	switch err {
	case nil:
	case syscall.ENOENT, syscall.EMFILE, syscall.ENFILE:
		return Info{}, &fs.PathError{Op: "lstat", Path: name, Err: err}
	default:
		return infoOf(r.root.Lstat(name))
	}
	var st syscall.Stat_t
	err = syscall.Fstat(fd, &st)
	_ = syscall.Close(fd) // of a path there is nothing to lose
	mode := fs.FileMode(st.Mode) & fs.ModePerm
	switch kind := st.Mode & syscall.S_IFMT; {
	case err != nil || kind != syscall.S_IFREG && kind != syscall.S_IFDIR || st.Mode&^(syscall.S_IFMT|uint32(fs.ModePerm)) != 0:
		return infoOf(r.root.Lstat(name)) // the rare ones
	case kind == syscall.S_IFDIR:
		mode |= fs.ModeDir
	}
	return Info{
		ID: fileID(&st), Size: st.Size, Disk: st.Blocks * block,
		ModTime: time.Unix(st.Mtim.Unix()), Mode: mode, UID: int(st.Uid),
	}, nil
}

// openPath makes a descriptor that can be described and nothing else.
func (r *rootFS) openPath(name string) (fd int, err error) {
	path, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	how := openHow{flags: openPath | syscall.O_NOFOLLOW | syscall.O_CLOEXEC, resolve: resolveBelow | resolvePlain}
	conn, err := r.self.SyscallConn()
	if err != nil {
		return -1, err
	}
	var errno syscall.Errno
	err = conn.Control(func(dir uintptr) {
		var got uintptr
		got, _, errno = syscall.Syscall6(sysOpenat2, dir, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&how)), openHowLength, 0, 0)
		fd = int(got)
	})
	runtime.KeepAlive(path)
	if err == nil && errno != 0 {
		err = errno
	}
	return fd, err
}

const (
	statxID     = 0x100 // STATX_INO
	statxSize   = 0x200 // STATX_SIZE
	lookAtLinks = 0x100 // AT_SYMLINK_NOFOLLOW
)

// statx is struct statx of statx(2), as far as it is of use here.
type statx struct {
	mask         uint32
	_            [28]byte
	ino, size    uint64
	_            [88]byte
	major, minor uint32 // of the device
	_            [112]byte
}

// sysStatx is the number of statx, 0 where it is not known here.
func sysStatx() uintptr {
	switch runtime.GOARCH {
	case "amd64":
		return 332
	case "arm64", "riscv64", "loong64":
		return 291
	}
	return 0
}

// look says what a name stands for, in one call, whatever way leads to it. It
// asks for no times: to a kernel that was asked for them the next write must be
// at another time, which costs that write as much as the look.
func (r *rootFS) look(name string) (id FileID, size int64, ok bool) {
	number := sysStatx()
	path, err := syscall.BytePtrFromString(name)
	if err != nil || number == 0 {
		return id, 0, false
	}
	conn, err := r.self.SyscallConn()
	if err != nil {
		return id, 0, false
	}
	var st statx
	err = conn.Control(func(dir uintptr) {
		_, _, errno := syscall.Syscall6(number, dir, uintptr(unsafe.Pointer(path)), lookAtLinks, statxID|statxSize, uintptr(unsafe.Pointer(&st)), 0)
		ok = errno == 0 && st.mask&statxID != 0 && st.mask&statxSize != 0
	})
	runtime.KeepAlive(path)
	// The device as stat(2) has it.
	major, minor := uint64(st.major), uint64(st.minor)
	id = FileID{Device: minor&0xff | major<<8 | minor&^0xff<<12, Inode: st.ino}
	return id, int64(st.size), ok && err == nil
}
