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
	last  uint64 // n of the last line that the snapshot stands for
	live  [][]byte
}

// encode makes the file: header, snapshot, live lines (sealed anew). The header
// covers all of it, because the file gets its name only when all is synced.
func (f image) encode() []byte {
	return f.encodeParts(f.state.snapshots(MaxLine - 512))
}

func (f image) encodeParts(parts []snapshot) []byte {
	n := f.last - uint64(len(parts)) // fewer parts than the lines they stand for: see writeLimit
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

// rewrite puts a session into a new file and goes on with that one. live are
// the lines of its open turn.
func (f *File) rewrite(e *entry, s *sessionFile, live [][]byte) error {
	next := image{who: e.who, salt: newSalt(), now: f.options.now(), state: s.state, last: s.n - uint64(len(live)), live: live}
	return f.place(e, s, next, durable.WriteOptions{Place: durable.RewriteFile})
}

// place writes a whole session file and makes it the one that s goes on with.
// After an error the session must be loaded anew: the new file may be in its
// place or not.
func (f *File) place(e *entry, s *sessionFile, next image, o durable.WriteOptions) error {
	data := next.encode()
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
	s.file, s.id, s.salt = file, info.ID, next.salt
	s.size, s.reserved = info.Size, o.Reserve
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
	mark := appendLine(nil, s.salt, s.n+1, s.synced, f.options.now(), note{kindMark})
	if _, err := s.file.WriteAt(durable.OpMarkWrite, mark, s.size); err != nil {
		_ = s.file.Truncate(durable.OpCut, s.size)
		return
	}
	s.size += int64(len(mark))
	s.n++
	f.writeHint(e, hint{hintSynced, s.synced})
}
