package checkpoint

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Memory is the [Store] that does not survive its process: for tests, and for
// agents that need no memory beyond it. It keeps the contract of [Store] in all
// other respects, on the same state machine as the file store.
type Memory struct {
	info    Info
	closing chan struct{}
	holders sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sessions map[string]*memoryEntry // by the name that a file would have
}

// memoryEntry is one session. mu guards what others read while it is held.
type memoryEntry struct {
	queue fifo

	mu       sync.Mutex
	state    *state
	n        uint64 // of the last line that a file would have
	running  bool
	activity time.Time
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // documented never to fail
	return &Memory{
		info: Info{
			Volume: newUUID(), Secret: secret, Replica: newUUID(), Writable: true,
			Warnings: []string{"sessions are kept in memory: all are lost when the process ends"},
		},
		closing: make(chan struct{}), sessions: map[string]*memoryEntry{},
	}
}

// Info is [Store.Info].
func (m *Memory) Info() Info { return m.info }

// Close is [Store.Close].
func (m *Memory) Close() error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.closing)
	}
	m.mu.Unlock()
	m.holders.Wait()
	return nil
}

// Acquire is [Store.Acquire].
func (m *Memory) Acquire(ctx context.Context, id string) (Session, error) {
	e, err := m.hold(ctx, id)
	if err != nil {
		return nil, err
	}
	return &memorySession{held: held{state: e.state}, m: m, e: e, name: fileName(id)}, nil
}

func (m *Memory) hold(ctx context.Context, id string) (*memoryEntry, error) {
	if err := checkCall(ctx, id); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	e := m.sessions[fileName(id)]
	if e == nil {
		e = &memoryEntry{state: newState(id)}
		m.sessions[fileName(id)] = e
	}
	m.holders.Add(1)
	m.mu.Unlock()
	if err := e.queue.acquire(ctx, m.closing); err != nil {
		m.holders.Done()
		return nil, err
	}
	return e, nil
}

func (m *Memory) release(e *memoryEntry) {
	e.queue.release()
	m.holders.Done()
}

// find returns a session that exists: one with a turn.
func (m *Memory) find(name string) (*memoryEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if e := m.sessions[name]; e != nil && e.exists() {
		return e, nil
	}
	return nil, ErrNoSession
}

func (e *memoryEntry) exists() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.state.turns) > 0
}

// Replay is [Store.Replay].
func (m *Memory) Replay(id, key string) (Turn, bool) {
	e, err := m.find(fileName(id))
	if err != nil {
		return Turn{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	i, ok := e.state.byKey[key]
	if !ok || e.state.turns[i].State != turn.Committed {
		return Turn{}, false
	}
	return e.state.turns[i], true
}

// View is [Store.View].
func (m *Memory) View(ctx context.Context, id string) (View, error) {
	if err := checkCall(ctx, id); err != nil {
		return View{}, err
	}
	e, err := m.find(fileName(id))
	if err != nil {
		return View{}, sessionError(id, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.view(e.running, e.state.bytes()), nil
}

// Turn is [Store.Turn].
func (m *Memory) Turn(ctx context.Context, turnID string) (Turn, error) {
	if ctx.Err() != nil {
		return Turn{}, context.Cause(ctx)
	}
	name, _ := sessionOfTurn(turnID)
	e, err := m.find(name)
	if err == ErrNoSession {
		return Turn{}, ErrNoTurn
	}
	if err != nil {
		return Turn{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	i, ok := e.state.findID(turnID)
	if !ok {
		return Turn{}, ErrNoTurn
	}
	return e.state.turn(i, e.running), nil
}

// List is [Store.List].
func (m *Memory) List(ctx context.Context, after string, limit int) (rows []Summary, next string, err error) {
	from := ""
	if after != "" {
		if err := checkCall(ctx, after); err != nil {
			return nil, "", err
		}
		from = fileName(after)
	}
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, "", ErrClosed
	}
	for _, name := range slices.Sorted(maps.Keys(m.sessions)) {
		e := m.sessions[name]
		if name <= from || !e.exists() {
			continue
		}
		if n := len(rows); n >= limit && n > 0 {
			return rows, rows[n-1].Session, nil
		}
		e.mu.Lock()
		rows = append(rows, Summary{Session: e.state.session, Turns: e.state.committed, Bytes: e.state.bytes(), Activity: e.activity})
		e.mu.Unlock()
	}
	return rows, "", nil
}

// Delete is [Store.Delete].
func (m *Memory) Delete(ctx context.Context, id string) error {
	if err := checkCall(ctx, id); err != nil {
		return err
	}
	if _, err := m.find(fileName(id)); err != nil {
		return sessionError(id, err)
	}
	e, err := m.hold(ctx, id)
	if err != nil {
		return sessionError(id, err)
	}
	defer m.release(e)
	if !e.exists() { // deleted while we waited
		return sessionError(id, ErrNoSession)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = newState(id) // n goes on: a turn's id is not used again
	return nil
}

// memorySession is a session of a Memory that is held.
type memorySession struct {
	held
	m        *Memory
	e        *memoryEntry
	name     string
	released bool
}

// add is what a file store does with a line. own says whether the turn of this
// holder runs after it.
func (h *memorySession) add(p payload, own bool) error {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.e.n++
	h.e.activity = time.Now()
	err := h.state.apply(h.e.n, p)
	h.own, h.e.running = own, own
	return err
}

// Begin is [Session.Begin].
func (h *memorySession) Begin(b Begin) (Turn, error) {
	if h.released {
		return Turn{}, errReleased
	}
	if h.own {
		return Turn{}, errBegun
	}
	p, err := h.state.start(h.name, h.e.n+1, b)
	if err != nil {
		return Turn{}, err
	}
	if len(p.Input) > writeLimit {
		return Turn{}, tooLarge("the input", len(p.Input))
	}
	if err := h.add(p, true); err != nil {
		return Turn{}, err
	}
	return h.state.turn(h.state.open, true), nil
}

// Commit is [Session.Commit].
func (h *memorySession) Commit(c Commit) (Turn, error) {
	if h.released {
		return Turn{}, errReleased
	}
	if !h.own {
		return Turn{}, errNotBegun
	}
	p, err := h.state.prepare(c)
	if err != nil {
		return Turn{}, err
	}
	if size := len(p.appendJSON(nil)); size > writeLimit {
		return Turn{}, tooLarge("the turn", size)
	}
	for _, point := range []turn.Point{turn.PointWritten, turn.PointSynced, turn.PointMarked} {
		if c.At != nil {
			c.At(point)
		}
	}
	if err := h.add(p, false); err != nil {
		return Turn{}, err
	}
	return h.state.turns[h.state.newest], nil
}

// Fail is [Session.Fail].
func (h *memorySession) Fail(reason string) error {
	if h.released {
		return errReleased
	}
	if !h.own {
		return errNotBegun
	}
	return h.add(h.state.fail(reason), false)
}

// Delivered is [Session.Delivered].
func (h *memorySession) Delivered() error {
	if h.released {
		return errReleased
	}
	if h.state.newest < 0 || h.state.turns[h.state.newest].Delivered {
		return nil
	}
	return h.add(note{kindDelivered}, h.own)
}

// Release is [Session.Release].
func (h *memorySession) Release() {
	if h.released {
		return
	}
	h.released = true
	h.e.mu.Lock()
	h.e.running = false
	h.e.mu.Unlock()
	h.m.release(h.e)
}

var _ Store = (*Memory)(nil)
