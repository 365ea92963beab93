package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Disk space is reserved behind a file's end before a turn begins, so that a
// full volume is known before the model is paid for. While enough is left
// nothing is asked: asking every time costs a tenth of a turn.
//
// How much is asked for grows with the file. A file in many pieces has its list
// of pieces in a block of its own (on ext4, of more than four), which every
// fdatasync of a file that grew writes as well.
const (
	reserve      = 64 << 10 // what is asked for at least, and first
	reserveMost  = 1 << 20
	reserveTimes = 4           // so many times the size of the file, between the two
	reserveLeft  = reserve / 2 // with less than this, more is asked for
)

var (
	errReleased = errors.New("the session was released")
	errBegun    = errors.New("a turn is already begun")
	errNotBegun = errors.New("no turn is begun")
)

// held is a session as its holder sees it.
type held struct {
	state *state
	own   bool // the open turn was begun by this holder
}

// Checkpoint is [Session.Checkpoint].
func (h *held) Checkpoint() Checkpoint { return h.state.checkpoint() }

// ByKey is [Session.ByKey].
func (h *held) ByKey(key string) (Turn, bool) {
	i, ok := h.state.byKey[key]
	if !ok {
		return Turn{}, false
	}
	return h.state.turn(i, h.own), true
}

// Last is [Session.Last].
func (h *held) Last() (Turn, bool) {
	i := len(h.state.turns) - 1
	if i < 0 {
		return Turn{}, false
	}
	return h.state.turn(i, h.own), true
}

// Attach is [Session.Attach].
func (h *held) Attach(v any, bytes int64) { h.state.attached, h.state.attachedBytes = v, bytes }

// Attached is [Session.Attached].
func (h *held) Attached() any { return h.state.attached }

// fileSession is a session whose lock this process holds.
type fileSession struct {
	held
	f    *File
	e    *entry
	s    *sessionFile
	gone error // why nothing can be written any more
}

// Begin is [Session.Begin].
func (h *fileSession) Begin(b Begin) (Turn, error) {
	if h.gone != nil {
		return Turn{}, h.gone
	}
	if h.own {
		return Turn{}, errBegun
	}
	s := h.s
	start, err := s.state.start(h.e.who.name, s.n+1, b)
	if err != nil {
		return Turn{}, err
	}
	var first, second payload = start, attempt{Replica: h.f.replica, Number: 1}
	now := h.f.options.now()
	lines := s.line(now, first)
	split := len(lines)
	if split > writeLimit {
		return Turn{}, tooLarge("the input", split)
	}
	lines = s.appendLine(lines, 1, now, second)

	if s.file == nil {
		err = h.create(lines[:split], lines[split:])
	} else {
		err = h.appendBegin(lines)
	}
	if err != nil {
		return Turn{}, err
	}
	h.f.writable.Store(true)
	h.e.mu.Lock()
	_ = s.state.apply(s.n-1, first) // both fit: start made them
	_ = s.state.apply(s.n, second)
	h.e.file = s
	h.e.mu.Unlock()
	h.own = true
	t := s.state.turn(s.state.open, true)
	h.f.setRunning(h.e, t.ID)
	return t, nil
}

// appendBegin appends the two lines of a begin.
func (h *fileSession) appendBegin(lines []byte) error {
	if err := h.preallocate(len(lines)); err != nil {
		return h.f.writeError(h.e.who, err)
	}
	if err := h.f.note(h.e); err != nil {
		return h.f.writeError(h.e.who, err)
	}
	if err := h.append(durable.OpBeginWrite, lines, 2); err != nil {
		return h.f.writeError(h.e.who, err)
	}
	return nil
}

