package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// list opens the files of one page only. The order is that of the file names.
// settle is asked for a session with a commit that cannot be shown yet, and
// reports whether it can be now.
func (r *reader) list(ctx context.Context, after string, limit int, settle func(id string) bool) (rows []Summary, next string, err error) {
	from := ""
	if after != "" {
		if err := checkCall(ctx, after); err != nil {
			return nil, "", err
		}
		from = fileName(after)
	}
	// A lock without a file may be what is left of a session.
	err = eachName(r.root, r.agent, from, []string{sessionsDir, locksDir}, func(name string) bool {
		if ctx.Err() != nil {
			return false
		}
		// A page can only end at a session whose id is known.
		if n := len(rows); n >= limit && n > 0 && rows[n-1].Session != "" {
			next = rows[n-1].Session
			return false
		}
		row, unsettled, err := r.summary(r.named(name))
		if unsettled && settle(row.Session) {
			row, _, err = r.summary(r.named(name))
		}
		if errors.Is(err, ErrNoSession) {
			return true // deleted, or never begun
		}
		row.Err = err
		rows = append(rows, row)
		return true
	})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return rows, next, err
}

// summary describes a session from the end of its file, or from all of it where
// that does not do: there is damage, or a commit that may not be shown yet. It
// reports the latter as unsettled, whether its process lives or not.
func (r *reader) summary(w identity) (row Summary, unsettled bool, err error) {
	if row, ok := r.summaryOfTail(w); ok {
		return row, false, nil
	}
	l, info, err := r.load(w)
	row = Summary{Bytes: info.Size, Activity: info.ModTime}
	if err != nil {
		if damaged, ok := errors.AsType[*DamagedError](err); ok {
			row.Session = damaged.Session
		}
		return row, false, err
	}
	row.Session = l.head.Session
	s, err := l.replay(w, false)
	if err == nil {
		row.Turns = s.committed
	}
	return row, l.unmarked(), err
}

// Sizes of what summaryOfTail reads. A header has no part that is long.
const (
	headSize = 1 << 10
	tailSize = 64 << 10
)

// summaryOfTail reports false when the end of a file does not say enough: it is
// not whole, or names no turn.
func (r *reader) summaryOfTail(w identity) (row Summary, ok bool) {
	h, err := r.readHint(w)
	if err != nil || h.kind == hintDeleted {
		return row, false
	}
	f, err := r.root.Open(durable.OpSessionOpen, w.path(), os.O_RDONLY)
	if err != nil {
		return row, false
	}
	defer f.Close()
	info, err := f.Stat(durable.OpSessionStat)
	if err != nil || info.Mode.Type() != fs.FileMode(0) {
		return row, false
	}
	head := make([]byte, min(headSize, info.Size))
	tail := make([]byte, min(tailSize, info.Size))
	for _, part := range []struct {
		b   []byte
		off int64
	}{{head, 0}, {tail, info.Size - int64(len(tail))}} {
		if _, err := f.ReadAt(durable.OpSessionRead, part.b, part.off); err != nil && err != io.EOF {
			return row, false
		}
	}
	l := &fileLog{}
	if l.readHeader(head, w) != nil {
		return row, false
	}
	turns, ok := l.turnsOfTail(tail, info.Size, h)
	return Summary{Session: l.head.Session, Turns: turns, Bytes: info.Size, Activity: info.ModTime}, ok
}

// turnsOfTail counts the committed turns that a reader may show, from the end
// of a file of the given size.
func (l *fileLog) turnsOfTail(tail []byte, size int64, h hint) (turns int, ok bool) {
	off := 0
	if int64(len(tail)) < size { // the first piece may be the rest of a line
		first, found := cutLine(tail, 0)
		if !found {
			return 0, false
		}
		off = len(first)
	} else {
		off = l.good // behind the header
	}
	var lines []line
	floor := uint64(0)
	for off < len(tail) {
		raw, found := cutLine(tail, off)
		if !found {
			return 0, false
		}
		next, err := decodeLine(raw, l.salt)
		if err != nil || len(lines) > 0 && next.n != lines[len(lines)-1].n+1 {
			return 0, false
		}
		off += len(raw)
		lines = append(lines, next)
		floor = max(floor, next.s)
		if end := size - int64(len(tail)) + int64(off); end <= l.head.Len {
			floor = max(floor, next.n)
		}
	}
	if h.kind == hintSynced {
		floor = max(floor, h.n)
	}
	if len(lines) == 0 || lines[len(lines)-1].n < floor {
		return 0, false
	}
	for i := len(lines) - 1; i >= 0; i-- {
		var d struct{ Turn int }
		switch lines[i].kind {
		case kindBegin, kindCommit, kindSnapshot:
			if json.Unmarshal(lines[i].d, &d) != nil {
				return 0, false
			}
			if lines[i].kind == kindBegin {
				d.Turn--
			}
			return d.Turn, lines[i].kind != kindCommit || lines[i].n <= floor
		}
	}
	return 0, false
}
