package checkpoint

import (
	"encoding/hex"
	"time"
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
