package dev

import (
	"slices"
	"sync"
)

// inbox holds what was saved and is not reloaded yet, as one change.
type inbox struct {
	full chan struct{} // has a token while there is something

	mu     sync.Mutex
	change Change
}

func newInbox() *inbox { return &inbox{full: make(chan struct{}, 1)} }

// put merges a change into what is there.
func (b *inbox) put(c Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.change.First.IsZero() || !c.First.IsZero() && c.First.Before(b.change.First) {
		b.change.First = c.First
	}
	b.change.Paths = append(b.change.Paths, c.Paths...)
	slices.Sort(b.change.Paths)
	b.change.Paths = slices.Compact(b.change.Paths)
	select {
	case b.full <- struct{}{}:
	default:
	}
}

// take empties the inbox. It is called by who got the token.
func (b *inbox) take() Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.change
	b.change = Change{}
	return c
}
