package process

import (
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// The control API: JSON over HTTP on a Unix socket that only its user can
// reach. It is private to one version of flisk; the number in the paths makes
// another version's supervisor answer 404 instead of something surprising.
// Settings of agents, secrets among them, travel here and nowhere else.
const (
	pathObserve  = "/v1/observe"  // GET → observeReply
	pathStart    = "/v1/start"    // startRequest → nothing
	pathAwait    = "/v1/await"    // awaitRequest → awaitReply, once it is ready or failed
	pathSwitch   = "/v1/switch"   // switchRequest → nothing
	pathStop     = "/v1/stop"     // stopRequest → stopReply, once it is gone
	pathSignal   = "/v1/signal"   // signalRequest → []runtime.Change, once others are in their places
	pathShutdown = "/v1/shutdown" // stopRequest without a replica → nothing; it ends soon after
)

type observeReply struct {
	Gateway  string // host:port
	URL      string
	Routes   string        // hash of the present table
	Serve    switchRequest // what the table is made from
	Replicas []runtime.Replica
	Stopping []runtime.Ref // those of them that were told to end for good
	Ending   bool          // the supervisor stops, and so does everything
	Grace    time.Duration // the longest of theirs
}

// startRequest starts a generation of a replica.
type startRequest struct {
	runtime.Ref
	Binary   string
	WorkDir  string
	Code     string
	Settings string
	Named    []runtime.Setting
	Inherit  []string // the environment below Env
	Env      turn.Env // without what belongs to one process: where it listens, its lifeline
	Grace    time.Duration
}

type awaitRequest struct {
	runtime.Ref
	Within time.Duration
	Again  bool // only a start that fails from now on counts
}

type awaitReply struct {
	Ready  bool
	Exit   string   // how it ended, if that is why not
	Detail string   // why not: what follows the name of the replica in a sentence
	Log    []string // and the last lines it wrote
}

// switchRequest says which generations serve from now on, and which of the
// project's directories they are of.
type switchRequest struct {
	Dir    string
	Hosts  []string
	Agents []switchAgent
}

type switchAgent struct {
	Agent   string
	MaxBody int64
	Serve   []runtime.Ref
}

type stopRequest struct {
	runtime.Ref
	Grace time.Duration // at most this, if it is less than the replica's own; 0 is its own
	Force bool          // no drain: SIGKILL
}

type stopReply struct {
	Exit   string // how it ended, in words
	Killed bool   // it did not end in its time
	Last   runtime.Process
	How    runtime.Exit // of Last
}

type signalRequest struct {
	Agent  string
	Signal syscall.Signal
}

// wireFault is a fault on its way through the control socket or the start pipe.
type wireFault struct {
	Kind                  fault.Kind
	Message, Hint, Detail string
}

func toWire(err error) *wireFault {
	w := &wireFault{Kind: fault.KindOf(err), Message: err.Error()}
	if f, ok := asFault(err); ok {
		w.Hint, w.Detail = f.Hint, f.Detail
	}
	return w
}

func (w *wireFault) err() error {
	return &fault.Fault{Kind: w.Kind, Message: w.Message, Hint: w.Hint, Detail: w.Detail}
}
