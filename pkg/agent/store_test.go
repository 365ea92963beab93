package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// faulty is a store that fails where it is told to.
type faulty struct {
	checkpoint.Store
	acquire, begin, commit error
	acquired               func() // ends the wait for a session that is held by now
	begins                 int    // calls of Begin
	readOnly               bool
	failed                 []string // reasons of Fail
	forgetful              bool     // Replay finds nothing, as in a process that has loaded nothing
}

type faultySession struct {
	checkpoint.Session
	store *faulty
}

func (f *faulty) Acquire(ctx context.Context, id string) (checkpoint.Session, error) {
	if f.acquire != nil {
		return nil, fmt.Errorf("opening %q: %w", id, f.acquire)
	}
	s, err := f.Store.Acquire(ctx, id)
	if f.acquired != nil {
		f.acquired()
		<-ctx.Done()
	}
	return &faultySession{s, f}, err
}

func (f *faulty) Replay(id, key string) (checkpoint.Turn, bool) {
	if f.forgetful {
		return checkpoint.Turn{}, false
	}
	return f.Store.Replay(id, key)
}

func (f *faulty) Info() checkpoint.Info {
	info := f.Store.Info()
	info.Writable = !f.readOnly
	return info
}

func (s *faultySession) Begin(b checkpoint.Begin) (checkpoint.Turn, error) {
	s.store.begins++
	if s.store.begin != nil {
		return checkpoint.Turn{}, fmt.Errorf("beginning: %w", s.store.begin)
	}
	return s.Session.Begin(b)
}

func (s *faultySession) Commit(c checkpoint.Commit) (checkpoint.Turn, error) {
	if s.store.commit != nil {
		return checkpoint.Turn{}, fmt.Errorf("committing: %w", s.store.commit)
	}
	return s.Session.Commit(c)
}

func (s *faultySession) Fail(reason string) error {
	s.store.failed = append(s.store.failed, reason)
	return s.Session.Fail(reason)
}

// serveFaulty serves remember on a memory store that can be made to fail.
func serveFaulty(t *testing.T) (*testAgent, *faulty) {
	t.Helper()
	store := &faulty{Store: checkpoint.NewMemory()}
	s := NewServer(remember, store, turn.DefaultEnv(), slog.New(slog.NewTextHandler(testLog{t}, nil)))
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		s.Close()
	})
	return &testAgent{Server: s, addr: server.Listener.Addr().String()}, store
}

func TestStoreErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		set     func(*faulty)
		status  int
		problem turn.Code
		says    string
		fails   bool // the begun turn is ended
	}{
		{"damaged", func(f *faulty) { f.acquire = &checkpoint.DamagedError{Session: "s", Path: "a/bot/x", Reason: "rot"} }, 503, turn.SessionDamaged, "rot", false},
		{"newer", func(f *faulty) { f.acquire = &checkpoint.DamagedError{Newer: true, Reason: "format 9"} }, 503, turn.SessionDamaged, "newer version", false},
		{"unreadable", func(f *faulty) { f.acquire = checkpoint.ErrUnavailable }, 503, turn.Unavailable, "", false},
		{"unheard of", func(f *faulty) { f.acquire = os.ErrPermission }, 503, turn.Unavailable, "", false},
		{"closed", func(f *faulty) { f.acquire = checkpoint.ErrClosed }, 503, turn.Draining, "", false},
		{"read-only", func(f *faulty) { f.acquire = checkpoint.ErrReadOnly }, 503, turn.ReadOnly, "", false},
		{"no space to begin", func(f *faulty) { f.begin = checkpoint.ErrNoSpace }, 507, turn.NoSpace, "", false},
		{"input too large", func(f *faulty) { f.begin = checkpoint.ErrTooLarge }, 413, turn.TooLarge, "", false},
		{"no space to commit", func(f *faulty) { f.commit = checkpoint.ErrNoSpace }, 507, turn.NoSpace, "", true},
		{"too large", func(f *faulty) { f.commit = checkpoint.ErrTooLarge }, 500, turn.ReplyTooLarge, "", true},
		{"lost lock", func(f *faulty) { f.commit = checkpoint.ErrLostLock }, 503, turn.Unavailable, "nothing was committed", false},
		{"read-only at commit", func(f *faulty) { f.commit = checkpoint.ErrReadOnly }, 503, turn.ReadOnly, "", false},
		{"unknown", func(f *faulty) { f.commit = checkpoint.ErrCommitUnknown }, 503, turn.CommitUnknown, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, store := serveFaulty(t)
			a.turn(t.Context(), "s", "", "a").want(t, 200, "")
			c.set(store)
			got := a.turn(t.Context(), "s", "k", "b")
			got.want(t, c.status, c.problem)
			if !strings.Contains(got.detail, c.says) {
				t.Errorf("detail %q, want %q in it", got.detail, c.says)
			}
			if retry := got.header.Get("Retry-After") != ""; retry != c.problem.Retryable() {
				t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
			}
			if store.commit != nil && got.header.Get(turn.HeaderTurn) == "" {
				t.Error("a client cannot ask for the turn: no id")
			}
			if got.header.Get(turn.HeaderSession) != "s" || (len(store.failed) > 0) != c.fails {
				t.Errorf("session %q, failures %q", got.header.Get(turn.HeaderSession), store.failed)
			}
			store.acquire, store.begin, store.commit = nil, nil, nil
			after := a.turn(t.Context(), "s", "k", "b")
			after.want(t, 200, "")
			if after.result.Turn != 2 || after.result.Replayed {
				t.Errorf("afterwards: %s", after.body)
			}
		})
	}
}

func TestReadOnlyStoreKeepsReplaysAndReadsUp(t *testing.T) {
	t.Parallel()
	a, store := serveFaulty(t)
	first := a.turn(t.Context(), "s", "k", "a")
	first.want(t, 200, "")
	store.readOnly, store.forgetful, store.acquire = true, true, checkpoint.ErrReadOnly
	again := a.turn(t.Context(), "s", "k", "a")
	again.want(t, 200, "")
	if !again.result.Replayed || string(again.result.Reply) != string(first.result.Reply) {
		t.Errorf("replay %s", again.body)
	}
	a.turn(t.Context(), "s", "k", "b").want(t, 422, turn.KeyReused)
	a.turn(t.Context(), "s", "new", "a").want(t, 503, turn.ReadOnly)
	if view := a.view(t, "s"); view.Turns != 1 {
		t.Errorf("session %+v", view)
	}
	if ready := decode[turn.Ready](t, a.get("/ready")); !ready.Ready || ready.Store != "read-only" {
		t.Errorf("ready %+v", ready)
	}
}

func TestC32_ADamagedSessionIsAnErrorAndOthersWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startAgent(t, dir)
	p.turn(t.Context(), "s", "", script{Say: "a"}).want(t, 200, "")
	p.kill(t)
	found, err := filepath.Glob(filepath.Join(dir, "a", "bot", "s", "*", "*.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("session files %q, %v", found, err)
	}
	if err := os.Truncate(found[0], 0); err != nil {
		t.Fatal(err)
	}
	p = startAgent(t, dir)
	p.turn(t.Context(), "s", "", script{Say: "b"}).want(t, 503, turn.SessionDamaged)
	p.get("/api/bot/sessions/s").want(t, 503, turn.SessionDamaged)
	p.turn(t.Context(), "other", "", script{Say: "b"}).want(t, 200, "")
	if info, err := os.Stat(found[0]); err != nil || info.Size() != 0 {
		t.Errorf("the damaged file is now %v, %v", info, err)
	}
}
