package checkpoint

import (
	"bytes"
	"encoding/hex"
	"fmt"
)

// fileLog is a session file as it was found and judged fit to go on with.
type fileLog struct {
	head  header
	salt  []byte
	lines []line // all valid ones in a row, without the header
	last  uint64 // n of the last of them, or of the header
	floor uint64 // F: the newest line that was once known to be on disk
	good  int    // bytes that the header and lines take
	cut   []byte // what follows them: nothing in it was ever acknowledged
}

// maxStrays bounds the search for valid lines inside of damage. Every candidate
// costs a hash, and a user's text can be made to look like many.
const maxStrays = 256

// absent judges a session without a file.
func (w identity) absent(h hint) error {
	if h.kind == hintSynced {
		return w.damaged(fmt.Sprintf("its file is gone, and line %d of it was known to be on disk", h.n))
	}
	return nil
}

// recoverLog judges the bytes of a session file. It is a pure function; nothing
// is ever repaired here. The error is always a *DamagedError: something that may
// have been acknowledged is missing, or a newer version wrote the file.
//
// Everything up to F must be whole, where F is the largest s in any valid line
// at any offset, or in the hint, and covers at least what the header says was
// synced before the file got its name. What follows may be torn.
func recoverLog(data []byte, w identity, h hint) (*fileLog, error) {
	if len(data) == 0 {
		return nil, w.damaged("its file is empty")
	}
	l := &fileLog{}
	if err := l.readHeader(data, w); err != nil {
		return nil, err
	}
	w.session = l.head.Session
	why, err := l.readLines(data, w)
	if err != nil {
		return nil, err
	}
	if why != "" {
		l.cut = data[l.good:]
		if !l.searchStrays() {
			return nil, w.damaged(fmt.Sprintf("%s at byte %d, and too much behind it looks like lines", why, l.good))
		}
	}
	if int64(l.good) < l.head.Len {
		return nil, w.damaged(fmt.Sprintf("only %d of its first %d bytes are whole, and all of them were known to be on disk", l.good, l.head.Len))
	}
	for _, line := range l.lines {
		if int64(line.end) <= l.head.Len {
			l.floor = max(l.floor, line.n)
		}
	}
	if h.kind == hintSynced {
		l.floor = max(l.floor, h.n)
	}
	if l.last < l.floor {
		if why == "" {
			why = "it ends"
		}
		return nil, w.damaged(fmt.Sprintf("%s at byte %d, behind line %d, and line %d was known to be on disk", why, l.good, l.last, l.floor))
	}
	return l, nil
}

// readHeader judges the first line. Files are created by rename, so no crash
// leaves a torn one.
func (l *fileLog) readHeader(data []byte, w identity) error {
	raw, ok := cutLine(data, 0)
	if !ok {
		return w.damaged("its first line is not whole")
	}
	first, err := decodeLine(raw, []byte(w.volume))
	if err == errLine {
		return w.damaged("its first line is not a header of this volume")
	}
	if err != nil {
		return w.newer(err.Error())
	}
	p, err := decodePayload(first.kind, first.d)
	if err != nil {
		return w.newer(err.Error())
	}
	head, ok := p.(header)
	if !ok {
		return w.damaged("its first line is not a header")
	}
	if head.V != formatVersion {
		return w.newer(fmt.Sprintf("it has format %d, and this version reads format %d", head.V, formatVersion))
	}
	if head.Volume != w.volume || head.Agent != w.agent || fileName(head.Session) != w.name || w.session != "" && head.Session != w.session {
		return w.damaged(fmt.Sprintf("it holds session %q of agent %q", head.Session, head.Agent))
	}
	if l.salt, err = hex.DecodeString(head.Salt); err != nil || len(l.salt) != saltSize {
		return w.damaged("the salt in its header is not valid")
	}
	l.head, l.last, l.good = head, first.n, len(raw)
	return nil
}

// readLines takes valid lines in a row and says why it stopped, or "" at the
// end of the file.
func (l *fileLog) readLines(data []byte, w identity) (why string, err error) {
	for l.good < len(data) {
		raw, ok := cutLine(data, l.good)
		if !ok {
			return "it is damaged", nil
		}
		next, err := decodeLine(raw, l.salt)
		if err == errLine {
			return "it is damaged", nil
		}
		if err != nil {
			return "", w.newer(err.Error())
		}
		if next.n != l.last+1 {
			return fmt.Sprintf("line %d follows line %d", next.n, l.last), nil
		}
		if next.s >= next.n {
			return "", w.damaged(fmt.Sprintf("line %d says that line %d was written before it", next.n, next.s))
		}
		next.start, next.end = l.good, l.good+len(raw)
		l.lines = append(l.lines, next)
		l.last, l.good = next.n, next.end
		l.floor = max(l.floor, next.s)
	}
	return "", nil
}

// searchStrays looks for valid lines at any offset of what follows the good
// ones: each tells of lines that were on disk before it. It reports false when
// there are too many candidates to tell.
func (l *fileLog) searchStrays() bool {
	for off, tries := 0, 0; ; {
		i := bytes.Index(l.cut[off:], []byte(linePrefix))
		if i < 0 {
			return true
		}
		off += i
		atStart := off == 0 || l.cut[off-1] == '\n'
		if raw, ok := cutLine(l.cut, off); ok {
			if !atStart { // the line break before it may be what was damaged
				if tries++; tries > maxStrays {
					return false
				}
			}
			if stray, err := decodeLine(raw, l.salt); err == nil {
				l.floor = max(l.floor, stray.s)
			}
		}
		off += len(linePrefix)
	}
}

// unmarked reports whether the last commit is above F: its process died between
// the write and the mark. It counts, but not before a rewrite has made it sure.
func (l *fileLog) unmarked() bool {
	for i := len(l.lines) - 1; i >= 0; i-- {
		if l.lines[i].kind == kindCommit {
			return l.lines[i].n > l.floor
		}
	}
	return false
}

// replay adds the lines up. With all, a commit above F counts; without, the
// result is what a reader may show.
func (l *fileLog) replay(w identity, all bool) (*state, error) {
	w.session = l.head.Session
	s := newState(l.head.Session)
	for _, line := range l.lines {
		if !all && line.kind == kindCommit && line.n > l.floor {
			break
		}
		p, err := decodePayload(line.kind, line.d)
		if err != nil {
			return nil, w.newer(err.Error())
		}
		if err := s.apply(line.n, p); err != nil {
			return nil, w.damaged(fmt.Sprintf("line %d: %v", line.n, err))
		}
	}
	if s.partial {
		return nil, w.damaged("its snapshot has no end")
	}
	return s, nil
}

// live are the lines that a snapshot cannot hold: from the begin of an
// unfinished turn on. data is the file.
func (l *fileLog) live(data []byte, s *state) (raw [][]byte) {
	if s.open < 0 {
		return nil
	}
	for _, line := range l.lines {
		if line.n >= s.openN {
			raw = append(raw, data[line.start:line.end])
		}
	}
	return raw
}
