package checkpoint

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
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

// TestReserveIsBounded: never more than 64 KiB behind the end, or four times the
// file, or 1 MiB, and a few blocks; and always 32 KiB.
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
		most := min(max(64<<10, 4*h.s.size), 1<<20)
		if used := blocks(t, pathOf(dir, "s")); used > h.s.size+most+(8<<10) {
			t.Fatalf("%d bytes of disk for %d", used, h.s.size)
		}
		if runtime.GOOS == "linux" && before > 0 && h.s.reserved < h.s.size+32<<10 {
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

// TestLessSpaceWillDo: where there is no room for a long file's larger reserve,
// that of a short one is asked for, and only when there is none for it either
// the volume is full. What a failed call reserved of it is given back.
func TestLessSpaceWillDo(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		dir := t.TempDir()
		f, fsys := twin(t, dir, Options{})
		mustTurn(t, f, "s", "", strings.Repeat("x", 100<<10), "out")
		s, err := f.Acquire(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Release)
		h := s.(*fileSession)
		h.s.reserved = 0 // as after a load
		fsys.Ops()
		fsys.Fail(durabletest.Fault{Op: durable.OpPreallocate, Err: errno, Nth: 1, Done: true})
		if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil {
			t.Fatalf("%v for the larger one: %v", errno, err)
		}
		ops := fsys.Ops()
		if asked, trimmed := durabletest.Count(ops, durable.OpPreallocate), durabletest.Count(ops, durable.OpTrim); asked != 2 || trimmed != 1 {
			t.Errorf("asked %d times, gave back %d times", asked, trimmed)
		}
		if got := h.s.reserved - h.s.size; runtime.GOOS == "linux" && got != 64<<10 {
			t.Errorf("%d bytes are reserved", got)
		}
		if err := commitB(s); err != nil {
			t.Fatal(err)
		}
		h.s.reserved = 0
		fsys.Fail(durabletest.Fault{Op: durable.OpPreallocate, Err: syscall.ENOSPC})
		if _, err := s.Begin(Begin{Input: quoted("in")}); !errors.Is(err, ErrNoSpace) {
			t.Fatalf("without room for either: %v", err)
		}
		s.Release()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if used, size := blocks(t, pathOf(dir, "s")), int64(len(readFile(t, pathOf(dir, "s")))); used > size+16<<10 {
			t.Errorf("%d bytes of disk for %d", used, size)
		}
	}
}

// TestIdleSessionsGiveTheirSpace: before a turn is refused for want of space, the
// sessions that nobody holds give back what they reserved.
func TestIdleSessionsGiveTheirSpace(t *testing.T) {
	t.Parallel()
	f, fsys := twin(t, t.TempDir(), Options{})
	for _, id := range []string{"idle-1", "idle-2", "idle-3"} {
		mustTurn(t, f, id, "", "in", "out")
	}
	mustTurn(t, f, "s", "", strings.Repeat("x", 100<<10), "out")
	s, err := f.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	s.(*fileSession).s.reserved = 0
	fsys.Ops()
	for nth := range 2 {
		fsys.Fail(durabletest.Fault{Op: durable.OpPreallocate, Err: syscall.ENOSPC, Nth: nth + 1})
	}
	if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil {
		t.Fatal(err)
	}
	if ops := fsys.Ops(); durabletest.Count(ops, durable.OpPreallocate) != 3 || durabletest.Count(ops, durable.OpTrim) < 3 {
		t.Errorf("it went\n%v", ops)
	}
	if err := commitB(s); err != nil {
		t.Fatal(err)
	}
}
