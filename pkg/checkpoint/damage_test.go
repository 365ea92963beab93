package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/flisk-go/flisk/pkg/turn"
)

// victim is a small session file as the store writes it, with what it
// acknowledged.
type victim struct {
	dir        string
	path, lock string
	data, hint []byte
	turns      int
	who        identity
}

func makeVictim(t *testing.T) victim {
	t.Helper()
	v := victim{dir: t.TempDir(), turns: 3}
	f := openStore(t, v.dir, Options{})
	for i := range v.turns {
		mustTurn(t, f, "s", fmt.Sprint("k", i+1), fmt.Sprint("in ", i+1), fmt.Sprint("out ", i+1))
	}
	v.who = f.identify("s")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	v.path, v.lock = pathOf(v.dir, "s"), lockOf(v.dir, "s")
	v.data, v.hint = readFile(t, v.path), readFile(t, v.lock)
	return v
}

// whole reports whether a state has every acknowledged turn.
func (v victim) whole(s *state) bool {
	if s.committed != v.turns || len(s.messages) != 2*v.turns {
		return false
	}
	for i := range v.turns {
		j, ok := s.byKey[fmt.Sprint("k", i+1)]
		if !ok || s.turns[j].State != turn.Committed || string(s.turns[j].Reply) != string(quoted(fmt.Sprint("out ", i+1))) {
			return false
		}
	}
	return true
}

// judge recovers damaged bytes. It reports whether they were refused, and fails
// the test when they were taken and a turn is missing.
func (v victim) judge(t *testing.T, what string, data []byte, h hint) (refused bool) {
	t.Helper()
	l, err := recoverLog(data, v.who, h)
	var s *state
	if err == nil {
		s, err = l.replay(v.who, true)
	}
	if err != nil {
		if _, ok := errors.AsType[*DamagedError](err); !ok {
			t.Fatalf("%s: %v", what, err)
		}
		return true
	}
	if !v.whole(s) {
		t.Fatalf("%s: turn %d of %d without a word", what, s.committed, v.turns)
	}
	return false
}

// TestDamageIsNeverSilent flips every bit of a file, with its hint and without,
// and cuts it at every length: an acknowledged turn is there, or the session is
// refused.
func TestDamageIsNeverSilent(t *testing.T) {
	t.Parallel()
	v := makeVictim(t)
	known := decodeHint(v.who, v.hint)
	if known.kind != hintSynced {
		t.Fatalf("hint is %+v", known)
	}
	refused, kept := 0, 0
	count := func(r bool) {
		if r {
			refused++
		} else {
			kept++
		}
	}
	for _, h := range []hint{known, {kind: hintNone}} {
		for i := range v.data {
			for bit := range 8 {
				data := bytes.Clone(v.data)
				data[i] ^= 1 << bit
				count(v.judge(t, fmt.Sprintf("byte %d, bit %d", i, bit), data, h))
			}
		}
	}
	for n := range v.data {
		count(v.judge(t, fmt.Sprintf("cut at %d", n), v.data[:n], known))
	}
	for sector := 0; sector < len(v.data); sector += 512 {
		data := bytes.Clone(v.data)
		clear(data[sector:min(len(data), sector+512)])
		count(v.judge(t, fmt.Sprintf("sector at %d", sector), data, known))
	}
	lines := bytes.SplitAfter(v.data, []byte("\n"))
	for i := range lines[:len(lines)-1] {
		without := bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
		count(v.judge(t, fmt.Sprintf("without line %d", i), without, known))
		twice := bytes.Join(append(append([][]byte{}, lines[:i+1]...), lines[i:]...), nil)
		count(v.judge(t, fmt.Sprintf("line %d twice", i), twice, known))
	}
	t.Logf("%d bytes: %d refused, %d kept whole", len(v.data), refused, kept)
	if refused+kept < 10_000 || refused == 0 || kept == 0 {
		t.Error("too little was covered")
	}
}