// create makes the session's file, with the first turn begun in it.
func (h *fileSession) create(lines ...[]byte) error {
	f, w, s := h.f, h.e.who, h.s
	if err := f.ensureShard(w); err != nil {
		return f.writeError(w, err)
	}
	if err := f.note(h.e); err != nil {
		return f.writeError(w, err)
	}
	before := s.n
	s.n += uint64(len(lines))
	next := image{who: w, salt: newSalt(), now: f.options.now(), state: s.state, last: before, live: lines}
	err := f.place(h.e, s, next.salt, next.encode(), durable.WriteOptions{
		Place: durable.CreateFile, Reserve: reserve,
		BeforePlace: func() error { return f.clearDeletion(h.e) },
	})
	if err == nil {
		return nil
	}
	// When it got its name and that may not be durable, nothing of it was
	// promised: take it away again.
	f.unnote(h.e)
	_ = f.root.Remove(durable.OpDeleteRemove, w.path())
	h.gone = f.writeError(w, err)
	return h.gone
}

// preallocate reserves disk space for n bytes and a reply of usual size. Where
// there is no room for what a file of this size may have, the least will do; and
// before there is none for that, idle sessions give back what they reserved.
func (h *fileSession) preallocate(n int) error {
	s := h.s
	end := s.size + int64(n)
	if s.reserved >= end+reserveLeft {
		return nil
	}
	want := min(max(reserve, reserveTimes*end), reserveMost)
	err := s.reserveUpTo(end + want)
	if err != nil && want > reserve {
		err = s.reserveUpTo(end + reserve)
	}
	for isFull(err) && h.f.makeRoom() {
		err = s.reserveUpTo(end + reserve)
	}
	return err
}

// isFull reports whether a volume has no space for what was asked.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// reserveUpTo reserves disk space up to an offset, where the file system can.
func (s *sessionFile) reserveUpTo(to int64) error {
	err := s.file.Preallocate(durable.OpPreallocate, s.size, to-s.size)
	switch {
	case err == nil:
		s.reserved = to
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	default:
		// A part of it may have been, and others need it more.
		if s.file.Truncate(durable.OpTrim, s.size) == nil {
			s.reserved = s.size
		} else {
			s.found = true
		}
	}
	return err
}

// append writes lines behind the last good one. After an error the file is cut
// back to what it was; when that fails too, nothing can be written any more.
func (h *fileSession) append(op durable.Op, lines []byte, count uint64) error {
	s := h.s
	_, err := s.file.WriteAt(op, lines, s.size)
	if err == nil {
		s.size += int64(len(lines))
		s.n += count
		return nil
	}
	if cut := s.file.Truncate(durable.OpCut, s.size); cut != nil {
		h.drop(fmt.Errorf("%w: %s: %w, and cutting it back: %w", ErrUnavailable, h.e.who.path(), err, cut))
	}
	return err
}

// drop forgets what is loaded: the next Acquire recovers it from the file.
func (h *fileSession) drop(why error) {
	h.gone = why
	h.f.log.Error("a session cannot be written", "session", h.e.who.session, "error", why)
	h.e.mu.Lock()
	h.e.file = nil
	h.e.mu.Unlock()
	h.e.noted = false // its entry stays, for whoever looks after this process
	_ = h.s.file.Close()
}

// Commit is [Session.Commit].
func (h *fileSession) Commit(c Commit) (Turn, error) {
	if h.gone != nil {
		return Turn{}, h.gone
	}
	if !h.own {
		return Turn{}, errNotBegun
	}
	s := h.s
	p, err := s.state.prepare(c)
	if err != nil {
		return Turn{}, err
	}
	line := s.line(h.f.options.now(), p)
	if len(line) > writeLimit {
		return Turn{}, tooLarge("the turn", len(line))
	}
	if err := h.check(); err != nil {
		return Turn{}, err
	}
	at := func(point turn.Point) {
		if c.At != nil {
			c.At(point)
		}
	}
	if err := h.write(p, line, at); err != nil {
		return Turn{}, err
	}
	h.own = false
	h.f.setRunning(h.e, "")
	return s.state.turns[s.state.newest], nil
}

// check makes sure that the path still names the open file and nobody has
// written to it: the lock is advisory, and people have editors.
func (h *fileSession) check() error {
	ours, err := h.f.root.Is(durable.OpCommitCheck, h.e.path, h.s.id, h.s.size)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unavailable(h.e.who, err)
	}
	if !ours {
		h.drop(fmt.Errorf("%w: %s", ErrLostLock, h.e.who.path()))
		return h.gone
	}
	return nil
}

