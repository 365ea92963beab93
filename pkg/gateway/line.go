package gateway

import (
	"slices"
	"sync"
)

// line is where the held requests of one agent stand, oldest first. Only the
// first one tries to get through; when it has left, the next one does.
type line struct {
	max int

	mu     sync.Mutex
	places []*place
}

// place is one request's place in a line.
type place struct {
	line  *line
	first chan struct{} // closed when all before it have left
}

// join takes the last place, or reports that the line is full.
func (l *line) join() (*place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.places) >= l.max {
		return nil, false
	}
	p := &place{line: l, first: make(chan struct{})}
	l.places = append(l.places, p)
	if len(l.places) == 1 {
		close(p.first)
	}
	return p, true
}

// empty reports whether nobody waits.
func (l *line) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.places) == 0
}

// leave gives the place up. Only the first call does something.
func (p *place) leave() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.places, p)
	if i < 0 {
		return
	}
	l.places = slices.Delete(l.places, i, i+1)
	if i == 0 && len(l.places) > 0 {
		close(l.places[0].first)
	}
}
