package watch

import "time"

// batch is what has happened since the last change was told.
type batch struct {
	first, last time.Time       // zero when nothing has
	paths       map[string]bool // distinct ones, no more of them than matter
}

func (b *batch) add(path string, at time.Time) {
	if b.first.IsZero() {
		b.first, b.paths = at, map[string]bool{}
	}
	if at.After(b.last) {
		b.last = at
	}
	if len(b.paths) <= manyFiles {
		b.paths[path] = true
	}
}

// merge adds a later batch.
func (b *batch) merge(later batch) {
	if later.first.IsZero() {
		return
	}
	first := b.first
	for path := range later.paths {
		b.add(path, later.last)
	}
	b.first, b.last = first, later.last
	if b.first.IsZero() {
		b.first = later.first
	}
}

func (b *batch) empty() bool { return b.first.IsZero() }

// stormQuiet is how many quiet periods a storm must have rested: who writes
// thousands of files waits for the disk now and then.
const stormQuiet = 5

// left is how long to wait before it is looked at. While somebody changes many
// files on purpose, busy, silence means nothing.
func (b *batch) left(now time.Time, quiet time.Duration, busy bool) time.Duration {
	if b.empty() {
		return 0
	}
	rest := b.last.Add(quiet)
	if len(b.paths) > manyFiles {
		rest = b.last.Add(stormQuiet * quiet)
	}
	if busy {
		rest = now.Add(quiet)
	}
	return min(rest.Sub(now), b.limit(busy).Sub(now))
}

// limit is when it is looked at, at rest or not.
func (b *batch) limit(busy bool) time.Time {
	if busy || len(b.paths) > manyFiles {
		return b.first.Add(Many)
	}
	return b.first.Add(Most)
}
