package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Reader looks at the sessions of one agent in a volume and writes nothing, not
// even a lock: for commands that look at conversations when nothing runs, and
// while something does. It shows of a session what is known to be durable. All
// methods may be called at once.
type Reader struct{ r *reader }

// OpenReader opens a volume for looking. A directory that is no volume is
// fs.ErrNotExist; an agent without a directory has no sessions.
func OpenReader(dir, agent string) (*Reader, error) {
	if !turn.ValidAgent(agent) {
		return nil, fmt.Errorf("invalid agent name %q", agent)
	}
	root, err := durable.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	v, err := readVolume(root, dir)
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &Reader{&reader{root, v.Volume, agent}}, nil
}

// View is [Store.View]. A turn whose commit was written and not acknowledged, or
// whose acknowledgement a power cut has left no trace of, is not shown until an
// agent has settled it.
func (r *Reader) View(ctx context.Context, id string) (View, error) {
	v, _, err := r.r.view(ctx, id, r.r.runs)
	return v, err
}

// Turn is [Store.Turn]. A turn that View does not show is Running.
func (r *Reader) Turn(ctx context.Context, turnID string) (Turn, error) {
	t, _, err := r.r.turn(ctx, turnID, r.r.runs)
	return t, err
}

// List is [Store.List].
func (r *Reader) List(ctx context.Context, after string, limit int) ([]Summary, string, error) {
	return r.r.list(ctx, after, limit, func(string) bool { return false })
}

// Close releases the volume.
func (r *Reader) Close() error { return r.r.root.Close() }

// reader is what looking needs; the file store looks through it too.
type reader struct {
	root   durable.FS
	volume string
	agent  string
}

// runs says whether the open turn of a state is being worked on.
type runs func(w identity, s *state) bool

func (r *reader) runs(_ identity, s *state) bool { return r.alive(s.owner) }

func (r *reader) dir() string { return agentsDir + "/" + r.agent }

func (r *reader) under(sub string) string { return r.dir() + "/" + sub }

// named is the identity of a file whose session is not known yet.
func (r *reader) named(name string) identity {
	return identity{volume: r.volume, agent: r.agent, name: name}
}

func (r *reader) identify(id string) identity {
	w := r.named(fileName(id))
	w.session = id
	return w
}

// load reads and judges a file without its lock. The hint is read first: it
// never leads, so whatever it names is in the data that is read after it,
// unless the session was deleted and made anew in between; hence the second
// look at what seems damaged.
func (r *reader) load(w identity) (*fileLog, durable.Info, error) {
	const looks = 3
	for look := 1; ; look++ {
		l, info, err := r.loadOnce(w)
		if _, damaged := errors.AsType[*DamagedError](err); !damaged || look == looks {
			return l, info, err
		}
	}
}

func (r *reader) loadOnce(w identity) (*fileLog, durable.Info, error) {
	h, err := r.readHint(w)
	if err != nil {
		return nil, durable.Info{}, err
	}
	data, info, err := r.readSession(w)
	if errors.Is(err, fs.ErrNotExist) {
		if err := w.absent(h); err != nil {
			return nil, info, err
		}
		return nil, info, ErrNoSession
	}
	if err != nil {
		return nil, info, unavailable(w, err)
	}
	if h.kind == hintDeleted {
		return nil, info, ErrNoSession
	}
	l, err := recoverLog(data, w, h)
	return l, info, err
}

func (r *reader) readHint(w identity) (hint, error) {
	b, err := durable.ReadFile(r.root, durable.OpHintRead, w.lock())
	if errors.Is(err, fs.ErrNotExist) {
		return hint{kind: hintNone}, nil
	}
	if err != nil {
		return hint{}, unavailable(w, err)
	}
	return decodeHint(w, b), nil
}

func (r *reader) readSession(w identity) ([]byte, durable.Info, error) {
	f, err := r.root.Open(durable.OpSessionOpen, w.path(), os.O_RDONLY)
	if err != nil {
		return nil, durable.Info{}, err
	}
	defer f.Close()
	info, err := f.Stat(durable.OpSessionStat)
	if err != nil {
		return nil, info, err
	}
	data, err := durable.ReadAll(f, durable.OpSessionRead)
	return data, info, err
}

// unavailable says that a file gave no answer, which is never the answer "it is
// empty".
func unavailable(w identity, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, w.path(), err)
}

// settled reads a session until the answer to "does its open turn run?" holds:
// a process may commit between the look at its file and the look for it, and
// only after it is gone the file says how it ended.
func (r *reader) settled(w identity, running runs) (l *fileLog, s *state, alive bool, info durable.Info, err error) {
	for gone := false; ; gone = true {
		if l, info, err = r.load(w); err != nil {
			return nil, nil, false, info, err
		}
		if s, err = l.replay(w, false); err != nil {
			return nil, nil, false, info, err
		}
		alive = s.open >= 0 && running(w, s)
		if s.open < 0 || alive || gone {
			return l, s, alive, info, nil
		}
	}
}

// view reports unsettled as turn does.
func (r *reader) view(ctx context.Context, id string, running runs) (v View, unsettled bool, err error) {
	if err := checkCall(ctx, id); err != nil {
		return View{}, false, err
	}
	l, s, alive, info, err := r.settled(r.identify(id), running)
	if err != nil {
		return View{}, false, sessionError(id, err)
	}
	return s.view(alive, info.Size), l.unmarked() && !alive, nil
}

// view copies what a reader gets of a state.
func (s *state) view(alive bool, size int64) View {
	v := View{Checkpoint: s.checkpoint(), Turns: slices.Clone(s.turns), Bytes: size}
	if s.open >= 0 {
		v.Turns[s.open] = s.turn(s.open, alive)
	}
	return v
}

// turn finds a turn. It reports unsettled when the turn's commit is in the file,
// was not acknowledged, and its process is gone: whoever takes the session next
// will make it count.
func (r *reader) turn(ctx context.Context, turnID string, running runs) (t Turn, unsettled bool, err error) {
	if err := ctx.Err(); err != nil {
		return Turn{}, false, context.Cause(ctx)
	}
	name, ok := sessionOfTurn(turnID)
	if !ok {
		return Turn{}, false, ErrNoTurn
	}
	w := r.named(name)
	l, s, alive, _, err := r.settled(w, running)
	if errors.Is(err, ErrNoSession) {
		return Turn{}, false, ErrNoTurn
	}
	if err != nil {
		return Turn{}, false, err
	}
	i, ok := s.findID(turnID)
	if !ok {
		return Turn{}, false, ErrNoTurn
	}
	unsettled = i == s.open && l.unmarked()
	return s.turn(i, alive || unsettled), unsettled && !alive, nil
}

// checkCall refuses what no call of a store takes.
func checkCall(ctx context.Context, id string) error {
	if err := turn.CheckSessionID(id); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// sessionError names the session in the errors that do not.
func sessionError(id string, err error) error {
	if _, named := errors.AsType[*DamagedError](err); named || err == nil {
		return err
	}
	return fmt.Errorf("session %q: %w", id, err)
}
