package checkpoint

import (
	"context"
	"encoding/json"
	"testing"
)

func openStore(tb testing.TB, dir string, o Options) *File {
	tb.Helper()
	if o.Agent == "" {
		o.Agent = "bot"
	}
	f, err := Open(dir, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return f
}

func quoted(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// oneTurn takes a session through a whole turn, as the turn engine does.
func oneTurn(ctx context.Context, store Store, id, key, input, reply string) (Turn, error) {
	s, err := store.Acquire(ctx, id)
	if err != nil {
		return Turn{}, err
	}
	defer s.Release()
	cp := s.Checkpoint()
	if _, err := s.Begin(Begin{Key: key, InputHash: input, Input: quoted(input)}); err != nil {
		return Turn{}, err
	}
	return s.Commit(Commit{
		Messages: cp.Messages,
		Add:      []Message{{Role: "user", Content: quoted(input)}, {Role: "assistant", Content: quoted(reply)}},
		Reply:    quoted(reply),
	})
}
