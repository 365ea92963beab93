// Package durable is the only door to the file system for flisk's store: a
// small interface over one directory tree, with the operations that decide
// whether a conversation survives (fdatasync, directory fsync, rename, flock)
// and the routines that put them in the right order.
//
// [OpenRoot] gives the real thing. Every call carries an [Op], the name of the
// place in the store that makes it, so that a test can fail exactly that place
// (package durabletest) or watch the order of all of them.
//
// Names are slash-separated paths below the root. Nothing outside the root can
// be reached, also not through a symbolic link: os.Root is underneath. Files
// are made with mode 0600, directories with 0700.
package durable

import (
	"io/fs"
	"time"
)

// FS is a directory tree. All methods may be called at once. Errors are those
// of package os: test them with errors.Is against fs.ErrNotExist and friends or
// a syscall.Errno.
type FS interface {
	// Open opens a file with the flags of os.OpenFile.
	Open(op Op, name string, flag int) (File, error)
	// Mkdir makes one directory; its parent must exist.
	Mkdir(op Op, name string) error
	// Remove removes a file or an empty directory.
	Remove(op Op, name string) error
	// Rename replaces the new name atomically.
	Rename(op Op, from, to string) error
	// Link gives a file a second name. An existing name is fs.ErrExist.
	Link(op Op, from, to string) error
	// Stat describes what a name stands for, without following a link.
	Stat(op Op, name string) (Info, error)
	// Is reports whether a name stands for a file that the caller has open, by
	// its id, and the file has a size. It is Stat and a comparison, and costs less
	// than Stat when the answer is yes.
	Is(op Op, name string, id FileID, size int64) (bool, error)
	// ReadDir lists the names in a directory, sorted.
	ReadDir(op Op, name string) ([]string, error)
	// SyncDir makes the entries of a directory durable.
	SyncDir(op Op, name string) error
	// Type names the kind of file system below the root.
	Type() (FSType, error)
	// Close releases the root. Files that are open stay open.
	Close() error
}

// File is an open file. ReadAt and WriteAt may be called at once; the other
// methods are for one goroutine, except that Lock may wait in its own.
type File interface {
	// ReadAt reads as io.ReaderAt does.
	ReadAt(op Op, p []byte, off int64) (int, error)
	// WriteAt writes as io.WriterAt does, in one system call where the kernel
	// takes all of p at once. An error may come after part of p was written.
	WriteAt(op Op, p []byte, off int64) (int, error)
	Truncate(op Op, size int64) error
	// Sync makes contents and metadata durable. After an error the file must
	// not be synced again: the kernel has marked the lost pages clean, and the
	// next call would succeed.
	Sync(op Op) error
	// Datasync makes contents and size durable. As for Sync, never again after
	// an error.
	Datasync(op Op) error
	// Preallocate reserves n bytes of disk from off on and leaves the size
	// alone. errors.ErrUnsupported where that does not exist.
	Preallocate(op Op, off, n int64) error
	Stat(op Op) (Info, error)
	// TryLock takes the advisory lock of the file if that is possible at once.
	TryLock(op Op, mode LockMode) (bool, error)
	// Lock waits for the exclusive lock. Nothing interrupts the wait.
	Lock(op Op) error
	// Unlock gives the lock back; so do Close and the death of the process.
	Unlock(op Op) error
	Close() error
}

// LockMode says whom a lock keeps out.
type LockMode int

// The modes of a lock.
const (
	Exclusive LockMode = iota // everybody
	Shared                    // exclusive holders
)

// FileID tells files apart. An id is not used again while the file is open;
// after that it may be, so it must not be remembered for longer.
type FileID struct{ Device, Inode uint64 }

// Info describes a file.
type Info struct {
	ID      FileID
	Size    int64
	Disk    int64 // bytes that it takes on disk, with what is reserved behind its end
	ModTime time.Time
	Mode    fs.FileMode
	UID     int // owner
}

// FSType is the kind of a file system, as far as the store cares.
type FSType string

// Kinds that the store treats in a special way.
const (
	OtherFS   FSType = ""
	TmpFS     FSType = "tmpfs"     // lost when the host restarts
	OverlayFS FSType = "overlayfs" // a container's own layer: lost with the container
	NetworkFS FSType = "a network file system"
)
