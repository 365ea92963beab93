package watch

import (
	"context"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/source"
)

// Next waits until the files are not those of a tree, and have come to rest; or,
// when they do not, until the limits are reached. It does not matter when they
// changed: what differs already when it is called is told at once, and what was
// saved while nobody waited is in one change. A nil tree is an empty one.
//
// Errors: ctx's cause, ErrClosed, and what [source.Read] says of files that it
// cannot read. That one is told once and not for as long as it lasts: call again,
// and Next waits until it is over.
func (w *Watcher) Next(ctx context.Context, base *source.Tree) (Change, error) {
	return w.next(ctx, base, source.Diff)
}

// NextTouch is Next for who waits for somebody to save something, also as it was
// before: [source.Touched] says what that is.
func (w *Watcher) NextTouch(ctx context.Context, base *source.Tree) (Change, error) {
	return w.next(ctx, base, source.Touched)
}

func (w *Watcher) next(ctx context.Context, base *source.Tree, diff func(from, to *source.Tree) []source.Change) (Change, error) {
	if err := w.over(ctx); err != nil {
		return Change{}, err
	}
	began := time.Now()
	var b batch
	defer func() {
		if ctx.Err() != nil {
			w.giveBack(b)
		}
	}()
	patient := false
	if w.upToDate(base) && !w.isPending() {
		if err := w.wait(ctx); err != nil {
			return Change{}, err
		}
	}
	for {
		tree, err := w.settled(ctx, &b)
		switch {
		case w.over(ctx) != nil:
			return Change{}, w.over(ctx)
		case err != nil:
			if w.tell(err.Error()) {
				return Change{}, err
			}
		default:
			w.tell("")
			files := diff(base, tree)
			if len(files) > 0 && !patient && slices.ContainsFunc(files, emptied) {
				// An editor may have come no further than that: it gets a second period.
				patient = true
				if err := w.sleep(ctx, w.o.Quiet); err != nil {
					return Change{}, err
				}
				continue
			}
			if len(files) > 0 {
				if b.empty() {
					b.first = began
				}
				return Change{Files: files, Tree: tree, First: b.first}, nil
			}
			b, patient = batch{}, false
		}
		if err := w.wait(ctx); err != nil {
			return Change{}, err
		}
	}
}

// upToDate reports whether a tree is the one that was read last: what has come
// since gives an event, or is found by the next look.
func (w *Watcher) upToDate(tree *source.Tree) bool {
	w.reading.Lock()
	defer w.reading.Unlock()
	return tree != nil && tree == w.latest && w.told == ""
}

func emptied(f source.Change) bool { return f.Op != source.Removed && f.Size == 0 }

// tell notes a failure and reports whether it is news. "" is that all is well.
func (w *Watcher) tell(failure string) bool {
	w.reading.Lock()
	defer w.reading.Unlock()
	news := failure != w.told
	w.told = failure
	return news
}

// settled reads the files when nothing happens to them any more, and adds to b
// what happened until then.
func (w *Watcher) settled(ctx context.Context, b *batch) (*source.Tree, error) {
	for {
		b.merge(w.take())
		busy := w.gitBusy()
		if left := b.left(time.Now(), w.o.Quiet, busy); left > 0 {
			if err := w.sleep(ctx, left); err != nil {
				return nil, err
			}
			continue
		}
		tree, err := w.read(ctx)
		if err != nil {
			return nil, err
		}
		// What happened while it read is seen in part, or not: it has to look again.
		if !w.isPending() || !b.empty() && !time.Now().Before(b.limit(busy)) {
			return tree, nil
		}
	}
}

// The pauses between two looks: at the files, and at the few directories that no
// event tells of.
const (
	pollPause = 500 * time.Millisecond
	rootPause = 2 * time.Second

	// pollShare bounds what polling costs: a reading takes at most one part in so
	// many of the time.
	pollShare = 25
)

// wait returns when there is a reason to read the files.
func (w *Watcher) wait(ctx context.Context) error {
	for {
		pause, polling, failing := w.pause()
		timer := time.NewTimer(pause)
		select {
		case <-w.alert:
			timer.Stop()
			if w.isPending() {
				return nil
			}
		case <-timer.C:
			if polling || failing || w.moved() || w.stirred() {
				return nil
			}
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-w.life.Done():
			timer.Stop()
			return ErrClosed
		}
	}
}

func (w *Watcher) pause() (pause time.Duration, polling, failing bool) {
	w.reading.Lock()
	defer w.reading.Unlock()
	switch failing = w.told != ""; {
	case w.polling:
		return max(pollPause, pollShare*w.cost), true, failing
	case failing:
		return max(pollPause, pollShare*w.cost), false, true
	}
	return rootPause, false, false
}

func (w *Watcher) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.life.Done():
		return ErrClosed
	}
}

// over is why nothing is waited for any longer, or nil.
func (w *Watcher) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return context.Cause(w.life)
}

// take empties what is pending.
func (w *Watcher) take() batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.pending
	w.pending = batch{}
	return b
}

// giveBack is for who has taken what is pending, and does not look at it any more.
func (w *Watcher) giveBack(b batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.merge(w.pending)
	w.pending = b
}

func (w *Watcher) isPending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.pending.empty()
}
