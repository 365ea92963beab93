package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// DevJSON is one event of "flisk dev --json", a line each.
type DevJSON struct {
	Time     time.Time       `json:"time"`
	Event    string          `json:"event"`               // of docs/DEV_LOOP.md
	Reload   int             `json:"reload"`              // counts from 1; 0 is the first start. An attempt that fails has the number of the next that works; a log line, that of the reload whose code serves
	Paths    []string        `json:"paths,omitempty"`     // that were saved, relative to the project: the first hundred
	New      []string        `json:"new,omitempty"`       // of these: what was not there before
	Removed  []string        `json:"removed,omitempty"`   // of these: what is not there any more
	Files    int             `json:"files,omitempty"`     // how many were saved
	Agents   []string        `json:"agents,omitempty"`    // that get new processes; else those that it is about
	Left     []string        `json:"left,omitempty"`      // agents that flisk.yaml has no more, which end when they have finished
	Step     string          `json:"step,omitempty"`      // what begins, or what failed: "build", "await", …
	Broken   []string        `json:"broken,omitempty"`    // agents whose own fault it is that a reload failed
	Steps    []string        `json:"steps,omitempty"`     // what is to be done, for people
	Spans    *DevSpansJSON   `json:"spans_ms,omitempty"`  // how long the parts of a reload took
	Drain    int64           `json:"drain_ms,omitempty"`  // how long the old generation took to end
	Wait     int64           `json:"wait_ms,omitempty"`   // until a paused change is reloaded
	Replaced []ChangeJSON    `json:"replaced,omitempty"`  // which process took whose place
	Replica  *DevReplicaJSON `json:"replica,omitempty"`   // that is failing, or ready again
	URL      string          `json:"url,omitempty"`       // base URL of the gateway
	Moving   bool            `json:"unsettled,omitempty"` // somebody saved all the time: what runs is some of it, and another reload follows
	Outcome  string          `json:"outcome,omitempty"`   // of the last event: ended, killed, left-running, not-started, elsewhere or failed
	Error    *ErrorBody      `json:"error,omitempty"`
	Log      *DevLogJSON     `json:"log,omitempty"`
}

// DevSpansJSON is how long the parts of a reload took, in milliseconds.
type DevSpansJSON struct {
	Detect int64 `json:"detect"` // from the first event to the end of the quiet after the last
	Wait   int64 `json:"wait"`   // for the reload before this one
	Plan   int64 `json:"plan"`
	Build  int64 `json:"build"`
	Start  int64 `json:"start"`  // until the new processes are ready
	Switch int64 `json:"switch"` // until the gateway is seen to have let go of the old ones
	Total  int64 `json:"total"`
}

// DevReplicaJSON is a replica as a look found it.
type DevReplicaJSON struct {
	Name     string        `json:"name"`
	State    runtime.State `json:"state"`          // as in flisk status; ready of one that has ended and is back already
	Restarts int           `json:"restarts"`       // exits that nobody asked for
	Exit     string        `json:"exit,omitempty"` // how it ended last: "exit code 3", "signal 9 (killed)"
	Detail   string        `json:"detail,omitempty"`
}

// DevLogJSON is a line that a replica wrote.
type DevLogJSON struct {
	Replica string `json:"replica"`
	Text    string `json:"text"`
}

// maxPaths bounds the paths of one event: a checkout has thousands.
const maxPaths = 100

func devJSON(e dev.Event) DevJSON {
	first := func(paths []string) []string { return paths[:min(len(paths), maxPaths)] }
	j := DevJSON{
		Time: e.Time, Event: string(e.Kind), Reload: e.Reload, Files: len(e.Paths),
		Paths: first(e.Paths), New: first(e.New), Removed: first(e.Removed),
		Agents: e.Agents, Left: e.Left, Step: string(e.Step), Broken: e.Broken,
		Drain: e.Took.Milliseconds(), Wait: e.Wait.Milliseconds(), URL: e.Report.URL, Moving: e.Unsettled, Outcome: string(e.Outcome),
	}
	for _, s := range e.Steps {
		j.Steps = append(j.Steps, strings.TrimSpace(fmt.Sprintf("%s %s", s.Do, s.Object()))+": "+s.Cause)
	}
	if e.Kind == dev.Reloaded {
		s := e.Spans
		j.Spans = &DevSpansJSON{s.Detect.Milliseconds(), s.Wait.Milliseconds(), s.Plan.Milliseconds(), s.Build.Milliseconds(), s.Start.Milliseconds(), s.Switch.Milliseconds(), s.Total().Milliseconds()}
	}
	if len(e.Replaced) > 0 {
		j.Replaced = changesOf(e.Replaced)
	}
	if r := e.Replica; r.Name != "" {
		j.Replica = &DevReplicaJSON{Name: r.Name, State: r.State, Restarts: r.Restarts, Detail: r.Detail}
		if r.Exit != nil {
			j.Replica.Exit = r.Exit.String()
		}
	}
	if e.Err != nil {
		f := asFault(e.Err)
		j.Error = &ErrorBody{Message: f.Message, Hint: f.Hint, Detail: f.Detail, ExitCode: int(f.Kind)}
	}
	return j
}
