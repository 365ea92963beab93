package dev

import (
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// Kind says what an event is about.
type Kind string

// The kinds of events.
const (
	Reloading Kind = "reloading" // a reload has something to do; Steps says what
	Doing     Kind = "step"      // it begins with Step, which Agents wait for
	Reloaded  Kind = "reloaded"  // new turns run on what was saved; Spans are set
	Unchanged Kind = "unchanged" // what was saved makes no difference to what runs
	Failed    Kind = "failed"    // a reload came to nothing: what ran before still serves; Err, Step and Broken say why
	Dropped   Kind = "dropped"   // a reload was given up for a newer change, before anything was replaced
	Waiting   Kind = "waiting"   // a reload waits, because too many old generations drain
	Drained   Kind = "drained"   // an old generation ended; Replaced is set
	Lost      Kind = "lost"      // what runs, or what it runs on, went away; Err is set
	Back      Kind = "back"      // and is there again
	Paused    Kind = "paused"    // Paths change after every reload, as if the stack wrote them: they are reloaded in Wait, or with the next other change
	Failing   Kind = "failing"   // Replica, which gets requests, ended or is not ready; told again when there is more to say: its state may be Ready already
	Ready     Kind = "ready"     // and has been fine for a while
	Restarted Kind = "restarted" // another command replaced what ran of Agents
	Stopping  Kind = "stopping"  // the end has begun; Agents still run. Told again when one does not any more
	Stopped   Kind = "stopped"   // the last event of all: Outcome says how it ended
)

// Outcome is what a loop leaves behind.
type Outcome string

// The outcomes.
const (
	Ended       Outcome = "ended"        // everything was stopped through its drain
	Killed      Outcome = "killed"       // everything was stopped, and did not finish what it had accepted
	LeftRunning Outcome = "left-running" // what runs goes on, at Report.URL: for Keep, or because the loop did not bring it up
	NotStarted  Outcome = "not-started"  // nothing was brought up, and nothing ran before
	Elsewhere   Outcome = "elsewhere"    // another command stopped everything
	Broke       Outcome = "failed"       // Err ended the loop
)

// Event is something that happened. Which fields are set depends on its kind.
type Event struct {
	Kind      Kind
	Time      time.Time
	Reload    int            // counts from 1; 0 is the first start
	Paths     []string       // what was saved
	New       []string       // of Paths: what was not there before
	Removed   []string       // of Paths: what is not there any more
	Agents    []string       // that get new processes
	Left      []string       // agents that the project has no more, and that finish what they accepted
	Broken    []string       // agents whose own fault it is that a reload failed
	Step      runtime.Action // that begins, or that failed; "" before any
	Replica   runtime.Replica
	Steps     runtime.Plan
	Spans     Spans
	Unsettled bool // somebody saved all the time: what runs is some of it, and a reload follows
	Replaced  []runtime.Change
	Draining  map[string]int // how many old generations of each agent drain now
	Report    runtime.Report
	Took      time.Duration // of a drain
	Wait      time.Duration // until what is paused is reloaded
	Most      time.Duration // that it has to wait another time
	Known     bool          // the same was told before, and has not been quiet since
	Outcome   Outcome
	Err       error
}

// Spans is how long the parts of a reload took.
type Spans struct {
	Detect time.Duration // from the first event to the end of the quiet after the last
	Wait   time.Duration // for the reload before this one
	Plan   time.Duration // reading files, and working out what to do
	Build  time.Duration // and the pull of images
	Start  time.Duration // until the new ones are ready
	Switch time.Duration // until the gateway is seen to have let go of the old ones
}

// Total is the time from a save to its code.
func (s Spans) Total() time.Duration {
	return s.Detect + s.Wait + s.Plan + s.Build + s.Start + s.Switch
}

// add counts a group of steps in.
func (s *Spans) add(do runtime.Action, took time.Duration) {
	switch do {
	case runtime.Build, runtime.Pull:
		s.Build += took
	case runtime.Switch, runtime.Confirm:
		s.Switch += took
	default:
		s.Start += took
	}
}
