package checkpoint

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
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

// twin opens a store on a file system that can be told to fail.
func twin(tb testing.TB, dir string, o Options) (*File, *durabletest.FS) {
	tb.Helper()
	var fsys *durabletest.FS
	o.wrap = func(inner durable.FS) durable.FS {
		fsys = durabletest.New(inner)
		return fsys
	}
	f := openStore(tb, dir, o)
	fsys.Ops()
	return f, fsys
}

// mustTurn is oneTurn for a test that needs it to work.
func mustTurn(tb testing.TB, store Store, id, key, input, reply string) Turn {
	tb.Helper()
	t, err := oneTurn(tb.Context(), store, id, key, input, reply)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// pathOf is where a session's file is.
func pathOf(dir, id string) string {
	return filepath.Join(dir, filepath.FromSlash(identity{agent: "bot", name: fileName(id)}.path()))
}

func lockOf(dir, id string) string {
	return filepath.Join(dir, filepath.FromSlash(identity{agent: "bot", name: fileName(id)}.lock()))
}

func readFile(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func writeFile(tb testing.TB, name string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// tree lists the files below a directory.
func tree(tb testing.TB, dir string) (names []string) {
	tb.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return names
}
