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

// Change is what was saved since the last one was taken.
type Change struct {
	Paths []string  // relative to the project, sorted; nil for what nobody saved: the start, or something that went away
	First time.Time // when the first of it was seen
}

// Stack is the project as its files are at one moment.
type Stack struct {
	Driver   runtime.Driver // of Options that leave what is replaced to Retire
	Replicas int            // how many shall run
}

// Told takes what a driver says of the steps that it does. It is given to
// Options.Load for the driver that it makes.
type Told func(runtime.Event)

// Options of a loop. All but Keep are needed.
type Options struct {
	// Load reads the project's files, brings the files that are generated from
	// them up to date, and makes a driver. It starts nothing.
	Load func(ctx context.Context, told Told) (Stack, error)

	// Next waits for the next change. What is saved while nobody waits is in the
	// change of the following call. Its error ends the loop.
	Next func(ctx context.Context) (Change, error)

	// Tell is told what happens, one event at a time.
	Tell func(Event)

	Progress runtime.Progress // shows the steps of the first start, and of the end
	Reloads  runtime.Progress // and of everything in between

	Keep bool // leave what runs when the loop ends
}

// Run brings the stack up, reloads it at each change, and stops it through its
// drain when ctx ends, which is no error.
//
// Nothing that the project's files say ends the loop: a build that fails, an
// agent that does not get ready or a flisk.yaml that cannot be read is told, and
// waits for the next change, with what ran before still serving. What the
// machine lacks at the start (an engine, a port, a toolchain) is an error; what
// it loses later is told, and looked for until it is back.
func Run(ctx context.Context, o Options) error {
	l := &loop{o: o, inbox: newInbox()}
	return l.run(ctx)
}
