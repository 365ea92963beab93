package durable

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"syscall"
)

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

// OpenRoot opens an existing directory as the root of a tree.
func OpenRoot(dir string) (FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	self, err := root.Open(".")
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &rootFS{root, self, dir}, nil
}

// MakeRoot makes a directory, and those above it, where they are missing, and
// makes the new entries durable. It is the one call that works outside a root.
func MakeRoot(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := parentOf(dir)
	if parent != dir {
		if err := MakeRoot(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !os.IsExist(err) {
		return err
	}
	d, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// MaxOpenFiles is how many files this process may have open at once.
func MaxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 256 // what the most modest systems give
	}
	return int(min(limit.Cur, math.MaxInt32)) // "unlimited" is more
}

// rootFS is the real file system.
type rootFS struct {
	root *os.Root
	self *os.File // the root directory itself
	dir  string
}

func (r *rootFS) Open(_ Op, name string, flag int) (File, error) {
	quiet := flag
	if flag&os.O_EXCL == 0 { // a new file may not be ours either, and a second try would find it
		quiet |= quietly
	}
	f, err := r.root.OpenFile(name, quiet, fileMode)
	if errors.Is(err, syscall.EPERM) && quiet != flag {
		f, err = r.root.OpenFile(name, flag, fileMode) // somebody else's
	}
	if err != nil {
		return nil, err
	}
	return &rootFile{f}, nil
}

func (r *rootFS) Mkdir(_ Op, name string) error        { return r.root.Mkdir(name, dirMode) }
func (r *rootFS) Remove(_ Op, name string) error       { return r.root.Remove(name) }
func (r *rootFS) Rename(_ Op, from, to string) error   { return r.root.Rename(from, to) }
func (r *rootFS) Link(_ Op, from, to string) error     { return r.root.Link(from, to) }
func (r *rootFS) Type() (FSType, error)                { return fsType(r.dir) }
func (r *rootFS) Stat(_ Op, name string) (Info, error) { return r.lstat(name) }

// Is looks without the rule that no way may lead out of the root, which the
// kernel needs three calls for: whatever way led to the very file that is open,
// it is that file. Any other answer is judged by the rule.
func (r *rootFS) Is(_ Op, name string, id FileID, size int64) (bool, error) {
	if gotID, gotSize, ok := r.look(name); ok && gotID == id && gotSize == size {
		return true, nil
	}
	info, err := r.lstat(name)
	return err == nil && info.ID == id && info.Size == size, err
}

func (r *rootFS) Close() error { return errors.Join(r.self.Close(), r.root.Close()) }

func (r *rootFS) ReadDir(_ Op, name string) ([]string, error) {
	d, err := r.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (r *rootFS) SyncDir(_ Op, name string) error {
	d, err := r.root.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

// rootFile is a real file.
type rootFile struct{ f *os.File }

func (f *rootFile) ReadAt(_ Op, p []byte, off int64) (int, error)  { return f.f.ReadAt(p, off) }
func (f *rootFile) WriteAt(_ Op, p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *rootFile) Truncate(_ Op, size int64) error                { return f.f.Truncate(size) }
func (f *rootFile) Sync(Op) error                                  { return f.f.Sync() } // F_FULLFSYNC on darwin
func (f *rootFile) Stat(Op) (Info, error)                          { return infoOf(f.f.Stat()) }
func (f *rootFile) Close() error                                   { return f.f.Close() }

func (f *rootFile) TryLock(_ Op, mode LockMode) (bool, error) {
	how := syscall.LOCK_EX
	if mode == Shared {
		how = syscall.LOCK_SH
	}
	err := f.control("flock", func(fd int) error { return syscall.Flock(fd, how|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func (f *rootFile) Lock(Op) error {
	return f.control("flock", func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX) })
}

func (f *rootFile) Unlock(Op) error {
	return f.control("flock", func(fd int) error { return syscall.Flock(fd, syscall.LOCK_UN) })
}

// control runs a system call on the descriptor, again when a signal
// interrupted it, and keeps the descriptor from being closed meanwhile.
func (f *rootFile) control(name string, call func(fd int) error) error {
	conn, err := f.f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			if failed = call(int(fd)); failed != syscall.EINTR {
				return
			}
		}
	})
	if err == nil && failed != nil {
		err = &fs.PathError{Op: name, Path: f.f.Name(), Err: failed}
	}
	return err
}

// block is what a file's space is counted in, whatever the file system's own
// blocks are.
const block = 512

func fileID(st *syscall.Stat_t) FileID {
	return FileID{uint64(st.Dev), uint64(st.Ino)} // Dev is an int32 on darwin
}

func infoOf(info fs.FileInfo, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	out := Info{Size: info.Size(), ModTime: info.ModTime(), Mode: info.Mode()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out.ID = fileID(st)
		out.UID = int(st.Uid)
		out.Disk = st.Blocks * block
	}
	return out, nil
}
