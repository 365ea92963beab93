package watch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/source"
)

// maxTries bounds how often a reading begins anew because directories were
// replaced during it. The next one goes on where it gives up.
const maxTries = 5

// read reads the tree, and sees that all its directories are watched. Each is
// watched before it is listed, so that what the listing is too early for gives an
// event.
func (w *Watcher) read(ctx context.Context) (*source.Tree, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.life, func() { cancel(ErrClosed) })()
	if w.life.Err() != nil {
		return nil, ErrClosed
	}
	w.hold()
	defer w.judgeHeld()
	for try := 1; ; try++ {
		if err := w.listen(); err != nil {
			w.fallBack(err)
		}
		entered := map[string]bool{}
		began := time.Now()
		tree, err := source.Read(ctx, w.o.Project, source.Options{Previous: w.latest, Enter: func(dir string) error { return w.enter(dir, entered) }})
		if deaf, ok := errors.AsType[*deafError](err); ok {
			w.fallBack(deaf.error)
			continue
		}
		if err != nil {
			return nil, err
		}
		outdated := !w.polling && w.outdated(entered)
		if outdated && try < maxTries {
			continue
		}
		w.accept(tree, time.Since(began))
		if outdated {
			w.distrust()
		}
		return tree, nil
	}
}

// accept makes a tree the one that events are judged by. A polling watcher has
// no other events than what it finds itself.
func (w *Watcher) accept(tree *source.Tree, cost time.Duration) {
	if w.polling && w.latest != nil {
		for _, f := range source.Diff(w.latest, tree) {
			w.note(f.Path)
		}
	}
	w.latest, w.cost = tree, cost
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tree = tree
}

// deafError is that a directory cannot be watched.
type deafError struct{ error }

// enter watches a directory, if it is not watched yet.
func (w *Watcher) enter(dir string, entered map[string]bool) error {
	if w.polling || entered[dir] {
		return nil
	}
	id, err := identify(dir)
	if err != nil {
		return nil // it is gone, or out of reach: the listing says what there is to say
	}
	entered[dir] = true
	w.mu.Lock()
	known, ok := w.watched[dir]
	if ok && known != id {
		w.broken = true // another directory has its name
	}
	if !ok {
		w.watched[dir] = id // before its events can come
	}
	w.mu.Unlock()
	if ok {
		return nil
	}
	err = w.sink.Add(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		w.mu.Lock()
		delete(w.watched, dir)
		w.mu.Unlock()
	case err != nil:
		return &deafError{err}
	}
	return nil
}

// outdated reports whether the events come from directories that are not those of
// the tree. It is told from the disk, because the events that say so may be
// lost, or under way.
func (w *Watcher) outdated(entered map[string]bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for dir := range w.watched {
		if !entered[dir] {
			w.broken = true
		}
	}
	return w.broken
}

// moved reports whether the project's directory is not the one that is watched.
// No event tells of one that was moved together with the directory it is in.
func (w *Watcher) moved() bool {
	id, err := identify(w.o.Project.Dir)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && w.watched[w.o.Project.Dir] == id {
		return false
	}
	w.broken = true
	return true
}

// stirred reports whether there may be something to build in a directory that is
// ignored, and for that reason not watched.
func (w *Watcher) stirred() bool {
	w.mu.Lock()
	tree := w.tree
	w.mu.Unlock()
	return tree != nil && tree.Stirred()
}

// identity tells a directory from another one under the same name.
type identity struct{ device, inode uint64 }

func identify(dir string) (identity, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return identity{}, err
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{uint64(sys.Dev), sys.Ino}, nil
	}
	return identity{}, nil
}
