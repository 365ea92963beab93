package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// A replica holds the lock of replica/<uuid>.lock for as long as it lives, so
// everybody can tell whether it does, without a lease and without a clock.
// open/<uuid>/ has an entry for each session in which it may have a turn that
// was begun and has not ended: where to look when it died. An entry too many
// costs a look at a file; making and removing one for every turn would double
// the cost of the turn's fdatasync, so it stays while the session stays loaded.

func (r *reader) replicaLock(uuid string) string {
	return r.dir() + "/" + replicasDir + "/" + uuid + lockSuffix
}

func (r *reader) openList(uuid string) string { return r.dir() + "/" + openDir + "/" + uuid }

// alive reports whether a replica's process lives. In doubt it does: a wrong
// "dead" would call a turn failed that is about to be committed.
func (r *reader) alive(uuid string) bool {
	if !validUUID(uuid) {
		return false
	}
	f, err := r.root.Open(durable.OpReplicaOpen, r.replicaLock(uuid), os.O_RDONLY)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	free, err := f.TryLock(durable.OpReplicaLock, durable.Shared) // shared: two who look must not take each other for the replica
	return err != nil || !free
}

// live takes this replica's life lock and makes its list. The lock file gets
// its name only when it is locked, so nobody ever finds it free too early.
func (f *File) live() error {
	name := f.replicaLock(f.replica)
	temp := f.under(replicasDir) + "/." + f.replica + tempSuffix
	const tries = 3 // a sweep may take the temporary file for a dead one's
	for try := 1; ; try++ {
		lock, err := f.root.Open(durable.OpReplicaOpen, temp, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return err
		}
		ok, err := lock.TryLock(durable.OpReplicaLock, durable.Exclusive)
		if err == nil && ok {
			err = f.root.Rename(durable.OpReplicaRename, temp, name)
		}
		if err == nil && ok {
			f.life = lock
			break
		}
		_ = lock.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if try == tries {
			return fmt.Errorf("cannot take the lock %q", name)
		}
	}
	if err := f.root.SyncDir(durable.OpReplicaSync, f.under(replicasDir)); err != nil {
		return err
	}
	return durable.EnsureDir(f.root, durable.OpReplicaDir, durable.OpReplicaSync, f.openList(f.replica))
}

// note makes the entry of a session, before its first turn begins here. The
// caller has the queue.
func (f *File) note(e *entry) error {
	if e.noted {
		return nil
	}
	file, err := f.root.Open(durable.OpEntryAdd, f.openList(f.replica)+"/"+e.who.name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	e.noted = true
	return file.Close()
}

// unnote removes the entry: no turn of the session is open here. The caller has
// the queue.
func (f *File) unnote(e *entry) {
	if e.noted && f.bare.Remove(durable.OpEntryRemove, f.openList(f.replica)+"/"+e.who.name) == nil {
		e.noted = false // otherwise it stays, and says only where to look
	}
}

// die gives the life lock back. What is left behind are the entries of turns
// that this replica did not end; without any, nothing is.
func (f *File) die() {
	if f.life == nil {
		return
	}
	if f.root.Remove(durable.OpReplicaRemove, f.openList(f.replica)) == nil { // fails when it has entries
		_ = f.root.Remove(durable.OpReplicaRemove, f.replicaLock(f.replica))
	}
	_ = f.life.Close()
	f.life = nil
}

// sweep clears away what dead replicas left, as far as it is of no more use: an
// entry without an unfinished turn, a list without entries, the lock of a
// replica without a list. It is housekeeping: what fails is left for next time.
func (f *File) sweep() {
	names, err := listDir(f.root, f.under(replicasDir))
	if err != nil {
		f.log.Warn("dead replicas were not swept", "error", err)
		return
	}
	for _, name := range names {
		if uuid, ok := strings.CutSuffix(name, lockSuffix); ok && validUUID(uuid) {
			f.sweepIfDead(name, uuid)
		} else if strings.HasSuffix(name, tempSuffix) {
			f.sweepIfDead(name, "")
		}
	}
	// A power cut may have taken a lock file and left its list.
	lists, err := listDir(f.root, f.under(openDir))
	if err != nil {
		return
	}
	for _, uuid := range lists {
		if uuid != f.replica && !f.alive(uuid) {
			f.sweepList(uuid)
		}
	}
}

func (f *File) sweepIfDead(name, uuid string) {
	if uuid == f.replica {
		return
	}
	path := f.under(replicasDir) + "/" + name
	lock, err := f.root.Open(durable.OpReplicaOpen, path, os.O_RDWR)
	if err != nil {
		return
	}
	defer lock.Close()
	if dead, err := lock.TryLock(durable.OpReplicaLock, durable.Exclusive); err != nil || !dead {
		return
	}
	if uuid == "" || f.sweepList(uuid) {
		_ = f.root.Remove(durable.OpReplicaRemove, path)
	}
}

// sweepList reports whether nothing is left of a dead replica's list.
func (f *File) sweepList(uuid string) bool {
	list := f.openList(uuid)
	names, err := listDir(f.root, list)
	if err != nil {
		return false
	}
	left := 0
	for _, name := range names {
		if !validName(name) || f.unfinished(name) || f.root.Remove(durable.OpReplicaRemove, list+"/"+name) != nil {
			left++
		}
	}
	if left > 0 {
		return false
	}
	err = f.root.Remove(durable.OpReplicaRemove, list)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

// unfinished reports whether a session has, or may have, a begun turn without
// an end.
func (f *File) unfinished(name string) bool {
	w := f.named(name)
	l, _, err := f.load(w)
	if errors.Is(err, ErrNoSession) {
		return false
	}
	if err != nil {
		return true
	}
	s, err := l.replay(w, true)
	return err != nil || s.open >= 0
}
