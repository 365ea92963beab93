package checkpoint

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Options are what [Open] needs to know.
type Options struct {
	// Agent is the name of the agent whose sessions are stored.
	Agent string
	// ExpectVolume is the id that the volume must have. With "" any volume will
	// do, and a directory that is none is made one.
	ExpectVolume string
	// RefuseOverlay refuses a volume that is a container's own layer; without
	// it, it is a warning.
	RefuseOverlay bool
	// CacheBytes bounds the memory of loaded sessions that nobody holds,
	// roughly; 0 is 64 MiB. A negative number loads every session anew.
	CacheBytes int64
	// CacheSessions bounds their number; 0 is 512. Each has two files open, and
	// together they never take more than a quarter of what the process may have.
	CacheSessions int
	// Log takes what people should know of: repairs, and writes that failed.
	// nil logs nothing.
	Log *slog.Logger

	wrap    func(durable.FS) durable.FS // tests put a twin before the real file system
	now     func() time.Time
	replica string
}

const (
	defaultCacheBytes    = 64 << 20
	defaultCacheSessions = 512
)

// File is the [Store] that survives: a directory on a volume, which any number
// of processes of one host may have open at once.
//
// A session is a file of checksummed lines. A turn appends to it with one write
// and one fdatasync, however long the conversation is. Sessions that nobody
// holds stay loaded within a budget: the next turn neither reads nor parses,
// unless another process wrote.
type File struct {
	reader
	dir     string
	bare    durable.FS // root without the second try: what makes room must not ask for it
	secret  []byte
	replica string
	options Options
	log     *slog.Logger

	life     durable.File // locked for as long as the store is open
	warnings []string
	writable atomic.Bool

	closing chan struct{}
	holders sync.WaitGroup // whoever is inside of Acquire or Delete, or has a session

	mu      sync.Mutex // guards what follows; never held during I/O
	closed  bool
	entries map[string]*entry // by name
	idle    *list.List        // entries that nobody holds and that are loaded; the front is the newest
	loaded  int64             // bytes of the idle ones
	shards  map[string]bool   // shards whose entry in their parent this process has synced
}

// Open opens the volume in a directory for the sessions of one agent, after
// trying that it can hold them. Close the store when it is done with.
//
// Errors: [ErrOtherVolume], [ErrNotVolume].
func Open(dir string, o Options) (*File, error) {
	if !turn.ValidAgent(o.Agent) {
		return nil, fmt.Errorf("invalid agent name %q", o.Agent)
	}
	if o.ExpectVolume == "" {
		if err := durable.MakeRoot(dir); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotVolume, err)
		}
	}
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotVolume, err)
	}
	if o.wrap != nil {
		root = o.wrap(root)
	}
	f := newFile(dir, root, o)
	if err := f.start(); err != nil {
		f.die()
		_ = root.Close()
		return nil, err
	}
	return f, nil
}

func newFile(dir string, root durable.FS, o Options) *File {
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.CacheSessions == 0 {
		o.CacheSessions = defaultCacheSessions
	}
	o.CacheSessions = idleLimit(o.CacheSessions, durable.MaxOpenFiles())
	if o.now == nil {
		o.now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.replica == "" {
		o.replica = newUUID()
	}
	f := &File{
		reader: reader{agent: o.Agent}, bare: root, dir: dir, options: o, log: o.Log, replica: o.replica,
		closing: make(chan struct{}), entries: map[string]*entry{}, idle: list.New(), shards: map[string]bool{},
	}
	f.root = roomyFS{root, f.makeRoom}
	f.writable.Store(true)
	return f
}

func (f *File) start() error {
	v, err := f.openVolume()
	if err != nil {
		return err
	}
	f.volume, f.secret = v.Volume, v.secret
	for _, dir := range []string{agentsDir, f.reader.dir(), f.under(sessionsDir), f.under(locksDir), f.under(replicasDir), f.under(openDir)} {
		if err := durable.EnsureDir(f.root, durable.OpReplicaDir, durable.OpReplicaSync, dir); err != nil {
			return notVolume(f.root, f.dir, err)
		}
	}
	if f.warnings, err = f.probe(); err != nil {
		return err
	}
	if err := f.live(); err != nil {
		return notVolume(f.root, f.dir, err)
	}
	f.sweep()
	return nil
}

func (f *File) openVolume() (v volume, err error) {
	want := f.options.ExpectVolume
	if want == "" {
		v, _, err = ensureVolume(f.root, f.dir)
		return v, err
	}
	if v, err = readVolume(f.root, f.dir); err == nil && v.Volume != want {
		return v, fmt.Errorf("%w: %q is volume %q, expected %q", ErrOtherVolume, f.dir, v.Volume, want)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return v, fmt.Errorf("%w: %q holds no volume, expected %q", ErrOtherVolume, f.dir, want)
	}
	return v, err
}

// Info is [Store.Info].
func (f *File) Info() Info {
	return Info{Volume: f.volume, Secret: f.secret, Replica: f.replica, Writable: f.writable.Load(), Warnings: f.warnings}
}

// Acquire is [Store.Acquire].
func (f *File) Acquire(ctx context.Context, id string) (Session, error) {
	if err := checkCall(ctx, id); err != nil {
		return nil, err
	}
	e, err := f.hold(ctx, id)
	if err != nil {
		return nil, sessionError(id, err)
	}
	s, err := f.loadEntry(e)
	if err != nil {
		f.release(e)
		return nil, sessionError(id, err)
	}
	return &fileSession{held: held{state: s.state}, f: f, e: e, s: s}, nil
}

// Close is [Store.Close]. Callers of Acquire that wait get ErrClosed.
func (f *File) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	close(f.closing)
	f.mu.Unlock()
	f.holders.Wait()

	f.mu.Lock()
	var rest []*entry
	for _, e := range f.entries {
		f.refLocked(e)
		rest = append(rest, e)
	}
	f.mu.Unlock()
	for _, e := range rest {
		f.evict(e)
	}
	f.die()
	return f.root.Close()
}

