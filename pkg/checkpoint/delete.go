package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// Delete is [Store.Delete].
func (f *File) Delete(ctx context.Context, id string) error {
	if err := checkCall(ctx, id); err != nil {
		return err
	}
	if f.isClosed() {
		return ErrClosed
	}
	w := f.identify(id)
	if there, err := f.exists(w); err != nil || !there {
		if err == nil {
			err = ErrNoSession
		}
		return sessionError(id, err)
	}
	e, err := f.hold(ctx, id)
	if err != nil {
		return sessionError(id, err)
	}
	defer f.release(e)
	return sessionError(id, f.deleteHeld(e))
}

// exists makes no lock file for a session that was never there.
func (f *File) exists(w identity) (bool, error) {
	for _, name := range []string{w.path(), w.lock()} {
		_, err := f.root.Stat(durable.OpSessionStat, name)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, unavailable(w, err)
		}
	}
	return false, nil
}

// deleteHeld removes a session, damaged or not, and one of which only the hint
// is left. The hint comes first: from then on the file's absence is right.
func (f *File) deleteHeld(e *entry) error {
	h, err := f.lockedHint(e)
	if err != nil {
		return err
	}
	info, err := f.root.Stat(durable.OpSessionStat, e.who.path())
	if errors.Is(err, fs.ErrNotExist) && h.kind != hintSynced {
		return ErrNoSession
	}
	last := f.lastLine(e.who, h, info.Size)
	f.unload(e)
	if err := f.syncHint(e, hint{hintDeleted, last}); err != nil {
		return f.writeError(e.who, err)
	}
	if err := f.removeSession(e.who); err != nil {
		return f.writeError(e.who, err)
	}
	f.unnote(e)
	f.log.Info("a session was deleted", "session", e.who.session)
	return nil
}

// minLine is less than any line takes, in bytes.
const minLine = 100

// lastLine is the n of the last line in a session's file of the given size, or
// more when not all of it can be read: every line takes its bytes.
func (f *File) lastLine(w identity, h hint, size int64) uint64 {
	l := &fileLog{}
	if data, _, err := f.readSession(w); err == nil && l.readHeader(data, w) == nil {
		_, _ = l.readLines(data, w) // as far as it gets
	}
	return max(l.last, h.n) + uint64(max(0, size-int64(l.good)))/minLine
}

// removeSession removes what a deletion has announced: what a repair kept, and
// then the file itself.
func (f *File) removeSession(w identity) error {
	bad, err := listDir(f.root, f.under(badDir))
	if err != nil {
		return err
	}
	kept := 0
	for _, name := range bad {
		if strings.HasPrefix(name, w.name+".") {
			kept++
			if err := f.remove(f.under(badDir) + "/" + name); err != nil {
				return err
			}
		}
	}
	if kept > 0 {
		if err := f.root.SyncDir(durable.OpDeleteDirSync, f.under(badDir)); err != nil {
			return err
		}
	}
	if err := f.remove(w.path()); err != nil {
		return err
	}
	return f.root.SyncDir(durable.OpDeleteDirSync, path.Dir(w.path()))
}

func (f *File) remove(name string) error {
	err := f.root.Remove(durable.OpDeleteRemove, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// clearDeletion ends a deletion for good, before the id gets a file again.
func (f *File) clearDeletion(e *entry) error {
	h, err := f.lockedHint(e)
	if err != nil || h.kind != hintDeleted {
		return err
	}
	if err := f.removeSession(e.who); err != nil {
		return err
	}
	return f.syncHint(e, hint{hintNone, h.n})
}
