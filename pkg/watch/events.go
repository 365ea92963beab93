package watch

import (
	"time"

	"github.com/fsnotify/fsnotify"
)

// notifier tells of changes in directories, not of what is below them. Both
// channels are closed after Close.
type notifier interface {
	Add(dir string) error
	Close() error
	events() <-chan fsnotify.Event
	errs() <-chan error
}

type system struct{ *fsnotify.Watcher }

func (s system) events() <-chan fsnotify.Event { return s.Events }
func (s system) errs() <-chan error            { return s.Errors }

func openNotifier() (notifier, error) {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return system{n}, nil
}

// sink is a notifier with the goroutine that takes its events, whoever is busy
// with what: an event that waits fills the system's queue.
type sink struct {
	notifier
	done chan struct{}
}

// listen opens a notifier when there is none that can be relied on. A new one, and
// a reading of everything, is what puts right whatever went wrong: which
// directories are watched under which names is not mended one by one. reading is
// held.
func (w *Watcher) listen() error {
	w.mu.Lock()
	broken := w.broken
	w.mu.Unlock()
	if w.polling || !broken {
		return nil
	}
	if err := w.silence(); err != nil {
		return err
	}
	n, err := w.open()
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.watched = map[string]identity{}
	w.broken = false
	w.mu.Unlock()
	s := &sink{n, make(chan struct{})}
	w.sink = s
	go func() {
		defer close(s.done)
		w.pump(s)
	}()
	return nil
}

// silence closes the notifier and waits for its goroutine. reading is held.
func (w *Watcher) silence() error {
	if w.sink == nil {
		return nil
	}
	err := w.sink.Close()
	<-w.sink.done
	w.sink = nil
	return err
}

// fallBack makes the watcher poll. reading is held.
func (w *Watcher) fallBack(why error) {
	_ = w.silence() // it is of no use any more
	w.polling = true
	w.warn(explain(why, w.o.Project.Dir))
}

// pump takes events until the notifier is closed.
func (w *Watcher) pump(s *sink) {
	events, errs := s.events(), s.errs()
	for events != nil || errs != nil {
		select {
		case event, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			w.heard(event)
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			if err != nil { // most likely fsnotify.ErrEventOverflow; nothing else is known to be better off
				w.distrust()
			}
		}
	}
}

// distrust has everything looked at: events were lost.
func (w *Watcher) distrust() {
	w.mu.Lock()
	w.broken = true
	w.mu.Unlock()
	w.note(w.o.Project.Dir)
}

// heard judges one event.
func (w *Watcher) heard(event fsnotify.Event) {
	w.mu.Lock()
	_, directory := w.watched[event.Name]
	replaced := directory && event.Has(fsnotify.Remove|fsnotify.Rename)
	if replaced {
		w.broken = true
	}
	tree := w.tree
	if w.holding && !replaced {
		if len(w.held) < maxHeld {
			w.held = append(w.held, heldEvent{event.Name, time.Now()})
			w.mu.Unlock()
			return
		}
		replaced = true // too many to be judged one by one
	}
	w.mu.Unlock()
	if replaced || tree == nil || tree.Concerns(event.Name) {
		w.note(event.Name)
	}
}

// maxHeld bounds the events that wait for a reading to end.
const maxHeld = 1000

// hold begins a reading: what comes from now on is judged by the tree that it
// makes, because the one before knows neither new directories nor new rules.
func (w *Watcher) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holding = true
}

func (w *Watcher) judgeHeld() {
	w.mu.Lock()
	held, tree := w.held, w.tree
	w.held, w.holding = nil, false
	w.mu.Unlock()
	for _, event := range held {
		if tree == nil || tree.Concerns(event.path) {
			w.noteAt(event.path, event.at)
		}
	}
}

// heldEvent is one that waits for a reading to end. The quiet period counts from
// when it came.
type heldEvent struct {
	path string
	at   time.Time
}

// note says that there is something to look at.
func (w *Watcher) note(path string) { w.noteAt(path, time.Now()) }

func (w *Watcher) noteAt(path string, at time.Time) {
	w.mu.Lock()
	w.pending.add(path, at)
	w.mu.Unlock()
	select {
	case w.alert <- struct{}{}:
	default:
	}
}
