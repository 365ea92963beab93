package dev

import (
	"context"
	"time"
)

// held is a change that waits before it is reloaded, because what it is of has
// changed again and again. The zero value is none.
type held struct {
	change Change
	over   chan struct{} // closed when it has waited; nil for no change
}

// hold makes a change wait, and reports whether it has to. Whatever else changes
// meanwhile is told all the same, and reloads both.
func (l *loop) hold(ctx context.Context, c Change, after time.Duration) bool {
	pause, most, known := l.quiet.hold(c, after)
	if pause == 0 {
		return false
	}
	over := make(chan struct{})
	time.AfterFunc(pause, func() { close(over) }) // also when nobody waits any more
	l.held = held{c, over}
	l.tell(c.event(Event{Kind: Paused, Reload: l.reloads, Agents: c.Agents, Wait: pause, Most: most, Known: known}))
	l.lookOut(ctx, Until{But: l.quiet.often, Touched: l.again.failing()})
	return true
}
