package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict is what a check came to.
type Verdict string

// The verdicts, the worst first.
const (
	Broken    Verdict = "broken"    // the guarantee does not hold
	Unchecked Verdict = "unchecked" // nothing is known about it; Reason says why
	Held      Verdict = "held"      // it was tried and held
	Skipped   Verdict = "skipped"   // it was not tried, on purpose; Reason says why
)

// Kind says how a guarantee is broken.
type Kind string

// The kinds.
const (
	Lost      Kind = "lost"       // an answered turn is not there, or not as it was answered
	Doubled   Kind = "doubled"    // a turn is there twice
	Forked    Kind = "forked"     // the turns are no single line 1, 2, 3 …
	Torn      Kind = "torn"       // a turn is there in part
	Leaked    Kind = "leaked"     // a session has something of another one
	Failed    Kind = "failed"     // a request that had to succeed did not
	Stale     Kind = "stale"      // older code answered than had to
	NotKilled Kind = "not killed" // a kill or a stop did not end the process as it must
)

// Finding is one way in which a guarantee is broken.
type Finding struct {
	Kind    Kind   `json:"kind"`
	What    string `json:"what"`              // in words
	Session string `json:"session,omitempty"` // that shows it
}

// Exchange is one turn as its client saw it.
type Exchange struct {
	Session string `json:"session_id"`
	Turn    int    `json:"turn"`
	Input   string `json:"input"`
	Reply   string `json:"reply"`
}

// Result is what one check came to.
type Result struct {
	Check    string     `json:"check"`
	Promise  string     `json:"promise"` // the guarantee, as a sentence
	Verdict  Verdict    `json:"verdict"`
	Broken   []Finding  `json:"broken,omitempty"`
	Reason   string     `json:"reason,omitempty"` // why it could not be checked, or was skipped
	Seen     []string   `json:"seen"`             // what the verdict rests on, in order
	Replies  []Exchange `json:"replies"`          // what was said; not judged
	Sessions []string   `json:"sessions"`         // that were used
	Turns    int        `json:"turns"`            // that were sent; not what reload repeats
	Gap      int64      `json:"gap_ms"`           // the longest time without a ready agent
	Millis   int64      `json:"millis"`
}

// Summary is the result in one line: why, if it is not held; else what was seen.
func (r Result) Summary() string {
	var parts []string
	switch r.Verdict {
	case Broken:
		for _, f := range r.Broken {
			parts = append(parts, string(f.Kind)+": "+f.What)
		}
	case Unchecked:
		return "could not be checked: " + r.Reason
	case Skipped:
		return r.Reason
	default:
		parts = r.Seen
	}
	return strings.Join(parts, " · ")
}

// Report is what a verification came to.
type Report struct {
	Verdict   Verdict  `json:"verdict"` // the worst of all checks; skipped ones do not count
	Agent     string   `json:"agent"`
	Code      string   `json:"code"` // source hash of what was verified; "" when it did not say
	Seed      uint64   `json:"seed"`
	Turns     int      `json:"turns"` // that were sent
	Checks    []Result `json:"checks"`
	Kept      string   `json:"kept,omitempty"` // the directory with the evidence, when something is broken
	KeptError error    `json:"-"`              // why that is not whole
	Millis    int64    `json:"millis"`
}

// Count is how many checks came to a verdict.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, c := range r.Checks {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

func (r *Report) conclude(run *run, took time.Duration) {
	r.Code, r.Turns, r.Millis = run.client.seenCode(), run.sent, took.Milliseconds()
	var verdicts []Verdict
	for _, c := range r.Checks {
		verdicts = append(verdicts, c.Verdict)
	}
	r.Verdict = Worst(verdicts...)
}

// Worst is what verdicts come to together: nothing skipped counts.
func Worst(verdicts ...Verdict) Verdict {
	for _, v := range []Verdict{Broken, Unchecked} {
		if slices.Contains(verdicts, v) {
			return v
		}
	}
	return Held
}

// NeverChecked are the guarantees that no verification tries, each with its
// reason.
func NeverChecked() []Result {
	return []Result{
		skipped("replicas", "turns of one session run one after another over several replicas",
			"an agent has one replica for now; that two processes of it take turns is part of race"),
		skipped("power-loss", "an answered turn survives a power cut",
			"a kill takes nothing from the disk's cache, so this cannot show it: it rests on fdatasync and on a disk that keeps its word"),
	}
}

func skipped(check, promise, why string) Result {
	r := newResult(check, promise)
	r.Verdict, r.Reason = Skipped, why
	return r
}

// newResult has no list that is null in JSON.
func newResult(check, promise string) Result {
	return Result{Check: check, Promise: promise, Seen: []string{}, Replies: []Exchange{}, Sessions: []string{}}
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// span is a duration for people.
func span(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