// write makes a commit durable: write, fdatasync, mark, hint. Whatever fails of
// the first three, the way out is to write a new file, except that a write that
// the volume refuses leaves the session as it was.
func (h *fileSession) write(p commit, line []byte, at func(turn.Point)) error {
	f, s := h.f, h.s
	if err := h.append(durable.OpCommitWrite, line, 1); err != nil {
		if refused := f.writeError(h.e.who, err); h.gone == nil && !errors.Is(refused, ErrUnavailable) {
			return refused
		}
		s.n++ // in the new file
		return h.writeAnew(p, err, at)
	}
	at(turn.PointWritten)
	if err := s.file.Datasync(durable.OpCommitSync); err != nil {
		return h.writeAnew(p, err, at)
	}
	s.synced = s.n
	at(turn.PointSynced)
	mark := s.line(f.options.now(), note{kindMark})
	if err := h.append(durable.OpMarkWrite, mark, 1); err != nil {
		return h.writeAnew(p, err, at)
	}
	f.writeHint(h.e, hint{hintSynced, s.synced})
	at(turn.PointMarked)
	h.e.mu.Lock()
	err := s.state.apply(s.synced, p)
	h.e.mu.Unlock()
	return err
}

// writeAnew writes the session with this commit to a new file, because the old
// one cannot be trusted with it: an inode whose sync failed once is not synced
// again. What failed may have reached the disk all the same, so when this fails
// too, nobody knows.
func (h *fileSession) writeAnew(p commit, cause error, at func(turn.Point)) error {
	f, s, e := h.f, h.s, h.e
	f.log.Error("a commit failed and is written to a new file", "session", e.who.session, "turn", p.Turn, "error", cause)
	e.mu.Lock()
	e.file = nil // Replay must not see what is not durable yet
	e.mu.Unlock()
	err := s.state.apply(s.n, p)
	if err == nil {
		err = f.rewrite(e, s, nil)
	}
	if err != nil {
		h.drop(fmt.Errorf("%w: %s: %w, and then %w", ErrCommitUnknown, e.who.path(), cause, err))
		return h.gone
	}
	h.gone = nil
	at(turn.PointSynced)
	f.markRewritten(e, s)
	at(turn.PointMarked)
	e.mu.Lock()
	e.file = s
	e.mu.Unlock()
	return nil
}

// Fail is [Session.Fail].
func (h *fileSession) Fail(reason string) error {
	if h.gone != nil {
		return h.gone
	}
	if !h.own {
		return errNotBegun
	}
	s := h.s
	p := s.state.fail(reason)
	line := s.line(h.f.options.now(), p)
	if err := h.append(durable.OpFailWrite, line, 1); err != nil {
		return h.f.writeError(h.e.who, err)
	}
	h.e.mu.Lock()
	err := s.state.apply(s.n, p)
	h.e.mu.Unlock()
	h.own = false
	h.f.setRunning(h.e, "")
	return err
}

// Delivered is [Session.Delivered].
func (h *fileSession) Delivered() error {
	if h.gone != nil {
		return h.gone
	}
	s := h.s
	if s.state.newest < 0 || s.state.turns[s.state.newest].Delivered {
		return nil
	}
	var p payload = note{kindDelivered}
	line := s.line(h.f.options.now(), p)
	if err := h.append(durable.OpDeliverWrite, line, 1); err != nil {
		return h.f.writeError(h.e.who, err)
	}
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return s.state.apply(s.n, p)
}

// Release is [Session.Release].
func (h *fileSession) Release() {
	if h.e == nil {
		return
	}
	h.f.setRunning(h.e, "")
	h.f.release(h.e)
	h.e, h.gone = nil, errReleased
}

func (f *File) setRunning(e *entry, turnID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.running = turnID
}

func tooLarge(what string, size int) error {
	return fmt.Errorf("%w: %s takes %d bytes, at most %d are allowed", ErrTooLarge, what, size, writeLimit)
}
