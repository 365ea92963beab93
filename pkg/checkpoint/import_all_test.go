package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// anExport is one of the sessions a and b of agent bot, a turn each.
func anExport(t *testing.T) *Export {
	t.Helper()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	for _, id := range []string{"a", "b"} {
		mustTurn(t, f, id, "key-"+id, "in", "out "+id)
	}
	x, err := openExport(exportAll(t, dir, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func ids(list []ImportedSession) (out []string) {
	for _, s := range list {
		out = append(out, s.Agent+"/"+s.Session)
	}
	return out
}

func TestImportAll(t *testing.T) {
	t.Parallel()
	x, dir := anExport(t), filepath.Join(t.TempDir(), "volume")
	report, err := ImportAll(t.Context(), dir, x, ImportOptions{Agents: []string{"bot"}})
	if got := ids(report.Imported); err != nil || !slices.Equal(got, []string{"bot/a", "bot/b"}) || report.Imported[0].Turns != 1 {
		t.Fatalf("imported %v, %v", got, err)
	}
	r, err := OpenReader(dir, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if view, err := r.View(t.Context(), "b"); err != nil || view.Checkpoint.Turn != 1 {
		t.Errorf("b is %+v, %v", view, err)
	}

	// The volume knows its agents by now.
	report, err = ImportAll(t.Context(), dir, x, ImportOptions{})
	if !errors.Is(err, ErrSessionExists) || len(report.Taken) != 2 || len(report.Imported) != 0 {
		t.Errorf("a second time: %+v, %v", report, err)
	}
	report, err = ImportAll(t.Context(), dir, x, ImportOptions{Skip: true})
	if err != nil || len(report.Skipped) != 2 || len(report.Imported) != 0 {
		t.Errorf("leaving out what is there: %+v, %v", report, err)
	}
	report, err = ImportAll(t.Context(), dir, x, ImportOptions{Agent: "clerk", Agents: []string{"clerk"}})
	if got := ids(report.Imported); err != nil || !slices.Equal(got, []string{"clerk/a", "clerk/b"}) {
		t.Errorf("for another agent: %v, %v", got, err)
	}
}

// What is refused leaves no trace, not even a volume.
func TestImportAllRefusesBeforeItWrites(t *testing.T) {
	t.Parallel()
	x, dir := anExport(t), filepath.Join(t.TempDir(), "volume")
	report, err := ImportAll(t.Context(), dir, x, ImportOptions{Agents: []string{"clerk"}})
	if !errors.Is(err, ErrUnknownAgent) || report.Unknown != "bot" || !slices.Equal(report.Known, []string{"clerk"}) {
		t.Errorf("got %+v, %v", report, err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
	if _, err := ImportAll(t.Context(), dir, anExport(t), ImportOptions{Agents: []string{"bot"}}); err != nil {
		t.Fatal(err)
	}
	report, err = ImportAll(t.Context(), dir, x, ImportOptions{Agent: "clerk", Agents: []string{"clerk"}, Store: Options{ExpectVolume: "another"}})
	if !errors.Is(err, ErrOtherVolume) || len(report.Left) != 2 {
		t.Errorf("into another volume: %+v, %v", report, err)
	}
}

// An interruption tells both halves.
func TestImportAllThatIsInterrupted(t *testing.T) {
	t.Parallel()
	x, dir := anExport(t), t.TempDir()
	busy := openStore(t, dir, Options{})
	s, err := busy.Acquire(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	var report ImportReport
	go func() {
		var err error
		report, err = ImportAll(ctx, dir, x, ImportOptions{})
		done <- err
	}()
	r, err := OpenReader(dir, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for { // until the first one is there
		if _, err := r.View(t.Context(), "a"); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("a was not imported")
		}
	}
	cancel(gone)
	if err := <-done; !errors.Is(err, gone) || !slices.Equal(ids(report.Imported), []string{"bot/a"}) || !slices.Equal(ids(report.Left), []string{"bot/b"}) {
		t.Errorf("got %+v, %v", report, err)
	}
}