// TestDamagedSessionIsLeftAlone: through the store, one random bit of each
// byte. A refused file is not touched; a repaired one goes on.
func TestDamagedSessionIsLeftAlone(t *testing.T) {
	t.Parallel()
	v := makeVictim(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	f := openStore(t, v.dir, Options{CacheBytes: -1})
	mustTurn(t, f, "other", "", "in", "out")
	refused := 0
	const step = 3 // every third byte, from another one each time
	for i := r.IntN(step); i < len(v.data); i += step {
		data := bytes.Clone(v.data)
		data[i] ^= 1 << r.IntN(8)
		writeFile(t, v.path, data)
		writeFile(t, v.lock, v.hint)
		s, err := f.Acquire(t.Context(), "s")
		if err != nil {
			refused++
			if _, ok := errors.AsType[*DamagedError](err); !ok {
				t.Fatalf("byte %d: %v", i, err)
			}
			if !bytes.Equal(readFile(t, v.path), data) {
				t.Fatalf("byte %d: a refused file was touched", i)
			}
			if _, err := f.View(t.Context(), "s"); err == nil {
				t.Fatalf("byte %d: a refused file is shown", i)
			}
			continue
		}
		whole := v.whole(s.(*fileSession).state)
		s.Release()
		if !whole {
			t.Fatalf("byte %d: a turn is missing without a word", i)
		}
	}
	if got := mustTurn(t, f, "other", "", "in", "out"); got.Number != 2 {
		t.Errorf("the other session is at turn %d", got.Number)
	}
	t.Logf("%d refused", refused)
}

// TestC32_BrokenFilesAreRefused: what crashes and full disks are reported to
// leave behind. Such a session never begins anew, is listed with its error, and
// can be deleted.
func TestC32_BrokenFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(v victim) error{
		"empty":     func(v victim) error { return os.Truncate(v.path, 0) },
		"zeros":     func(v victim) error { return os.WriteFile(v.path, make([]byte, len(v.data)), 0o600) },
		"half":      func(v victim) error { return os.Truncate(v.path, int64(len(v.data)/2)) },
		"gone":      func(v victim) error { return os.Remove(v.path) },
		"gone, tmp": func(v victim) error { return os.Rename(v.path, v.path+".tmp") },
	} {
		v := makeVictim(t)
		if err := breakIt(v); err != nil {
			t.Fatal(err)
		}
		f := openStore(t, v.dir, Options{})
		_, err := f.Acquire(t.Context(), "s")
		if _, ok := errors.AsType[*DamagedError](err); !ok {
			t.Errorf("%s: Acquire: %v", name, err)
		}
		_, err = f.View(t.Context(), "s")
		if _, ok := errors.AsType[*DamagedError](err); !ok {
			t.Errorf("%s: View: %v", name, err)
		}
		rows, _, err := f.List(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) != 1 || rows[0].Err == nil {
			t.Errorf("%s: listed as %+v", name, rows)
		}
		if err := f.Delete(t.Context(), "s"); err != nil {
			t.Errorf("%s: Delete: %v", name, err)
		}
		if got := mustTurn(t, f, "s", "", "in", "out"); got.Number != 1 {
			t.Errorf("%s: turn %d after the deletion", name, got.Number)
		}
	}
}

// TestC32_TornEndIsCut: what was never acknowledged goes, and the rest is whole.
func TestC32_TornEndIsCut(t *testing.T) {
	t.Parallel()
	for name, tail := range map[string][]byte{
		"half a line": []byte(`{"h":"0123`), "zeros": make([]byte, 5000), "line breaks": []byte("\n\n\n"),
		"another file's line": appendLine(nil, testSalt, 13, 11, testTime, note{kindMark}),
	} {
		v := makeVictim(t)
		writeFile(t, v.path, append(bytes.Clone(v.data), tail...))
		f := openStore(t, v.dir, Options{})
		if view, err := f.View(t.Context(), "s"); err != nil || view.Turn != v.turns {
			t.Errorf("%s: seen at turn %d, %v", name, view.Turn, err)
		}
		if got := mustTurn(t, f, "s", "", "in", "out"); got.Number != v.turns+1 {
			t.Errorf("%s: turn %d", name, got.Number)
		}
		if data := readFile(t, v.path); !bytes.HasPrefix(data, v.data) || bytes.Contains(data, tail) {
			t.Errorf("%s: the file is not cut", name)
		}
	}
}

// TestInterruptedDeletionIsFinished: the hint says deleted, and the file is
// still there.
func TestInterruptedDeletionIsFinished(t *testing.T) {
	t.Parallel()
	v := makeVictim(t)
	writeFile(t, v.lock, hint{kind: hintDeleted}.append(nil, v.who))
	f := openStore(t, v.dir, Options{})
	if _, err := f.View(t.Context(), "s"); !errors.Is(err, ErrNoSession) {
		t.Errorf("View: %v", err)
	}
	if rows, _, err := f.List(t.Context(), "", 10); err != nil || len(rows) != 0 {
		t.Errorf("List: %+v, %v", rows, err)
	}
	s, err := f.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if got, err := s.Begin(Begin{Input: quoted("in")}); err != nil || got.Number != 1 {
		t.Fatalf("turn %d, %v", got.Number, err)
	}
	// From its first line on it is a session again, whatever comes next.
	if v, err := f.View(t.Context(), "s"); err != nil || len(v.Turns) != 1 {
		t.Errorf("made anew: %+v, %v", v, err)
	}
}
