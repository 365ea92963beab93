package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// lockWait is a goroutine that waits in the kernel for a session's lock, on a
// descriptor of its own. Nothing can interrupt it, so a caller that gives up
// leaves it to the next one, and if there is none it lets go at once. It ends
// when the other process lets go of the lock, which may be after Close.
type lockWait struct {
	done chan struct{} // closed at the end

	mu       sync.Mutex
	wanted   bool
	finished bool
	file     durable.File
	err      error
}

// want takes the goroutine over. It reports false when it has ended for nobody.
func (w *lockWait) want() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = w.wanted || !w.finished
	return w.wanted
}

// leave gives the goroutine up, and the lock with it if it came meanwhile.
func (w *lockWait) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = false
	if w.finished && w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
}

func (w *lockWait) run(f durable.File) {
	err := f.Lock(durable.OpLockWait)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = true
	if w.err = err; err != nil || !w.wanted {
		_ = f.Close()
	} else {
		w.file = f
	}
	close(w.done)
}

// tryLockSession takes the lock between processes if it is free. The caller has
// the entry's queue.
func (f *File) tryLockSession(e *entry) (bool, error) {
	if e.lock == nil {
		lock, err := f.openLock(e.who)
		if err != nil {
			return false, f.writeError(e.who, err)
		}
		e.lock = lock
	}
	ok, err := e.lock.TryLock(durable.OpLockTry, durable.Exclusive)
	if err != nil {
		return false, unavailable(e.who, err)
	}
	return ok, nil
}

// lockSession waits for the lock. The caller has the entry's queue, so there is
// one that waits, and the others wait for it.
func (f *File) lockSession(ctx context.Context, e *entry) error {
	if ok, err := f.tryLockSession(e); ok || err != nil {
		return err
	}
	if e.wait == nil || !e.wait.want() {
		own, err := f.openLock(e.who)
		if err != nil {
			return f.writeError(e.who, err)
		}
		w := &lockWait{done: make(chan struct{}), wanted: true}
		e.wait = w
		f.ref(e)
		go func() {
			w.run(own)
			f.unref(e)
		}()
	}
	w := e.wait
	select {
	case <-w.done:
	case <-ctx.Done():
		w.leave()
		return context.Cause(ctx)
	case <-f.closing:
		w.leave()
		return ErrClosed
	}
	e.wait = nil
	if w.err != nil {
		return unavailable(e.who, w.err)
	}
	_ = e.lock.Close()
	e.lock = w.file
	return nil
}

// openLock opens the lock file and makes it when it is missing. It makes the
// shard too, but not what is above it: a volume that has been emptied is an
// error, not a place for new sessions.
func (f *File) openLock(w identity) (durable.File, error) {
	lock, err := f.root.Open(durable.OpLockOpen, w.lock(), os.O_RDWR|os.O_CREATE)
	if !errors.Is(err, fs.ErrNotExist) {
		return lock, err
	}
	err = durable.EnsureDir(f.root, durable.OpLockMkdir, durable.OpLockDirSync, path.Dir(w.lock()))
	if err != nil {
		return nil, err
	}
	return f.root.Open(durable.OpLockOpen, w.lock(), os.O_RDWR|os.O_CREATE)
}
