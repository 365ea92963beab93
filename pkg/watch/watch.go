// Package watch waits for what people save. Call [New], then [Watcher.Next] with
// the tree that was built last, again and again: it returns when the files have
// come to rest and are not those of that tree.
//
// What counts is decided by pkg/source, and so is what a change is: another
// content, and nothing else. The events of the operating system only say when to
// look. Whatever they leave out, tell twice or too late, the answer is a
// comparison of two readings of the disk.
package watch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/source"
)

// The times of a change. Most are over after the quiet period: what writes
// without a pause is cut off by a limit, so that a change is seen all the same.
const (
	// Quiet is how long nothing must have changed.
	Quiet = 100 * time.Millisecond

	// Most is how long a change can take, Many how long one of more than
	// manyFiles files can: a checkout is one change, even on a slow disk.
	Most      = time.Second
	Many      = 10 * time.Second
	manyFiles = 100
)

// Options of a watcher.
type Options struct {
	Project *project.Project // what to watch; a changed flisk.yaml needs a new watcher

	// Quiet is how long nothing must have changed; 0 means [Quiet].
	Quiet time.Duration

	// Poll looks at the files in intervals, for where the operating system does
	// not tell of changes. A watcher that finds that out does the same by itself.
	Poll bool

	// Warn takes what does not end the watching and people should know: a fault
	// with what is the case and what can be done. It is called while
	// the watcher works, and must not call it. May be nil.
	Warn func(error)
}

// Change is what differs from a tree once the files have come to rest.
type Change struct {
	Files []source.Change // sorted by path, at least one
	Tree  *source.Tree    // the files as they are now: what the next change is to be told from
	First time.Time       // when the first sign of it was seen
}

// Agents lists the agents whose code it changes, sorted.
func (c Change) Agents() []string {
	var names []string
	for _, f := range c.Files {
		names = append(names, f.Agents...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Has reports whether a file of a kind is among what changed.
func (c Change) Has(kind source.Kind) bool {
	return slices.ContainsFunc(c.Files, func(f source.Change) bool { return f.Kind == kind })
}

// ErrClosed is what a closed watcher answers.
var ErrClosed = errors.New("the watcher is closed")

// Watcher watches one project. Its methods may be called by several goroutines,
// but each change is meant for one caller of Next.
type Watcher struct {
	o      Options
	open   func() (notifier, error)
	gitDir string // "" when the project is in no repository

	life  context.Context // ended by Close, with ErrClosed as its cause
	end   context.CancelCauseFunc
	alert chan struct{} // has a token when there is something pending

	// reading is held by who reads the tree, and guards what follows.
	reading sync.Mutex
	sink    *sink // where events come from; nil when polling
	polling bool
	latest  *source.Tree
	cost    time.Duration // of the last reading
	told    string        // the failure that was told last; "" when the last reading went well

	// mu is held for moments only, and guards what follows.
	mu      sync.Mutex
	pending batch
	broken  bool // the events cannot be relied on any more
	watched map[string]identity
	tree    *source.Tree // the events are judged by it
	held    []heldEvent  // what came during a reading, to be judged by its tree
	holding bool
}

// New begins to watch. The project's directory must exist. Where the operating
// system does not tell of changes it says so with a warning, and polls: on network
// file systems, where a probe file in the project's .flisk directory gives no
// event within a second, and where the system's limits are reached.
//
// The caller owns the watcher and closes it.
func New(ctx context.Context, o Options) (*Watcher, error) {
	return newWith(ctx, o, openNotifier)
}

// newWith is New with another source of events.
func newWith(ctx context.Context, o Options, open func() (notifier, error)) (*Watcher, error) {
	w := newWatcher(o, open)
	if why := w.deaf(ctx); why != nil {
		w.polling = true
		w.warn(why)
	}
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

func newWatcher(o Options, open func() (notifier, error)) *Watcher {
	if o.Quiet == 0 {
		o.Quiet = Quiet
	}
	w := &Watcher{o: o, open: open, gitDir: findGit(o.Project.Dir), alert: make(chan struct{}, 1), polling: o.Poll, broken: true}
	w.life, w.end = context.WithCancelCause(context.Background())
	return w
}

// start reads the tree for the first time.
func (w *Watcher) start(ctx context.Context) error {
	if _, err := w.read(ctx); err != nil {
		return errors.Join(err, w.Close())
	}
	return nil
}

// Close ends the watching and waits for its goroutines. A call of Next or Tree
// that is under way returns ErrClosed. Closing again does nothing.
func (w *Watcher) Close() error {
	w.end(ErrClosed)
	w.reading.Lock()
	defer w.reading.Unlock()
	return w.silence()
}

// Tree reads the files as they are at this moment, at rest or not. What changed
// meanwhile is still told by Next. Errors: those of [source.Read], ErrClosed.
func (w *Watcher) Tree(ctx context.Context) (*source.Tree, error) { return w.read(ctx) }

// Polls is how often the files are looked at where that is how changes are found;
// 0 where the system tells of them.
func (w *Watcher) Polls() time.Duration {
	pause, polling, _ := w.pause()
	if !polling {
		return 0
	}
	return pause
}

func (w *Watcher) warn(err error) {
	if w.o.Warn != nil {
		w.o.Warn(err)
	}
}
