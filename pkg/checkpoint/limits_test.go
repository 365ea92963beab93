package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
)

// nested is a value of arrays and objects in turn, so many levels deep.
func nested(depth int) json.RawMessage {
	var open, shut strings.Builder
	for i := range depth {
		if i%2 == 0 {
			open.WriteString("[")
		} else {
			open.WriteString(`{"a":`)
		}
	}
	for i := depth - 1; i >= 0; i-- {
		shut.WriteString(map[bool]string{true: "]", false: "}"}[i%2 == 0])
	}
	middle := ""
	if depth%2 == 0 {
		middle = "1"
	}
	return json.RawMessage(open.String() + middle + shut.String())
}

func TestDepthIsCounted(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{
		`1`: 0, `"[[["`: 0, `[]`: 1, `{"a":[1,[2]],"b":{}}`: 3, `["\"[[",{"[":"\\"}]`: 2, `[[],[],[[]]]`: 3, `["\\\"[",[]]`: 2,
	} {
		if got := depth([]byte(value)); got != want {
			t.Errorf("%s has depth %d, want %d", value, got, want)
		}
	}
	for _, deep := range []int{1, 2, 999, 1000} {
		if v := nested(deep); !json.Valid(v) || depth(v) != deep {
			t.Errorf("depth %d of %s", depth(v), v)
		}
	}
}

// TestDeepestValuesAreReadAgain: what may be committed can be read, from lines,
// from a rewritten file, and from one that was rewritten twice.
func TestDeepestValuesAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, fsys := twin(t, dir, Options{})
	deep := nested(MaxDepth)
	commit := func() {
		t.Helper()
		s, err := f.Acquire(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		if _, err := s.Begin(Begin{Input: deep}); err != nil {
			t.Fatal(err)
		}
		other := slices.Concat(deep[:1], []byte(" "), deep[1:]) // not the input, not the reply
		_, err = s.Commit(Commit{Messages: s.Checkpoint().Messages, Add: []Message{{Role: "a", Content: deep}, {Role: "b", Content: other}}, Reply: deep, State: deep})
		if err != nil {
			t.Fatal(err)
		}
	}
	for turn := 1; turn <= 3; turn++ {
		commit()
		again := openStore(t, dir, Options{})
		v, err := again.View(t.Context(), "s")
		if err != nil || v.Turn != turn || !bytes.Equal(v.Messages[0].Content, deep) || !bytes.Equal(v.State, deep) {
			t.Fatalf("turn %d: %v", v.Turn, err)
		}
		s, err := again.Acquire(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		s.Release()
		fsys.Fail(durabletest.Fault{Op: durable.OpCommitSync, Err: syscall.EIO, Nth: 1}) // the next one is rewritten
	}
}

// TestTooDeepIsTooLarge, wherever it comes in, in both stores.
func TestTooDeepIsTooLarge(t *testing.T) {
	t.Parallel()
	memory := NewMemory()
	t.Cleanup(func() { _ = memory.Close() })
	for name, store := range map[string]Store{"file": openStore(t, t.TempDir(), Options{}), "memory": memory} {
		for _, deep := range []int{MaxDepth + 1, 9_999, 10_001} {
			v := nested(deep)
			s, err := store.Acquire(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Release)
			if _, err := s.Begin(Begin{Input: v}); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: input of depth %d: %.200v", name, deep, err)
			}
			if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil {
				t.Fatal(err)
			}
			for what, c := range map[string]Commit{
				"the reply": {Reply: v}, "message 1": {Reply: quoted("out"), Add: []Message{{Role: "a", Content: v}}}, "the state": {Reply: quoted("out"), State: v},
			} {
				_, err := s.Commit(c)
				if want := fmt.Sprintf("%s is nested %d levels deep, at most %d", what, deep, MaxDepth); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %s of depth %d: %.200v", name, what, deep, err)
				}
			}
			if _, err := s.Commit(Commit{Reply: quoted("out")}); err != nil {
				t.Errorf("%s: the turn is not begun any more: %v", name, err)
			}
			s.Release()
		}
	}
}

