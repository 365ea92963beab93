// Package durabletest is the twin of a durable.FS that tests drive: it writes
// down every operation and fails the ones it is told to.
package durabletest

import (
	"slices"
	"sync"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// Fault says which calls fail and how.
type Fault struct {
	Op  durable.Op // "" is every operation
	Nth int        // the call of that operation that fails, counted from 1 when the fault was added; 0 fails all
	Err error
	// Written is how much of a write reaches the file before it fails. A
	// negative number keeps that many bytes back.
	Written int
	// Done runs the call for real and then fails: an fsync that did its work
	// and lost the answer.
	Done bool
}

// FS passes calls on to another FS. All methods may be called at once.
type FS struct {
	durable.FS

	mu     sync.Mutex
	faults []*armed
	ops    []durable.Op
}

type armed struct {
	Fault
	seen int
}

// New wraps a file system.
func New(inner durable.FS) *FS { return &FS{FS: inner} }

// Fail adds a fault.
func (f *FS) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &armed{Fault: fault})
}

// Heal removes all faults.
func (f *FS) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Ops returns the operations since the last call of Ops, in order.
func (f *FS) Ops() []durable.Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	ops := f.ops
	f.ops = nil
	return ops
}

// Count says how many calls of an operation are in a list.
func Count(ops []durable.Op, op durable.Op) int {
	n := 0
	for _, o := range ops {
		if o == op {
			n++
		}
	}
	return n
}

// Only keeps the operations that are named.
func Only(ops []durable.Op, keep ...durable.Op) []durable.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op durable.Op) bool { return !slices.Contains(keep, op) })
}

// hit notes a call and returns the fault that it meets, or nil.
func (f *FS) hit(op durable.Op) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, op)
	var met *Fault
	for _, a := range f.faults {
		if a.Op != "" && a.Op != op {
			continue
		}
		a.seen++
		if met == nil && (a.Nth == 0 || a.Nth == a.seen) {
			met = &a.Fault
		}
	}
	return met
}

// do runs a call that either happens or does not.
func (f *FS) do(op durable.Op, call func() error) error {
	fault := f.hit(op)
	if fault == nil {
		return call()
	}
	if fault.Done {
		_ = call()
	}
	return fault.Err
}

// Open passes on or fails.
func (f *FS) Open(op durable.Op, name string, flag int) (durable.File, error) {
	if fault := f.hit(op); fault != nil {
		return nil, fault.Err
	}
	inner, err := f.FS.Open(op, name, flag)
	if err != nil {
		return nil, err
	}
	return &file{inner, f}, nil
}

// Mkdir passes on or fails.
func (f *FS) Mkdir(op durable.Op, name string) error {
	return f.do(op, func() error { return f.FS.Mkdir(op, name) })
}

// Remove passes on or fails.
func (f *FS) Remove(op durable.Op, name string) error {
	return f.do(op, func() error { return f.FS.Remove(op, name) })
}

// Rename passes on or fails.
func (f *FS) Rename(op durable.Op, from, to string) error {
	return f.do(op, func() error { return f.FS.Rename(op, from, to) })
}

// Link passes on or fails.
func (f *FS) Link(op durable.Op, from, to string) error {
	return f.do(op, func() error { return f.FS.Link(op, from, to) })
}

// SyncDir passes on or fails.
func (f *FS) SyncDir(op durable.Op, name string) error {
	return f.do(op, func() error { return f.FS.SyncDir(op, name) })
}

// Stat passes on or fails.
func (f *FS) Stat(op durable.Op, name string) (info durable.Info, err error) {
	err = f.do(op, func() error { info, err = f.FS.Stat(op, name); return err })
	return info, err
}

// Is passes on or fails.
func (f *FS) Is(op durable.Op, name string, id durable.FileID, size int64) (is bool, err error) {
	err = f.do(op, func() error { is, err = f.FS.Is(op, name, id, size); return err })
	return is, err
}

// ReadDir passes on or fails.
func (f *FS) ReadDir(op durable.Op, name string) (names []string, err error) {
	err = f.do(op, func() error { names, err = f.FS.ReadDir(op, name); return err })
	return names, err
}

// file is the twin of an open file. Close is neither noted nor failed: it is
// no operation of the store's, but of the process.
type file struct {
	durable.File
	fs *FS
}

func (f *file) ReadAt(op durable.Op, p []byte, off int64) (n int, err error) {
	err = f.fs.do(op, func() error { n, err = f.File.ReadAt(op, p, off); return err })
	return n, err
}

func (f *file) WriteAt(op durable.Op, p []byte, off int64) (int, error) {
	fault := f.fs.hit(op)
	if fault == nil {
		return f.File.WriteAt(op, p, off)
	}
	n := min(len(p), fault.Written)
	if n < 0 {
		n = max(0, len(p)+n)
	}
	if fault.Done {
		n = len(p)
	}
	if n > 0 {
		if n, err := f.File.WriteAt(op, p[:n], off); err != nil {
			return n, err
		}
	}
	return n, fault.Err
}

func (f *file) Truncate(op durable.Op, size int64) error {
	return f.fs.do(op, func() error { return f.File.Truncate(op, size) })
}

func (f *file) Sync(op durable.Op) error {
	return f.fs.do(op, func() error { return f.File.Sync(op) })
}

func (f *file) Datasync(op durable.Op) error {
	return f.fs.do(op, func() error { return f.File.Datasync(op) })
}

func (f *file) Preallocate(op durable.Op, off, n int64) error {
	return f.fs.do(op, func() error { return f.File.Preallocate(op, off, n) })
}

func (f *file) Stat(op durable.Op) (info durable.Info, err error) {
	err = f.fs.do(op, func() error { info, err = f.File.Stat(op); return err })
	return info, err
}

func (f *file) TryLock(op durable.Op, mode durable.LockMode) (ok bool, err error) {
	err = f.fs.do(op, func() error { ok, err = f.File.TryLock(op, mode); return err })
	return ok, err
}

func (f *file) Lock(op durable.Op) error {
	return f.fs.do(op, func() error { return f.File.Lock(op) })
}

func (f *file) Unlock(op durable.Op) error {
	return f.fs.do(op, func() error { return f.File.Unlock(op) })
}
