// Package dev keeps what runs the same as what is on disk: it watches, and at
// each change does what `flisk up` would do, one reload at a time, through the
// drain path.
//
// [Run] is the loop. It owns no process: what runs is the runtime's, and goes on
// when the loop is killed; the next Run, or `flisk up`, takes it from there.
package dev

import (
	"context"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// Change is what on disk differs from what the last Load read.
type Change struct {
	Paths   []string  // relative to the project, sorted; nil for what nobody saved: the start, or something that went away
	New     []string  // of these: what was not there before
	Removed []string  // of these: what is not there any more
	ByHand  []string  // of these: what people write and agents do not, such as Go files and settings
	Agents  []string  // whose code it changes, sorted
	First   time.Time // when the first of it was seen
	Told    time.Time // when it had come to rest
}

// Stack is the project as its files are at one moment.
type Stack struct {
	Driver runtime.Driver // of Options that leave what is replaced to Retire
	Agents map[string]int // how many replicas of each shall run
	Change Change         // what differs from what the Load before read; its times are not set

	// Fresh reports whether the driver was told of the source as Load read it, and
	// of no later one.
	Fresh func() bool

	// Close gives up what the driver holds. It may be used on, and closed again.
	Close func()
}

// Until says which differences Next waits for.
type Until struct {
	But     func(path string) bool // names files that do not matter; nil for none
	Touched bool                   // a file matters that somebody has saved as it was
}

// Told takes what a driver says of the steps that it does. It is given to
// Options.Load for the driver that it makes.
type Told func(runtime.Event)

// Options of a loop. All but Look and Keep are needed.
type Options struct {
	// Load reads the project's files, brings the files that are generated from
	// them up to date, and makes a driver. It starts nothing. An attached driver
	// keeps up what runs, and ends with [runtime.ErrStopped] where nothing does.
	Load func(ctx context.Context, told Told, attached bool) (Stack, error)

	// Next waits until the files differ from those that the last Load read, also
	// from a Load that failed. Its error ends the loop, unless ctx has ended.
	Next func(ctx context.Context, until Until) (Change, error)

	// Tell is told what happens, one event at a time.
	Tell func(Event)

	Progress runtime.Progress // shows the steps of the first start, and of the end
	Reloads  runtime.Progress // and of everything in between

	Look <-chan struct{} // has a token when a look may find something; nil is fine

	Keep bool // leave what runs when the loop ends
}

// Exits is a driver that can say how the process before the present one of a
// replica ended, where [runtime.Replica] does not.
type Exits interface {
	// LastExit is nil when nobody knows.
	LastExit(ctx context.Context, r runtime.Replica) *runtime.Exit
}

// Run brings the stack up, reloads it at each change, and stops it through its
// drain when ctx ends, which is no error. What it did not bring up it does not
// stop.
//
// Nothing that the project's files say ends the loop: a build that fails, an
// agent that does not get ready or a flisk.yaml that cannot be read is told, with
// what ran before still serving. It is tried again at the next save, and now and
// then where it is not an agent's own fault. What the machine lacks at the start
// (an engine, a port, a toolchain) is an error; what it loses later is told, and
// looked for until it is back. When somebody else stops the stack, the loop ends
// without an error.
func Run(ctx context.Context, o Options) error {
	l := &loop{o: o}
	return l.run(ctx)
}
