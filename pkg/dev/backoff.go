package dev

import (
	"errors"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
)

// The pauses between two attempts; the last one for what the machine lacks, which is
// there again at once, and that for anything else.
const (
	firstPause = time.Second
	lastPause  = 10 * time.Second
	buildPause = time.Minute

	// soonPause is that before files are read again that did not rest.
	soonPause = 250 * time.Millisecond
)

// backoff is when an attempt is made again. The zero value is never.
type backoff struct {
	timer *time.Timer
	pause time.Duration
	last  error // of the last attempt; nil when it went well
	own   bool  // which is the fault of an agent
	lacks bool  // or of the machine
	steps int   // that the last attempt began
}

// due is when, nil for never.
func (b *backoff) due() <-chan time.Time {
	if b.timer == nil {
		return nil
	}
	return b.timer.C
}

// failing reports whether the last attempt did not go well.
func (b *backoff) failing() bool { return b.last != nil }

// known reports whether the last attempt failed in the same way.
func (b *backoff) known(err error) bool { return b.last != nil && said(b.last) == said(err) }

// said is what people read of an error first: what is wrapped around it differs.
func said(err error) string {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f.Message
	}
	return err.Error()
}

func (b *backoff) failed(err error, steps int) {
	b.last, b.own, b.lacks, b.steps = err, len(broken(err)) > 0, machineLacks(err), steps
}

func (b *backoff) later(why error) {
	b.stop()
	most := lastPause
	if why != nil && !machineLacks(why) {
		most = buildPause
	}
	b.pause = min(max(2*b.pause, firstPause), most)
	b.timer = time.NewTimer(b.pause)
}

func (b *backoff) soon() {
	b.stop()
	b.timer = time.NewTimer(soonPause)
}

func (b *backoff) stop() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

func (b *backoff) reset() {
	b.stop()
	*b = backoff{}
}
