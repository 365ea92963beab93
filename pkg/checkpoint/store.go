package checkpoint

import (
	"context"
	"errors"
	"fmt"
)

// Store holds the sessions of one agent. All methods may be called at once.
// Every method but Close returns [ErrClosed] after Close. Session ids must
// satisfy [turn.CheckSessionID]; any other is an error that wraps
// [turn.ErrSessionID], and nothing is created for it.
type Store interface {
	// Acquire waits until no other holder, in this process or another, has the
	// session, in the order of the calls within this process; locks it, and
	// loads it. An id without a file is a new, empty session: no file is made
	// until its first Begin. When ctx ends first, Acquire returns its cause and
	// gives up its place at once.
	//
	// Errors: a [*DamagedError], [ErrUnavailable], [ErrReadOnly], [ErrNoSpace],
	// ctx's cause.
	Acquire(ctx context.Context, id string) (Session, error)

	// Replay looks a turn key up without waiting for the session's lock, in
	// what this process has loaded. It finds only committed turns, and false
	// means "not known here", not "new".
	Replay(id, key string) (Turn, bool)

	// View reads a session without its lock: the last checkpoint that is known
	// to be durable and all its turns, oldest first. It may be read while
	// another process writes it.
	//
	// Errors: [ErrNoSession], and those of Acquire.
	View(ctx context.Context, id string) (View, error)

	// Turn reads one turn by its id without a lock, written by whatever
	// replica. A begun turn whose process is gone is Failed.
	//
	// Errors: [ErrNoTurn], and those of Acquire.
	Turn(ctx context.Context, turnID string) (Turn, error)

	// List returns at most limit sessions after the one with the id after (""
	// begins), and the id to go on with ("" at the end). The order is stable.
	// Sessions that cannot be read are rows with Err, not an error of List; a
	// page is longer than limit only when it would end with a session of which
	// not even the id can be read.
	List(ctx context.Context, after string, limit int) (rows []Summary, next string, err error)

	// Delete removes a session for good, under its lock; the id then starts
	// empty. It is durable when Delete returns nil.
	//
	// Errors: [ErrNoSession], [ErrReadOnly], ctx's cause.
	Delete(ctx context.Context, id string) error

	// Info describes the volume. It does no I/O.
	Info() Info

	// Close waits for all holders and releases everything.
	Close() error
}

// Session is a session whose lock is held. Its methods are for one goroutine.
type Session interface {
	// Checkpoint is what the session is after its last committed turn.
	Checkpoint() Checkpoint

	// ByKey finds the newest turn with a key, in whatever state it ended. A
	// turn that was begun and never ended (its process is gone) is Failed.
	ByKey(key string) (Turn, bool)

	// Last is the newest turn that ended or was begun, if there is one.
	Last() (Turn, bool)

	// Begin writes down that a turn starts, with number Checkpoint().Turn+1,
	// and returns it. It survives the death of this process. Only one turn may
	// be begun and not ended; a begun turn of a dead process is superseded. A
	// key that breaks its rules or an input that is not JSON is an error too; one
	// that does not fit into a line or is nested deeper than [MaxDepth] is
	// ErrTooLarge.
	//
	// Errors: [turn.ErrKey], [ErrNoSpace], [ErrTooLarge], [ErrReadOnly], [ErrUnavailable].
	Begin(Begin) (Turn, error)

	// Commit makes the begun turn durable, whole, and ends it. After an error
	// other than ErrCommitUnknown nothing of it is or will be in the session,
	// and the turn is still begun. After ErrLostLock and ErrCommitUnknown this
	// Session cannot write any more; the next Acquire reads what is there.
	// ErrTooLarge is for a turn that does not fit into a line, for a value that
	// is nested deeper than [MaxDepth], and for a conversation that grows beyond
	// [MaxConversation].
	//
	// Errors: [ErrNoSpace], [ErrTooLarge], [ErrLostLock], [ErrReadOnly],
	// [ErrUnavailable], [ErrCommitUnknown].
	Commit(Commit) (Turn, error)

	// Fail ends the begun turn without committing anything of it. It need not
	// be durable: a lost failure is an unfinished turn.
	Fail(reason string) error

	// Delivered notes that the reply of the last committed turn was written
	// whole to a live client. It need not be durable.
	Delivered() error

	// Attach keeps v, which takes about so many bytes, with what is loaded of the
	// session, in place of what was kept before. The next holder in this process
	// gets it from Attached, for as long as the session stays loaded and nobody
	// else wrote to it; after that Attached is nil. It is for what can be made
	// again.
	Attach(v any, bytes int64)
	Attached() any

	// Release gives the lock back. It may be called more than once.
	Release()
}

// View is a session as a reader sees it.
type View struct {
	Checkpoint
	Turns []Turn // all that is known, in file order; failed ones too
	Bytes int64
}

// Info describes the volume of a store.
type Info struct {
	Volume   string   // its id
	Secret   []byte   // for turn.DeriveSessionID; never shown
	Replica  string   // id of this process in the volume
	Writable bool     // false while writes fail
	Warnings []string // what the start-up probe found wanting, for people
}

// Errors of a store. They are wrapped with what and which; test with errors.Is.
var (
	ErrClosed        = errors.New("the store is closed")
	ErrNoSession     = errors.New("no such session")
	ErrNoTurn        = errors.New("no such turn")
	ErrUnavailable   = errors.New("the session's file cannot be read just now")
	ErrReadOnly      = errors.New("the volume cannot be written")
	ErrNoSpace       = errors.New("no space left on the volume")
	ErrTooLarge      = errors.New("too large for a session file")
	ErrLostLock      = errors.New("the session's file was changed by somebody else")
	ErrCommitUnknown = errors.New("the commit may or may not be durable")
	ErrOtherVolume   = errors.New("this is another volume than the expected one")
	ErrNotVolume     = errors.New("the directory cannot hold sessions")
)

// DamagedError says that a session exists and cannot be shown whole. Its file
// was not touched.
type DamagedError struct {
	Session string // "" when not even the id could be read
	Path    string // below the volume
	Reason  string
	Newer   bool // written by a newer version of flisk, not damaged
}

func (e *DamagedError) Error() string {
	what := "is damaged"
	if e.Newer {
		what = "was written by a newer version of flisk"
	}
	return fmt.Sprintf("session %q %s (%s): %s", e.Session, what, e.Path, e.Reason)
}

// What is larger than this is [ErrTooLarge], and nothing of it is written.
const (
	// MaxLine bounds one line of a session file, in bytes, and thereby what one
	// turn may leave: its reply, state and new messages together, or its input.
	// Nothing longer is believed to be a line either.
	MaxLine = 8 << 20
	// MaxDepth bounds how deep arrays and objects may be nested in an input, a
	// reply, the content of a message, and a state. It is far below what the
	// decoder takes, because all of them stand inside of other values in a file.
	MaxDepth = 1000
	// MaxConversation bounds the messages of a session together, in bytes, with
	// 64 more for each. A conversation that is longer cannot grow; it can shrink.
	MaxConversation = 256 << 20
)
