package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// powerCut is a volume with a session of two acknowledged turns, of which the
// last has lost its mark and its hint: neither is synced.
func powerCut(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s", "a", "in a", "out a")
	mustTurn(t, f, "s", "b", "in b", "out b")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, pathOf(dir, "s"), dropLastLine(readFile(t, pathOf(dir, "s"))))
	if err := os.Truncate(lockOf(dir, "s"), 0); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestReadersSettleTheLastTurn: the turn was acknowledged, so a look finds it,
// without a turn in between.
func TestReadersSettleTheLastTurn(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"view", "list"} {
		f := openStore(t, powerCut(t), Options{})
		view := func() {
			t.Helper()
			if v, err := f.View(t.Context(), "s"); err != nil || v.Turn != 2 || v.Turns[1].State != turn.Committed || len(v.Messages) != 4 {
				t.Errorf("%s first: turn %d, %+v, %v", first, v.Turn, v.Turns, err)
			}
		}
		list := func() {
			t.Helper()
			if rows, _, err := f.List(t.Context(), "", 10); err != nil || len(rows) != 1 || rows[0].Turns != 2 || rows[0].Err != nil {
				t.Errorf("%s first: %+v, %v", first, rows, err)
			}
		}
		if first == "view" {
			view()
			list()
		} else {
			list()
			view()
		}
	}
}

// TestReadersDoNotWaitToSettle: whoever has the session will do it, and a volume
// that cannot be written is no reason to show nothing.
func TestReadersDoNotWaitToSettle(t *testing.T) {
	t.Parallel()
	look := func(t *testing.T, f *File) {
		t.Helper()
		if v, err := f.View(t.Context(), "s"); err != nil || v.Turn != 1 {
			t.Errorf("view: turn %d, %v", v.Turn, err)
		}
		if rows, _, err := f.List(t.Context(), "", 10); err != nil || len(rows) != 1 || rows[0].Turns != 1 || rows[0].Err != nil {
			t.Errorf("list: %+v, %v", rows, err)
		}
	}
	t.Run("held", func(t *testing.T) {
		t.Parallel()
		dir := powerCut(t)
		before := readFile(t, pathOf(dir, "s"))
		f, other := openStore(t, dir, Options{}), openStore(t, dir, Options{})
		for _, holder := range []*File{other, f} {
			e, err := holder.hold(t.Context(), "s") // the lock, and nothing read yet
			if err != nil {
				t.Fatal(err)
			}
			look(t, f)
			holder.release(e)
		}
		if !bytes.Equal(before, readFile(t, pathOf(dir, "s"))) {
			t.Error("the file was written to")
		}
	})
	t.Run("read-only", func(t *testing.T) {
		t.Parallel()
		f, fsys := twin(t, powerCut(t), Options{})
		fsys.Fail(durabletest.Fault{Op: durable.OpRewriteOpen, Err: syscall.EROFS})
		look(t, f)
	})
	t.Run("nothing runs", func(t *testing.T) {
		t.Parallel()
		dir := powerCut(t)
		before := snapshotOf(t, dir)
		r, err := OpenReader(dir, "bot")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if v, err := r.View(t.Context(), "s"); err != nil || v.Turn != 1 {
			t.Errorf("view: turn %d, %v", v.Turn, err)
		}
		if after := snapshotOf(t, dir); strings.Join(before, "") != strings.Join(after, "") {
			t.Error("a reader wrote")
		}
	})
}

// TestLostSessionIsListed: its file is gone, and its hint tells that there was
// one. Of sessions that were deleted or never begun nothing is shown.
func TestLostSessionIsListed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	for _, id := range []string{"lost", "there", "deleted"} {
		mustTurn(t, f, id, "", "in", "out")
	}
	if s, err := f.Acquire(t.Context(), "never"); err == nil {
		s.Release()
	}
	if err := f.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pathOf(dir, "lost")); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(dir, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	type lister interface {
		List(ctx context.Context, after string, limit int) ([]Summary, string, error)
	}
	for name, list := range map[string]lister{"store": f, "reader": r} {
		for _, limit := range []int{1, 10} {
			var lost, there int
			for after, pages := "", 0; ; pages++ {
				rows, next, err := list.List(t.Context(), after, limit)
				if err != nil || pages > 3 {
					t.Fatalf("%s: page %d: %v", name, pages, err)
				}
				for _, row := range rows {
					damaged, ok := errors.AsType[*DamagedError](row.Err)
					switch {
					case ok && strings.Contains(damaged.Path, fileName("lost")):
						lost++
					case row.Err == nil && row.Session == "there":
						there++
					default:
						t.Errorf("%s: row %+v", name, row)
					}
				}
				if after = next; next == "" {
					break
				}
			}
			if lost != 1 || there != 1 {
				t.Errorf("%s, %d a page: the lost one %d times, the other %d times", name, limit, lost, there)
			}
		}
	}
	if n, err := CountSessions(dir); err != nil || n != 1 {
		t.Errorf("%d session files, %v", n, err)
	}
}
