package dev

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// errStopped says that somebody else stopped the stack.
var errStopped = errors.New("the stack was stopped")

// missedLooks is how many looks in a row must miss something before it is
// brought back: another command may be in the middle of its work.
const missedLooks = 3

// health is what the looks at a stack found.
type health struct {
	runs   bool  // the last reload ended well, so it should
	lost   error // told
	missed int   // looks in a row
}

// up notes that everything runs, by a reload's own looks.
func (h *health) up(tell func(Event)) {
	h.runs, h.missed = true, 0
	if h.lost != nil {
		h.lost = nil
		tell(Event{Kind: Back})
	}
}

// look finds out whether what should run does, and has it brought back. Its
// error ends the loop.
func (l *loop) look(ctx context.Context) error {
	h := &l.health
	if !h.runs {
		return nil
	}
	seen, err := l.stack.Driver.Observe(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		l.lose(err)
		return nil
	case !seen.Running && len(seen.Stale) == 0:
		l.tell(Event{Kind: Stopped})
		return errStopped
	case len(seen.Stale) > 0:
		l.lose(errors.New(strings.Join(seen.Stale, "; ")))
		return l.reload(ctx, Change{})
	case seen.Gateway == "":
		return l.missing(ctx, "the gateway does not run")
	case serving(seen) < l.stack.Replicas:
		return l.missing(ctx, "an agent does not run")
	}
	h.missed = 0
	if h.lost != nil {
		return l.reload(ctx, Change{}) // whether it is as it was is the planner's question
	}
	return nil
}

// lose tells once that something went away.
func (l *loop) lose(err error) {
	if l.health.lost == nil {
		l.tell(Event{Kind: Lost, Err: err})
	}
	l.health.lost = err
}

// missing brings something back that has been missing for a while.
func (l *loop) missing(ctx context.Context, what string) error {
	if l.health.missed++; l.health.missed < missedLooks {
		return nil
	}
	l.lose(errors.New(what))
	return l.reload(ctx, Change{})
}

func serving(seen runtime.Observed) int {
	n := 0
	for _, r := range seen.Replicas {
		if r.Serving {
			n++
		}
	}
	return n
}

// The pauses between two attempts at what the machine lacks.
const (
	firstPause = time.Second
	lastPause  = 10 * time.Second
)

// backoff is when an attempt is made again. The zero value is never.
type backoff struct {
	timer *time.Timer
	pause time.Duration
	last  string // the error of the last attempt
}

// due is when, nil for never.
func (b *backoff) due() <-chan time.Time {
	if b.timer == nil {
		return nil
	}
	return b.timer.C
}

// known reports whether an attempt failed as the one before did.
func (b *backoff) known(err error) bool { return b.last == err.Error() }

func (b *backoff) later(err error) {
	b.last, b.pause = err.Error(), min(max(2*b.pause, firstPause), lastPause)
	b.timer = time.NewTimer(b.pause)
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
