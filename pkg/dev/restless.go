package dev

import (
	"slices"
	"time"
)

// restless slows down what reloads again and again. The stack itself may write
// files of the project: their change starts it anew, and it writes them again.
// Nothing tells such a file for certain from one that somebody saves often, so
// what is on disk is run in any case, only later. The zero value knows of none.
type restless struct {
	inARow int            // reloads, each for what changed during the one before, or soon after it
	times  map[string]int // of how many of these a file was a part; but for what people write
	pause  time.Duration  // the last one
	told   []string       // files that this was told of
	any    bool           // it was told of whatever changes
}

const (
	// soon after a reload is when what it has started writes its files. Who tries
	// what they have saved takes longer.
	soon = 5 * time.Second

	// tooMany reloads in a row with the same file in them are no person's doing, or
	// seldom are. A person who writes Go for longer than tooManyOfAny of them is
	// kept waiting for moments only.
	tooMany      = 8
	tooManyOfAny = 40

	// The pauses that a change is made to wait, each twice as long as the one before.
	firstHold     = time.Second
	lastHold      = 30 * time.Second
	lastHoldOfAny = 5 * time.Second
)

// count notes a reload for a change that came so long after the reload before.
func (r *restless) count(c Change, after time.Duration) {
	if after > soon {
		*r = restless{}
	}
	r.inARow++
	if r.times == nil {
		r.times = map[string]int{}
	}
	for _, path := range without(c.Paths, c.ByHand) {
		r.times[path]++
	}
}

// often reports whether a file was a part of too many of the reloads.
func (r *restless) often(path string) bool {
	return r.inARow >= tooManyOfAny || r.times[path] >= tooMany
}

// hold is how long a change has to wait that came so long after a reload; 0 for
// not at all. most is the longest that it may be next time, and known says that
// people were told of it.
func (r *restless) hold(c Change, after time.Duration) (pause, most time.Duration, known bool) {
	if after > soon || len(c.Paths) == 0 {
		return 0, 0, false
	}
	most = lastHold
	switch {
	case r.inARow >= tooManyOfAny:
		most, known, r.any = lastHoldOfAny, r.any, true
	case slices.ContainsFunc(c.Paths, func(path string) bool { return !r.often(path) }):
		return 0, 0, false
	default:
		news := without(c.Paths, r.told)
		known, r.told = len(news) == 0, append(r.told, news...)
	}
	r.pause = min(max(2*r.pause, firstHold), most)
	return r.pause, most, known
}

func without(paths, others []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return slices.Contains(others, p) })
}
