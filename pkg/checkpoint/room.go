package checkpoint

import (
	"errors"
	"syscall"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// idleLimit is how many sessions may stay loaded when nobody holds them, in a
// process that may have so many files open: each has two, and the most of them
// must be left for those that are held, and for clients.
func idleLimit(want, files int) int {
	const each, share = 2, 4
	return max(1, min(want, files/(each*share)))
}

// roomyFS tries a call once more after room was made, when it fails because the
// process or the host has no descriptor left. Even calls that open nothing for
// long need one: a path is walked directory by directory.
type roomyFS struct {
	durable.FS
	makeRoom func() bool // reports whether it closed anything
}

// again reports whether a call that failed with err is worth a second try.
func (r roomyFS) again(err error) bool {
	return (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && r.makeRoom()
}

func (r roomyFS) try(call func() error) error {
	err := call()
	if r.again(err) {
		err = call()
	}
	return err
}

func (r roomyFS) Open(op durable.Op, name string, flag int) (f durable.File, err error) {
	err = r.try(func() error { f, err = r.FS.Open(op, name, flag); return err })
	return f, err
}

func (r roomyFS) Mkdir(op durable.Op, name string) error {
	return r.try(func() error { return r.FS.Mkdir(op, name) })
}

func (r roomyFS) Remove(op durable.Op, name string) error {
	return r.try(func() error { return r.FS.Remove(op, name) })
}

func (r roomyFS) Rename(op durable.Op, from, to string) error {
	return r.try(func() error { return r.FS.Rename(op, from, to) })
}

func (r roomyFS) Stat(op durable.Op, name string) (info durable.Info, err error) {
	err = r.try(func() error { info, err = r.FS.Stat(op, name); return err })
	return info, err
}

func (r roomyFS) Is(op durable.Op, name string, id durable.FileID, size int64) (is bool, err error) {
	if is, err = r.FS.Is(op, name, id, size); r.again(err) { // each turn asks: no closure
		is, err = r.FS.Is(op, name, id, size)
	}
	return is, err
}

func (r roomyFS) ReadDir(op durable.Op, name string) (names []string, err error) {
	err = r.try(func() error { names, err = r.FS.ReadDir(op, name); return err })
	return names, err
}

func (r roomyFS) SyncDir(op durable.Op, name string) error {
	return r.try(func() error { return r.FS.SyncDir(op, name) })
}

// makeRoom closes the older half of the sessions that nobody holds.
func (f *File) makeRoom() bool {
	f.mu.Lock()
	var victims []*entry
	for n := (f.idle.Len() + 1) / 2; n > 0; n-- {
		victim := f.idle.Back().Value.(*entry)
		f.refLocked(victim)
		victims = append(victims, victim)
	}
	f.mu.Unlock()
	for _, v := range victims {
		f.evict(v)
	}
	return len(victims) > 0
}
