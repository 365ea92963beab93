// Package runtime is what every place that a stack can run in has in common:
// what is observed, what can be done, and how progress is told. The executors
// are the packages below it.
package runtime

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Observed is what runs right now, read from the live system and not from a
// memory of earlier commands.
type Observed struct {
	Running    bool      // anything of the project runs
	Dir        string    // the project directory that it was started from
	URL        string    // base URL of the gateway; "" when it does not run
	Gateway    string    // the address it listens on, "host:port"; "" when it does not run
	GatewayPID int       // of its process; 0 when it does not run or has none here
	Routes     string    // hash of the gateway's route table
	Volume     string    // name of the volume
	Place      string    // where the volume is, for people
	Setup      string    // identifies the settings that the gateway was started with; "" where they are part of the agents'
	Replicas   []Replica // in the order of their names
	Services   []Service // what runs besides, in the order in which it was started
	Stale      []string  // what is wrong with what something that was killed left, for people
}

// Service is something that is neither an agent nor the gateway: a database, say.
// It has one instance, and keeps its name.
type Service struct {
	Name     string
	Settings string // identifies what it was, or shall be, started with
	Stopped  bool   // it is there and does not run
}

// Replica is one running, starting or dying instance of an agent, or one that
// should be.
type Replica struct {
	Agent      string
	Name       string // "bot-1": the place that it fills, the same for its successors
	Generation int    // 1, 2, 3 …: counts the planned replacements at that place
	State      State
	Serving    bool // the gateway has it in its route table
	PID        int
	Start      string // of PID: tells it from every other process of that number
	Started    time.Time
	Stopped    time.Time // when it ended, of one that does not run and that nothing starts again; else zero
	Stuck      bool      // it answers nobody until an Up has mended or replaced it; nothing else brings it back
	Restarts   int       // of this generation: exits in its place, a kill among them
	Code       string    // source hash of what it runs
	Settings   string    // identifies the settings that it was started with
	Named      []Setting // the same, for the cause of a step; nil when that is not known
	Exit       *Exit     // how the process before this one ended, or its own where it has ended; nil when nobody knows
	Detail     string    // why, when it is Failing, Waiting, Gone, LeftBehind, or Starting and was Ready before
}

// State of a replica.
type State string

// The states of a replica.
const (
	Starting State = "starting" // not ready yet
	Waiting  State = "waiting"  // ready, and gets no requests: an Up has not come to its end
	Ready    State = "ready"    // serves turns
	Draining State = "draining" // finishes what it accepted
	Failing  State = "failing"  // exited before it was ready; waits for its next start

	// Gone is one that should run, and of which there is nothing: somebody else
	// removed it. The next Up or Restart starts another.
	Gone State = "gone"

	// LeftBehind is one whose process is gone, and whose keeper is: what it had
	// started still runs. The next Up or Down ends that.
	LeftBehind State = "left-behind"
)

// LogOptions select log lines.
type LogOptions struct {
	Agent  string // "" is all agents
	Tail   int    // last lines first; negative is all that is kept
	Follow bool   // go on until the context ends
}

// Line is one line of a replica's output.
type Line struct {
	Time    time.Time
	Replica string
	Text    string // as written: may hold control characters
}

// Driver runs one stack. Its methods may be called at once, also by several
// processes: those that change something exclude each other.
type Driver interface {
	// Observe never changes anything, and takes no lock.
	Observe(ctx context.Context) (Observed, error)

	// Examine looks at everything that Up depends on in this runtime, each by
	// itself, and changes nothing.
	Examine(ctx context.Context) []Finding

	// Up converges: build what changed, start what is missing, and return when
	// every agent answers ready through the gateway. When it fails, what this
	// call started is stopped again; a volume that it made stays, empty. The
	// report says what it did; nothing when all was as desired.
	Up(ctx context.Context, p Progress) (Report, error)

	// Down stops agents through their drain, then the gateway. It keeps the
	// volume. Nothing running is not an error.
	Down(ctx context.Context, p Progress) (Report, error)

	// Restart is Up that also replaces every replica of an agent, or of all
	// agents when agent is "": start first, so that no request is refused. The
	// report names what was replaced. When a new one does not get ready, the old
	// ones go on serving.
	Restart(ctx context.Context, agent string, p Progress) (Report, error)

	// Plan is what Up, Down or Restart of these agents (of all when none is
	// named) would do. It changes nothing and takes no lock, so something may
	// have happened before it is done.
	Plan(ctx context.Context, op Op, agents ...string) (Plan, error)

	// Retire takes a generation that Up or Restart left running (see
	// [Report.Left]) through its drain. One that serves is an error; one that is
	// gone is not. It neither waits for another change nor keeps one waiting.
	Retire(ctx context.Context, ref Ref) (Change, error)

	// Kill sends SIGKILL to every replica of an agent, but for those that are on
	// their way out, and returns when another process is in the place of each; that
	// one need not be ready yet. A process that did not die of that signal is an
	// error.
	Kill(ctx context.Context, agent string) ([]Change, error)

	// Logs calls emit for each line, in order within a replica.
	Logs(ctx context.Context, o LogOptions, emit func(Line) error) error
}

// Report is what a change did.
type Report struct {
	Changed bool
	URL     string
	Volume  string
	Place   string
	Created bool // the volume is new

	// Replaced are the processes that ended for others, by a planned
	// replacement. A replica that is only gone is not among them.
	Replaced []Change

	// Filled are the names of replicas that were started at places where none ran,
	// in a project of which something ran; see [Filled].
	Filled []string

	// Unsettled says that something runs that was built while its source changed,
	// by a driver that goes on with that.
	Unsettled bool

	// Left are generations that get no requests any more and still run, by a
	// driver that leaves it to its caller to Retire them.
	Left []Ref
}

// Change is a process that ended, and the one that took its place.
type Change struct {
	Agent   string
	Replica string // its name, as in [Replica.Name]
	Before  Process
	Exit    Exit // of Before
	After   Process
}

// Process is one process, told apart from every other that had or will get its
// number. The zero value is none.
type Process struct {
	PID   int
	Start string // when it started: only equality means something
}

// Exit is how a process ended.
type Exit struct {
	Code   int            // -1 when a signal ended it
	Signal syscall.Signal // 0 when it exited by itself
}

func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d (%s)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Progress is told what goes on, for people. Implementations are safe for
// concurrent use.
type Progress interface {
	// Begin starts a step ("build bot"); the returned function ends it with a
	// detail for people ("1.2 s") or an error.
	Begin(step string) (end func(detail string, err error))

	// Output takes what a tool prints during a step, as it is.
	Output() io.Writer
}
