package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// sessionFile is a session that is loaded: its file, open, and what the file
// says. Without a file the session is new.
type sessionFile struct {
	state *state
	file  durable.File
	id    durable.FileID
	salt  []byte

	size     int64  // where the next line goes
	reserved int64  // up to where disk space was preallocated here
	found    bool   // whether more may be reserved: a process that was killed gave nothing back
	n        uint64 // of the last line
	synced   uint64 // the newest line that is known to be on disk

	scratch []byte // where lines are put together; nothing that is kept may point into it
}

// scratchMost is how much of a buffer for lines a loaded session keeps.
const scratchMost = 64 << 10

// appendLine adds the next line but skip to lines, which began in s.scratch.
func (s *sessionFile) appendLine(lines []byte, skip uint64, at time.Time, p payload) []byte {
	lines = appendLine(lines, s.salt, s.n+1+skip, s.synced, at, p)
	if cap(lines) <= scratchMost {
		s.scratch = lines[:0]
	}
	return lines
}

// line is the next line. It is overwritten by the one after it.
func (s *sessionFile) line(at time.Time, p payload) []byte {
	return s.appendLine(s.scratch[:0], 0, at, p)
}

// loadEntry returns the session whose lock was just taken. What is loaded still
// holds when the name stands for the file that is open here, nobody has appended
// to it, and nobody has announced its deletion: then only the hint is read.
func (f *File) loadEntry(e *entry) (*sessionFile, error) {
	var ours bool
	var err error
	if e.file != nil {
		ours, err = f.root.Is(durable.OpSessionStat, e.path, e.file.id, e.file.size)
	} else {
		_, err = f.root.Stat(durable.OpSessionStat, e.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unavailable(e.who, err)
	}
	missing := err != nil
	h, err := f.lockedHint(e)
	if err != nil {
		return nil, err
	}
	if e.file != nil {
		if ours && h.kind != hintDeleted {
			return e.file, nil
		}
		f.unload(e)
	}
	if !missing && h.kind == hintDeleted {
		// Whoever deleted it did not come to the end.
		if err := f.removeSession(e.who); err != nil {
			return nil, f.writeError(e.who, err)
		}
		missing = true
	}
	if missing {
		if err := e.who.absent(h); err != nil {
			return nil, err
		}
		return &sessionFile{state: newState(e.who.session), n: h.n}, nil
	}
	file, err := f.loadFile(e, h)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.file = file
	e.mu.Unlock()
	return file, nil
}

// loadFile reads and judges a file, and repairs what a killed process leaves.
func (f *File) loadFile(e *entry, h hint) (*sessionFile, error) {
	file, err := f.root.Open(durable.OpSessionOpen, e.who.path(), os.O_RDWR)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, unavailable(e.who, err) // it was there a moment ago, and we have the lock
		}
		return nil, f.readWriteError(e.who, err)
	}
	s, err := f.judge(e, file, h)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return s, nil
}

func (f *File) judge(e *entry, file durable.File, h hint) (*sessionFile, error) {
	info, err := file.Stat(durable.OpSessionStat)
	if err != nil {
		return nil, unavailable(e.who, err)
	}
	data, err := durable.ReadAll(file, durable.OpSessionRead)
	if err != nil {
		return nil, unavailable(e.who, err)
	}
	l, err := recoverLog(data, e.who, h)
	if err != nil {
		return nil, err
	}
	state, err := l.replay(e.who, true)
	if err != nil {
		return nil, err
	}
	s := &sessionFile{state: state, file: file, id: info.ID, salt: l.salt, size: int64(l.good), n: l.last, synced: l.floor}
	s.found = info.Disk > info.Size+reserve/4 // more than the rest of its last block
	if len(l.cut) > 0 {
		sum := sha256.Sum256(l.cut)
		f.log.Warn("cut an unacknowledged end off a session file", "session", e.who.session, "path", e.who.path(),
			"at", l.good, "bytes", len(l.cut), "sha256", hex.EncodeToString(sum[:]))
	}
	if l.unmarked() {
		// Its process died between write and mark. It may be on disk or not, so
		// it is written again, surely, before anyone hears of it.
		f.log.Info("a commit without a mark is made sure", "session", e.who.session, "turn", state.committed)
		if err := f.rewrite(e, s, l.live(data, state)); err != nil {
			return nil, f.writeError(e.who, err)
		}
		f.markRewritten(e, s)
		return s, nil
	}
	if len(l.cut) > 0 {
		if err := file.Truncate(durable.OpCut, s.size); err != nil {
			return nil, f.readWriteError(e.who, err)
		}
	}
	if int64(l.good) <= l.head.Len {
		// Nobody has gone on since the file got its name, so nobody may have
		// synced the directory.
		if err := f.syncShard(e.who); err != nil {
			return nil, f.writeError(e.who, err)
		}
	}
	return s, nil
}

func (f *File) syncShard(w identity) error {
	return f.root.SyncDir(durable.OpShardSync, path.Dir(w.path()))
}

// readWriteError is for calls that fail on a read-only volume and give no
// answer otherwise.
func (f *File) readWriteError(w identity, err error) error {
	if err := f.writeError(w, err); errors.Is(err, ErrReadOnly) {
		return err
	}
	return unavailable(w, err)
}

// giveSpaceBack frees what was preallocated and not used, of a session that is
// not held. It takes the lock for that: a file that another process went on with
// must not be cut.
func (f *File) giveSpaceBack(e *entry) {
	s := e.file
	if s == nil || s.reserved <= s.size && !s.found || e.lock == nil {
		return
	}
	if ok, err := e.lock.TryLock(durable.OpLockTry, durable.Exclusive); err != nil || !ok {
		return
	}
	ours, err := f.bare.Is(durable.OpSessionStat, e.path, s.id, s.size)
	if err == nil && ours {
		_ = s.file.Truncate(durable.OpTrim, s.size) // the same size: only what is behind it goes
	}
	_ = e.lock.Unlock(durable.OpLockRelease)
}
