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
