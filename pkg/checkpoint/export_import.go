package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// ErrSessionExists says that an id is taken.
var ErrSessionExists = errors.New("the session exists already")

// Import makes a session of an export one of this store's agent, which need not
// be the agent that it was exported from. It takes the session's lock, so agents
// may run, and its file appears whole or not at all. Turn ids, turn keys and
// replies stay what they were.
//
// Errors: [ErrSessionExists], also for a session that is there and cannot be
// read (it wraps the [*DamagedError] then); [ErrExport] when the export has
// changed; [ErrReadOnly], [ErrNoSpace], [ErrUnavailable], [ErrClosed], ctx's
// cause.
func (f *File) Import(ctx context.Context, x *Export, i int) error {
	s, err := x.read(i)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e, err := f.hold(ctx, s.session)
	if err != nil {
		return sessionError(s.session, err)
	}
	defer f.release(e)
	return sessionError(s.session, f.importHeld(e, s))
}

func (f *File) importHeld(e *entry, in *state) error {
	there, err := f.loadEntry(e)
	switch _, damaged := errors.AsType[*DamagedError](err); {
	case damaged:
		return fmt.Errorf("%w: %w", ErrSessionExists, err)
	case err != nil:
		return err
	case there.file != nil:
		return ErrSessionExists
	}
	last, err := turnLine(in.turns[len(in.turns)-1].ID)
	if err != nil {
		return err
	}
	next := image{who: e.who, salt: newSalt(), now: f.options.now(), state: in}
	parts := next.parts()
	// No line that follows may give a turn an id that one has already, here or
	// where the session comes from.
	next.last = max(there.n+uint64(len(parts)), last, uint64(len(parts)))
	data := next.encodeParts(parts)
	if err := next.readBack(data, next.last); err != nil {
		return err
	}
	if err := f.ensureShard(e.who); err != nil {
		return f.writeError(e.who, err)
	}
	s := &sessionFile{state: in, n: next.last}
	err = f.place(e, s, next.salt, data, durable.WriteOptions{
		Place: durable.CreateFile, BeforePlace: func() error { return f.clearDeletion(e) },
	})
	if err != nil {
		// It may have got its name and not keep it in a power cut. Nothing of it
		// was promised: take it away again.
		_ = f.root.Remove(durable.OpDeleteRemove, e.who.path())
		return f.writeError(e.who, err)
	}
	f.markRewritten(e, s)
	e.mu.Lock()
	e.file = s
	e.mu.Unlock()
	return nil
}
