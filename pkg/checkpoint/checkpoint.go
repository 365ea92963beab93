// Package checkpoint keeps conversations. A [Store] holds the sessions of one
// agent; a [Session] is one of them, locked; its [Checkpoint] is what the
// session is after its last committed turn.
//
// Call [Open] for the store that survives (a directory on a volume) or
// [NewMemory] for one that does not. A turn is then
//
//	s, err := store.Acquire(ctx, id)   // wait for the session, lock it, load it
//	defer s.Release()
//	t, err := s.Begin(…)               // the turn has an id from here on
//	…                                  // run the agent's code
//	t, err = s.Commit(…)               // durable when this returns nil
//	…                                  // only now tell anyone
//	s.Delivered()                      // the reply left the process
//
// # What is promised
//
// After Commit returned nil the turn survives a clean stop, a SIGKILL and a
// power cut, on a file system that keeps what fdatasync and fsync of file and
// directory said it would. A begun turn survives a SIGKILL, not a power cut.
// A session that existed and cannot be read whole is an error for that session,
// never an empty session; other sessions are not touched by it. Two limits are
// known: rot in the newest synced line together with a power cut that took the
// mark and the hint behind it cannot be told from a torn write; and a file that
// was cut short or lost together with its lock file is not recognised.
//
// # What is assumed
//
// One volume is one directory tree on one host's file system with working
// flock, atomic rename and directory fsync; [Open] probes for them.
package checkpoint

import (
	"encoding/json"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Message is one entry of a conversation.
type Message = turn.Message

// Checkpoint is what a session is after its last committed turn. A checkpoint
// that was handed out is never changed by the store. Whoever gets one must not
// change its elements or bytes either, but may reslice and append to Messages
// (its capacity equals its length).
type Checkpoint struct {
	Session  string
	Turn     int // number of committed turns; 0 for a new session
	Messages []Message
	State    json.RawMessage // nil until a turn set it
}

// Turn is what the store knows of one turn.
type Turn struct {
	ID        string // names the turn in the whole volume
	Session   string
	Number    int    // 1, 2, 3 … within the session; a failed turn's number is used again
	Key       string // the turn key, or ""
	InputHash string // see Begin
	State     turn.State
	Reply     json.RawMessage // when Committed
	Reason    string          // when Failed or Parked
	Delivered bool            // the reply was written whole to a live client
}

// Begin is what is written down before a turn runs.
type Begin struct {
	Key       string          // the turn key, or ""
	InputHash string          // hash by which the turn engine compares inputs; opaque here
	Input     json.RawMessage // compact JSON
}

// Commit is what a turn leaves behind. Messages, followed by Add, is the whole
// conversation as it shall be after the turn; the store works out what is new
// and writes only that. A message that is the turn's input or reply is stored
// once, as such. Whoever only appends to a conversation passes the Messages of
// the checkpoint as they are and the new ones in Add, which costs the same
// however long the conversation is; any other Messages are right too.
//
// The store copies what it keeps.
type Commit struct {
	Messages []Message
	Add      []Message
	State    json.RawMessage // nil keeps the state
	Reply    json.RawMessage // compact JSON

	// At, if not nil, is called at the points PointWritten, PointSynced and
	// PointMarked, while the lock is held.
	At func(turn.Point)
}

// Summary is one row of a listing.
type Summary struct {
	Session  string
	Turns    int
	Bytes    int64
	Activity time.Time
	Err      error // set when this session cannot be read; the other fields are then as far as known
}