// TestUnreadableFileReplacesNothing: a way for it that is not known yet is made
// by hand. The session stays as it was.
func TestUnreadableFileReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(s *state){
		"too deep":    func(s *state) { s.messages[0].Content = nested(9_999) },
		"not JSON":    func(s *state) { s.messages[0].Content = json.RawMessage("{") },
		"other bytes": func(s *state) { s.talk++ },
	} {
		dir := t.TempDir()
		f, fsys := twin(t, dir, Options{})
		mustTurn(t, f, "s", "a", "in a", "out a")
		before := readFile(t, pathOf(dir, "s"))
		s, err := f.Acquire(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Begin(Begin{Key: "b", Input: quoted("in b")}); err != nil {
			t.Fatal(err)
		}
		spoil(s.(*fileSession).state)
		fsys.Fail(durabletest.Fault{Op: durable.OpCommitSync, Err: syscall.EIO, Nth: 1})
		err = commitB(s)
		if _, damaged := errors.AsType[*DamagedError](err); !errors.Is(err, ErrCommitUnknown) || damaged {
			t.Errorf("%s: %v", name, err)
		}
		s.Release()
		if after := readFile(t, pathOf(dir, "s")); !bytes.HasPrefix(after, before) {
			t.Errorf("%s: the file was replaced", name)
		}
		if n := durabletest.Count(fsys.Ops(), durable.OpRewriteOpen); n != 0 {
			t.Errorf("%s: something was written", name)
		}
		if got := mustTurn(t, f, "s", "c", "in", "out"); got.Number != 3 {
			t.Errorf("%s: the next turn is %d", name, got.Number)
		}
	}
}

// grow makes a conversation eight times as long by references, a turn each, until
// the store refuses. It returns the turn that was refused.
func grow(t *testing.T, f *File, rewrite func(turn int)) (refused int) {
	t.Helper()
	big := quoted(strings.Repeat("x", 4<<20))
	for n := 1; n < 8; n++ {
		rewrite(n)
		s, err := f.Acquire(t.Context(), "s")
		if err != nil {
			t.Fatalf("turn %d: %v", n, err)
		}
		t.Cleanup(s.Release)
		if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil {
			t.Fatal(err)
		}
		c := Commit{Messages: []Message{{Role: "system", Content: quoted(fmt.Sprint("turn ", n))}, {Role: "user", Content: big}}, Reply: quoted("out")}
		if old := s.Checkpoint().Messages; len(old) > 0 {
			c.Messages = append(c.Messages[:1], slices.Repeat(old[1:], 4)...)
			c.Add = slices.Repeat(old[1:], 4)
		}
		_, err = s.Commit(c)
		if errors.Is(err, ErrTooLarge) { // it can still shrink
			c.Messages, c.Add = c.Messages[:2], nil
			_, err = s.Commit(c)
			refused = n
		}
		s.Release()
		if err != nil {
			t.Fatalf("turn %d: %v", n, err)
		}
		if refused > 0 {
			return refused
		}
	}
	return 0
}

// TestGrownConversationIsRewritten: a few lines that refer to old messages need
// more lines than they are when their snapshot is written.
func TestGrownConversationIsRewritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, fsys := twin(t, dir, Options{})
	refused := grow(t, f, func(n int) {
		if n == 2 { // 8 messages of 4 MiB, in 7 lines
			fsys.Fail(durabletest.Fault{Op: durable.OpCommitSync, Err: syscall.EIO, Nth: 1})
		}
	})
	if refused != 3 {
		t.Fatalf("turn %d was refused", refused) // 64 messages of 4 MiB, and what each takes besides
	}
	if n := durabletest.Count(fsys.Ops(), durable.OpRewriteRename); n != 1 {
		t.Errorf("it was rewritten %d times", n)
	}
	for i, f := range []*File{f, openStore(t, dir, Options{})} {
		if got := mustTurn(t, f, "s", "k", "in", "out"); got.Number != refused+1+i {
			t.Errorf("turn %d after turn %d", got.Number, refused+i)
		}
	}
}

// TestSnapshotThatDoesNotFitIsRefused: lines that must keep their numbers leave
// no room for it, and the old file stays.
func TestSnapshotThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	s, err := f.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil {
		t.Fatal(err)
	}
	if err := commitB(s); err != nil {
		t.Fatal(err)
	}
	h := s.(*fileSession)
	for range 5 {
		h.s.state.messages = append(h.s.state.messages, Message{Role: "a", Content: quoted(strings.Repeat("x", 5<<20))})
		h.s.state.talk += messageSize(h.s.state.messages[len(h.s.state.messages)-1])
	}
	before := readFile(t, pathOf(dir, "s"))
	live := appendLine(nil, h.s.salt, h.s.n, 0, testTime, note{kindMark})
	if err := f.rewrite(h.e, h.s, [][]byte{live}); err == nil || !strings.Contains(err.Error(), "needs 5 lines, and line 4 follows") {
		t.Errorf("error is %v", err)
	}
	if !bytes.Equal(before, readFile(t, pathOf(dir, "s"))) {
		t.Error("the file was replaced")
	}
}
