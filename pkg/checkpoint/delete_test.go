package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
)

var errPowerCut = errors.New("the process died here")

// TestAnnouncedDeletionReachesWhoIsWarm: a process announces a deletion and dies
// before it removes the file. Another one has the session loaded. What that one
// acknowledges from then on must outlive the end of the deletion.
func TestAnnouncedDeletionReachesWhoIsWarm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dying, fsys := twin(t, dir, Options{})
	warm := openStore(t, dir, Options{})
	mustTurn(t, warm, "s", "old", "in", "out")
	fsys.Fail(durabletest.Fault{Op: durable.OpDeleteRemove, Err: errPowerCut})
	if err := dying.Delete(t.Context(), "s"); !errors.Is(err, errPowerCut) {
		t.Fatalf("the deletion: %v", err)
	}
	if got := mustTurn(t, warm, "s", "new", "in", "acknowledged"); got.Number != 1 {
		t.Errorf("the first turn after the deletion is number %d", got.Number)
	}
	for name, f := range map[string]*File{"loaded": warm, "read anew": openStore(t, dir, Options{})} {
		v, err := f.View(t.Context(), "s")
		if err != nil || v.Turn != 1 || v.Turns[0].Key != "new" {
			t.Errorf("%s: the acknowledged turn: %+v, %v", name, v.Turns, err)
		}
		s, err := f.Acquire(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.ByKey("new"); !ok {
			t.Errorf("%s: the acknowledged turn is gone", name)
		}
		s.Release()
	}
}

// TestTurnIDsAreNotUsedAgain: an id names one turn of the volume, also when its
// session was deleted, whatever state it was in.
func TestTurnIDsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(t *testing.T, dir string){
		"whole":      func(*testing.T, string) {},
		"torn":       func(t *testing.T, dir string) { cutFile(t, pathOf(dir, "s"), 700) },
		"no header":  func(t *testing.T, dir string) { zeroFile(t, pathOf(dir, "s"), 50) },
		"lost hint":  func(t *testing.T, dir string) { cutFile(t, lockOf(dir, "s"), 0) },
		"neither":    func(t *testing.T, dir string) { zeroFile(t, pathOf(dir, "s"), 50); cutFile(t, lockOf(dir, "s"), 0) },
		"hint of it": func(t *testing.T, dir string) { cutFile(t, pathOf(dir, "s"), 0) },
	} {
		dir := t.TempDir()
		f := openStore(t, dir, Options{CacheBytes: -1})
		ids := map[string]string{}
		for round := range 3 {
			for i := range 4 {
				what := fmt.Sprintf("turn %d of life %d", i, round)
				got := mustTurn(t, f, "s", "", "in", "out")
				if was, twice := ids[got.ID]; twice {
					t.Errorf("%s: %s and %s are both %q", name, was, what, got.ID)
				}
				ids[got.ID] = what
			}
			if round == 1 { // a life that did not begin with line 1 of its name
				breakIt(t, dir)
			}
			if err := f.Delete(t.Context(), "s"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for id := range ids {
				if _, err := f.Turn(t.Context(), id); !errors.Is(err, ErrNoTurn) {
					t.Errorf("%s: a deleted turn: %v", name, err)
				}
			}
			if round == 1 { // and a process that died before its next first turn
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				var fsys *durabletest.FS
				f, fsys = twin(t, dir, Options{CacheBytes: -1})
				fsys.Fail(durabletest.Fault{Op: durable.OpCreateRename, Err: errPowerCut})
				if _, err := oneTurn(t.Context(), f, "s", "", "in", "out"); err == nil {
					t.Fatal("a turn without its file")
				}
				fsys.Heal()
			}
		}
	}
}

func TestTurnIDsOfMemoryAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	t.Cleanup(func() { _ = m.Close() })
	before := mustTurn(t, m, "s", "", "in", "out")
	if err := m.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if after := mustTurn(t, m, "s", "", "in", "out"); after.ID == before.ID || after.Number != 1 {
		t.Errorf("%+v follows %+v", after, before)
	}
}

func TestMinLineIsLessThanAnyLine(t *testing.T) {
	t.Parallel()
	if shortest := len(appendLine(nil, testSalt, 1, 0, testTime, note{kindMark})); shortest < minLine {
		t.Errorf("a line of %d bytes", shortest)
	}
}

func cutFile(t *testing.T, name string, size int) {
	t.Helper()
	writeFile(t, name, readFile(t, name)[:size])
}

func zeroFile(t *testing.T, name string, bytes int) {
	t.Helper()
	data := readFile(t, name)
	writeFile(t, name, append([]byte(strings.Repeat("\x00", bytes)), data[bytes:]...))
}