func (f *File) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// Replay is [Store.Replay].
func (f *File) Replay(id, key string) (Turn, bool) {
	if turn.CheckSessionID(id) != nil || key == "" {
		return Turn{}, false
	}
	f.mu.Lock()
	e := f.entries[fileName(id)]
	closed := f.closed
	f.mu.Unlock()
	if e == nil || closed {
		return Turn{}, false
	}
	t, file, ok := e.replay(key)
	if !ok {
		return Turn{}, false
	}
	// Another process may have deleted the session since.
	info, err := f.root.Stat(durable.OpSessionStat, e.path)
	return t, err == nil && info.ID == file
}

func (e *entry) replay(key string) (t Turn, file durable.FileID, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil {
		return Turn{}, file, false
	}
	i, ok := e.file.state.byKey[key]
	if !ok || e.file.state.turns[i].State != turn.Committed {
		return Turn{}, file, false
	}
	return e.file.state.turns[i], e.file.id, true
}

// View is [Store.View].
func (f *File) View(ctx context.Context, id string) (View, error) {
	if f.isClosed() {
		return View{}, ErrClosed
	}
	v, unsettled, err := f.view(ctx, id, f.runs)
	if err != nil || !unsettled || !f.settle(id) {
		return v, err
	}
	v, _, err = f.view(ctx, id, f.runs)
	return v, err
}

// settle makes a commit count whose process died before it could say so. It
// reports false when it cannot: somebody has the session, and will do it, or the
// volume does not let it. What could be shown before can be shown then.
func (f *File) settle(id string) bool {
	e, err := f.holdIfFree(id)
	if err == nil && e != nil {
		_, err = f.loadEntry(e)
		f.release(e)
	}
	if err != nil {
		f.log.Warn("a commit without a mark is not shown", "session", id, "error", err)
	}
	return err == nil && e != nil
}

// Turn is [Store.Turn].
func (f *File) Turn(ctx context.Context, turnID string) (Turn, error) {
	if f.isClosed() {
		return Turn{}, ErrClosed
	}
	t, unsettled, err := f.turn(ctx, turnID, f.runs)
	if err != nil || !unsettled {
		return t, err
	}
	// Its commit is in the file. Taking the session makes it count.
	s, err := f.Acquire(ctx, t.Session)
	if err != nil {
		return Turn{}, err
	}
	s.Release()
	t, _, err = f.turn(ctx, turnID, f.runs)
	return t, err
}

// runs knows of the turns of this process more than that it is alive.
func (f *File) runs(w identity, s *state) bool {
	if s.owner != f.replica {
		return f.alive(s.owner)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entries[w.name]
	return e != nil && e.running == s.turns[s.open].ID
}

// List is [Store.List].
func (f *File) List(ctx context.Context, after string, limit int) ([]Summary, string, error) {
	if f.isClosed() {
		return nil, "", ErrClosed
	}
	return f.list(ctx, after, limit, f.settle)
}

// writeError gives an error of the file system its identity, and notes when the
// volume has become read-only.
func (f *File) writeError(w identity, err error) error {
	kind := ErrUnavailable
	switch {
	case errors.Is(err, syscall.EROFS):
		f.writable.Store(false)
		kind = ErrReadOnly
	case isFull(err):
		kind = ErrNoSpace
	}
	return fmt.Errorf("%w: %s: %w", kind, w.path(), err)
}

// ensureShard makes the directory that a session's file goes into, and once in
// the life of this process its entry durable: another one may have made it and
// died.
func (f *File) ensureShard(w identity) error {
	dir := path.Dir(w.path())
	f.mu.Lock()
	done := f.shards[dir]
	f.mu.Unlock()
	if done {
		return nil
	}
	if err := durable.EnsureDir(f.root, durable.OpSessionMkdir, durable.OpShardSync, dir); err != nil {
		return err
	}
	f.mu.Lock()
	f.shards[dir] = true
	f.mu.Unlock()
	return nil
}

var _ Store = (*File)(nil)
