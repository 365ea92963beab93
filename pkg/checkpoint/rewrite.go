package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// image describes the contents of a session file that is written whole.
type image struct {
	who  identity
	salt []byte
	now  time.Time

	state *state // its open turn is left to live
	last  uint64 // n of the last line that the snapshot stands for, or a higher one
	live  [][]byte
}

// encode makes the file: header, snapshot, live lines (sealed anew). The header
// covers all of it, because the file gets its name only when all is synced.
func (f image) encode() []byte {
	return f.encodeParts(f.parts())
}

func (f image) parts() []snapshot { return f.state.snapshots(MaxLine - 512) }

func (f image) encodeParts(parts []snapshot) []byte {
	n := f.last - uint64(len(parts))
	var body []byte
	for i, p := range parts {
		body = appendLine(body, f.salt, n+1+uint64(i), 0, f.now, p)
	}
	for _, raw := range f.live {
		body = appendResealed(body, f.salt, raw)
	}
	h := header{V: formatVersion, Volume: f.who.volume, Agent: f.who.agent, Session: f.who.session, Salt: hex.EncodeToString(f.salt)}
	// The header says how long the file is, and is part of it.
	for {
		head := appendLine(nil, []byte(f.who.volume), n, 0, f.now, h)
		total := int64(len(head) + len(body))
		if h.Len == total {
			return append(head, body...)
		}
		h.Len = total
	}
}

// readBack makes sure that a file whose last line is last will be read as the
// state that it was made of. What cannot be read back must not take the place of
// what can.
func (f image) readBack(data []byte, last uint64) error {
	l, err := recoverLog(data, f.who, hint{hintSynced, last})
	if err != nil {
		return fmt.Errorf("the new file could not be read: %v", err) // the old one is not damaged
	}
	s, err := l.replay(f.who, false)
	if err != nil {
		return fmt.Errorf("the new file could not be read: %v", err)
	}
	if s.committed != f.state.committed || len(s.turns) != len(f.state.turns) || len(s.messages) != len(f.state.messages) || s.talk != f.state.talk {
		return fmt.Errorf("the new file would have %d turns and %d messages of %d bytes instead of %d and %d of %d",
			len(s.turns), len(s.messages), s.talk, len(f.state.turns), len(f.state.messages), f.state.talk)
	}
	return nil
}

// rewrite puts a session into a new file and goes on with that one. live are
// the lines of its open turn. Nothing is written before it is sure that the file
// can be read.
func (f *File) rewrite(e *entry, s *sessionFile, live [][]byte) error {
	next := image{who: e.who, salt: newSalt(), now: f.options.now(), state: s.state, last: s.n - uint64(len(live)), live: live}
	parts := next.parts()
	if lines := uint64(len(parts)); lines > next.last {
		// A conversation that grew by references needs more lines than it had.
		// Numbers may be left out between two files, but live lines have theirs.
		if len(live) > 0 {
			return fmt.Errorf("its snapshot needs %d lines, and line %d follows", lines, next.last+1)
		}
		next.last = lines
	}
	data := next.encodeParts(parts)
	last := next.last + uint64(len(live))
	if err := next.readBack(data, last); err != nil {
		return err
	}
	s.n = last
	return f.place(e, s, next.salt, data, durable.WriteOptions{Place: durable.RewriteFile})
}

// place writes a whole session file and makes it the one that s goes on with.
// After an error the session must be loaded anew: the new file may be in its
// place or not.
func (f *File) place(e *entry, s *sessionFile, salt, data []byte, o durable.WriteOptions) error {
	o.Temp = e.who.temp()
	if _, err := durable.Write(f.root, e.who.path(), data, o); err != nil {
		return err
	}
	file, err := f.root.Open(durable.OpSessionOpen, e.who.path(), os.O_RDWR)
	if err != nil {
		return err
	}
	info, err := file.Stat(durable.OpSessionStat)
	if err == nil && info.Size != int64(len(data)) {
		err = fmt.Errorf("it has %d bytes after writing %d", info.Size, len(data))
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	if s.file != nil {
		_ = s.file.Close()
	}
	s.file, s.id, s.salt = file, info.ID, salt
	s.size, s.reserved, s.found = info.Size, o.Reserve, false
	s.synced = s.n
	f.writable.Store(true)
	return nil
}

func newSalt() []byte {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // documented never to fail
	return salt
}

// markRewritten follows a rewrite. The header of the new file covers all of it
// already; mark and hint are more witnesses.
func (f *File) markRewritten(e *entry, s *sessionFile) {
	mark := s.line(f.options.now(), note{kindMark})
	if _, err := s.file.WriteAt(durable.OpMarkWrite, mark, s.size); err != nil {
		_ = s.file.Truncate(durable.OpCut, s.size)
		return
	}
	s.size += int64(len(mark))
	s.n++
	f.writeHint(e, hint{hintSynced, s.synced})
}
