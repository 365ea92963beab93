package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// hint is what the lock file of a session says about its data file: a second
// witness, of one sector, that is written after every commit and not synced. It
// may lag behind the data file and never leads.
type hint struct {
	kind hintKind
	// n is a line that is known to be on disk, with hintSynced. With the others
	// it is the last line of a file that was deleted, or more: the next file of
	// the session goes on from there, so that no two of its turns share an id.
	n uint64
}

type hintKind string

// What a hint can say. The words have one width, as the whole record has.
const (
	hintNone    hintKind = "nothing" // also: unreadable, and no lock file at all
	hintSynced  hintKind = "synced."
	hintDeleted hintKind = "deleted" // the session was deleted, or is about to be
)

const (
	hintBody = len(hintNone) + 1 + 20
	hintSize = hintBody + 1 + 16 + 1
)

// encode makes the record. Its checksum covers the file's identity, so that a
// lock file that was copied from another session says nothing.
func (h hint) encode(w identity) []byte {
	body := fmt.Sprintf("%s %020d", h.kind, h.n)
	return fmt.Appendf(nil, "%s %s\n", body, hintSum(w, body))
}

func hintSum(w identity, body string) string {
	sum := sha256.Sum256([]byte(w.volume + "\x00" + w.agent + "\x00" + w.name + "\x00" + body))
	return hex.EncodeToString(sum[:8])
}

// decodeHint reads a record. Whatever it cannot read is no information.
func decodeHint(w identity, b []byte) hint {
	if len(b) != hintSize || b[hintSize-1] != '\n' || string(b[hintBody+1:hintSize-1]) != hintSum(w, string(b[:hintBody])) {
		return hint{kind: hintNone}
	}
	n, err := strconv.ParseUint(string(b[len(hintNone)+1:hintBody]), 10, 64)
	if err != nil {
		return hint{kind: hintNone}
	}
	return hint{kind: hintKind(b[:len(hintNone)]), n: n}
}

// lockedHint reads the hint through the descriptor that holds the lock.
func (f *File) lockedHint(e *entry) (hint, error) {
	b := make([]byte, hintSize+1)
	n, err := e.lock.ReadAt(durable.OpHintRead, b, 0)
	if err != nil && err != io.EOF {
		return hint{}, unavailable(e.who, err)
	}
	return decodeHint(e.who, b[:n]), nil
}

// writeHint is best effort: a hint may lag.
func (f *File) writeHint(e *entry, h hint) {
	if _, err := e.lock.WriteAt(durable.OpHintWrite, h.encode(e.who), 0); err != nil {
		f.log.Warn("a hint was not written", "session", e.who.session, "error", err)
	}
}

// syncHint writes a hint that must be on disk before what follows.
func (f *File) syncHint(e *entry, h hint) error {
	if _, err := e.lock.WriteAt(durable.OpHintWrite, h.encode(e.who), 0); err != nil {
		return err
	}
	return e.lock.Sync(durable.OpHintSync)
}
