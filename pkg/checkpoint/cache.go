package checkpoint

import (
	"container/list"
	"context"
	"sync"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// entry is what this process has of one session.
type entry struct {
	who   identity
	path  string // of its file: who.path(), which puts it together each time
	queue fifo

	// Guarded by File.mu.
	refs    int    // holders, waiters, and a goroutine that waits for the lock
	running string // the id of the turn that is being worked on here
	element *list.Element
	size    int64 // what it counts for while it is idle

	// For whoever has the queue.
	lock  durable.File // open, and locked while the session is held
	wait  *lockWait
	noted bool               // open/<replica>/ has an entry for it
	hint  [hintSize + 1]byte // where hints are read and put together

	// Written by whoever has the queue, under mu; read by Replay.
	mu   sync.Mutex
	file *sessionFile // nil when it is not loaded
}

// enter returns a session's entry, with a reference to it, for a call that Close
// will wait for.
func (f *File) enter(id string) (*entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	w := f.identify(id)
	e := f.entries[w.name]
	if e == nil {
		e = &entry{who: w, path: w.path()}
		f.entries[w.name] = e
	}
	f.refLocked(e)
	f.holders.Add(1)
	return e, nil
}

func (f *File) leave(e *entry) {
	f.unref(e)
	f.holders.Done()
}

// hold takes a session's place in the queue and then its lock.
func (f *File) hold(ctx context.Context, id string) (*entry, error) {
	e, err := f.enter(id)
	if err != nil {
		return nil, err
	}
	err = e.queue.acquire(ctx, f.closing)
	if err == nil {
		if err = f.lockSession(ctx, e); err != nil {
			e.queue.release()
		}
	}
	if err != nil {
		f.leave(e)
		return nil, err
	}
	return e, nil
}

// holdIfFree is hold for whoever does not wait: it returns nil when somebody has
// the session.
func (f *File) holdIfFree(id string) (*entry, error) {
	e, err := f.enter(id)
	if err != nil {
		return nil, err
	}
	ok := e.queue.try()
	if ok {
		if ok, err = f.tryLockSession(e); !ok {
			e.queue.release()
		}
	}
	if !ok {
		f.leave(e)
		return nil, err
	}
	return e, nil
}

// release gives a session's lock and its place back.
func (f *File) release(e *entry) {
	if err := e.lock.Unlock(durable.OpLockRelease); err != nil {
		_ = e.lock.Close() // closing gives it back too
		e.lock = nil
	}
	e.queue.release()
	f.leave(e)
}

func (f *File) ref(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refLocked(e)
}

func (f *File) refLocked(e *entry) {
	e.refs++
	if e.element != nil {
		f.idle.Remove(e.element)
		e.element = nil
		f.loaded -= e.size
	}
}

// unref keeps an entry that nobody uses any more within the budget, or forgets
// it.
func (f *File) unref(e *entry) {
	f.mu.Lock()
	if e.refs--; e.refs == 0 {
		if e.size = e.cost(); e.size > 0 {
			e.element = f.idle.PushFront(e)
		} else {
			e.element = f.idle.PushBack(e) // the first to go
		}
		f.loaded += e.size
	}
	var victims []*entry
	for oldest := f.idle.Back(); oldest != nil && f.overBudget(oldest.Value.(*entry)); oldest = f.idle.Back() {
		victim := oldest.Value.(*entry)
		f.refLocked(victim)
		victims = append(victims, victim)
	}
	f.mu.Unlock()
	for _, v := range victims {
		f.evict(v)
	}
}

// overBudget reports whether an idle entry must go: the oldest one of too many,
// or one with nothing loaded.
func (f *File) overBudget(e *entry) bool {
	return f.closed || e.size == 0 || f.loaded > max(0, f.options.CacheBytes) || f.idle.Len() > f.options.CacheSessions
}

// cost is the memory of an entry that nobody uses.
func (e *entry) cost() int64 {
	if e.file == nil {
		return 0
	}
	const base = 4 << 10
	return base + int64(cap(e.file.scratch)) + e.file.state.bytes()
}

// evict closes what an entry has open, and forgets it, unless somebody took it
// in the meantime. The caller has a reference.
func (f *File) evict(e *entry) {
	if !e.queue.try() {
		f.unref(e)
		return
	}
	f.giveSpaceBack(e)
	if e.file != nil && e.file.state.open < 0 {
		f.unnote(e)
	}
	f.unload(e)
	if e.lock != nil {
		_ = e.lock.Close()
		e.lock = nil
	}
	e.queue.release()
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.refs--; e.refs == 0 && f.entries[e.who.name] == e {
		delete(f.entries, e.who.name)
	}
}

// unload closes the data file. The caller has the queue.
func (f *File) unload(e *entry) {
	e.mu.Lock()
	file := e.file
	e.file = nil
	e.mu.Unlock()
	if file != nil {
		_ = file.file.Close()
	}
}
