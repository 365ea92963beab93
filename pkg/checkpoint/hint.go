package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
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
	hintDigits = 20 // of the greatest n
	hintHash   = 16 // characters of the checksum
	hintBody   = len(hintNone) + 1 + hintDigits
	hintSize   = hintBody + 1 + hintHash + 1
)

// append adds the record to dst, which is empty. Its checksum covers the file's
// identity, so that a lock file that was copied from another session says
// nothing.
func (h hint) append(dst []byte, w identity) []byte {
	dst = append(dst, h.kind...)
	dst = append(dst, ' ')
	var digits [hintDigits]byte
	n := strconv.AppendUint(digits[:0], h.n, 10)
	dst = append(dst, "00000000000000000000"[len(n):]...)
	dst = append(dst, n...)
	sum := hintSum(w, dst)
	dst = append(dst, ' ')
	dst = append(dst, sum[:]...)
	return append(dst, '\n')
}

func hintSum(w identity, body []byte) (sum [hintHash]byte) {
	var room [256]byte // is usually enough
	b := room[:0]
	for _, part := range []string{w.volume, w.agent, w.name} {
		b = append(append(b, part...), 0)
	}
	whole := sha256.Sum256(append(b, body...))
	hex.Encode(sum[:], whole[:hintHash/2])
	return sum
}

// decodeHint reads a record. Whatever it cannot read is no information.
func decodeHint(w identity, b []byte) hint {
	if len(b) != hintSize || b[hintSize-1] != '\n' || [hintHash]byte(b[hintBody+1:]) != hintSum(w, b[:hintBody]) {
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
	b := e.hint[:]
	n, err := e.lock.ReadAt(durable.OpHintRead, b, 0)
	if err != nil && err != io.EOF {
		return hint{}, unavailable(e.who, err)
	}
	return decodeHint(e.who, b[:n]), nil
}

// writeHint is best effort: a hint may lag.
func (f *File) writeHint(e *entry, h hint) {
	if _, err := e.lock.WriteAt(durable.OpHintWrite, h.append(e.hint[:0], e.who), 0); err != nil {
		f.log.Warn("a hint was not written", "session", e.who.session, "error", err)
	}
}

// syncHint writes a hint that must be on disk before what follows.
func (f *File) syncHint(e *entry, h hint) error {
	if _, err := e.lock.WriteAt(durable.OpHintWrite, h.append(e.hint[:0], e.who), 0); err != nil {
		return err
	}
	return e.lock.Sync(durable.OpHintSync)
}
