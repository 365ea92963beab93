package checkpoint

import (
	"runtime"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// TestSpaceOfTheDeadIsGivenBack: a process that is killed leaves what it had
// reserved; whoever has the session next and lets it go gives it back.
func TestSpaceOfTheDeadIsGivenBack(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("nothing is preallocated")
	}
	dir := t.TempDir()
	c := startChild(t, dir, string(turn.PointMarked))
	if _, ok := c.next("held"); !ok {
		t.Fatal("the process ended by itself")
	}
	c.kill("held")
	path := pathOf(dir, "s0")
	if used := blocks(t, path); used < reserve/2 {
		t.Skipf("the volume reserved %d bytes", used)
	}
	f := openStore(t, dir, Options{})
	s, err := f.Acquire(t.Context(), "s0") // not even a turn
	if err != nil {
		t.Fatal(err)
	}
	s.Release()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if used := blocks(t, path); used > 16<<10 {
		t.Errorf("a session of one turn takes %d bytes of disk", used)
	}
}

// TestReserveIsBounded: never more than 64 KiB behind the end and a few blocks,
// and half of it always.
func TestReserveIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, fsys := twin(t, dir, Options{})
	s, err := f.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	h := s.(*fileSession)
	const turns = 200
	for range turns {
		before := int64(0)
		if h.s.file != nil {
			before = h.s.size
		}
		if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil {
			t.Fatal(err)
		}
		if used := blocks(t, pathOf(dir, "s")); used > h.s.size+reserve+(8<<10) {
			t.Fatalf("%d bytes of disk for %d", used, h.s.size)
		}
		if runtime.GOOS == "linux" && before > 0 && h.s.reserved < h.s.size+reserve/2 {
			t.Fatalf("%d bytes are reserved of a file of %d", h.s.reserved, h.s.size)
		}
		if err := commitB(s); err != nil {
			t.Fatal(err)
		}
	}
	if n := durabletest.Count(fsys.Ops(), durable.OpPreallocate); n > turns/10 {
		t.Errorf("asked %d times in %d turns", n, turns)
	}
}
