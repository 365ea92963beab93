package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
)

func TestC17_RemoveVolume(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.put("bot", "s1")
	if _, err := r.driver().RemoveVolume(t.Context(), r.p); err == nil {
		t.Fatal("the volume of what runs was removed")
	} else if f, ok := asFault(err); !ok || f.Kind != fault.Usage || f.Hint == "" {
		t.Errorf("while it runs: %v", err)
	}
	if n, err := checkpoint.CountSessions(r.place().volume); err != nil || n != 1 {
		t.Fatalf("a refused removal left %d sessions, %v", n, err)
	}
	r.down()
	if n, err := checkpoint.CountSessions(r.place().volume); err != nil || n != 1 {
		t.Fatalf("down left %d sessions, %v", n, err)
	}

	// Somebody else's, and what a killed removal left.
	volumes := filepath.Dir(r.place().volume)
	other := filepath.Join(volumes, "other")
	if _, _, err := checkpoint.InitVolume(other); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(volumes, removedPrefix+r.o.Stack.Volume.Name, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	removed, err := r.driver().RemoveVolume(t.Context(), r.p)
	if err != nil || !slices.Equal(removed, []string{r.o.Stack.Volume.Name}) {
		t.Fatalf("removed %q, %v", removed, err)
	}
	left, err := os.ReadDir(volumes)
	if err != nil || len(left) != 1 || left[0].Name() != "other" {
		t.Errorf("left %v, %v", left, err)
	}
	if known, err := r.memory().Read(); err != nil || known.Runtime != "" || len(known.Volumes) != 0 {
		t.Errorf("remembered is %+v, %v", known, err)
	}
	if removed, err := r.driver().RemoveVolume(t.Context(), r.p); err != nil || removed != nil {
		t.Errorf("a second time: %q, %v", removed, err)
	}
	if report := r.up(); !report.Created {
		t.Errorf("up after it: %+v", report)
	}
}

// A link leads to where the conversations are; and a directory that is no volume
// is nobody's to remove.
func TestC17_RemoveVolumeElsewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	elsewhere := filepath.Join(t.TempDir(), "disk", "volume")
	if _, _, err := checkpoint.InitVolume(elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(r.place().volume), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, r.place().volume); err != nil {
		t.Fatal(err)
	}
	if removed, err := r.driver().RemoveVolume(t.Context(), r.p); err != nil || len(removed) != 1 {
		t.Fatalf("removed %q, %v", removed, err)
	}
	for _, path := range []string{elsewhere, r.place().volume} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is there: %v", path, err)
		}
	}
	if _, err := os.Lstat(filepath.Dir(elsewhere)); err != nil {
		t.Errorf("the directory around it: %v", err)
	}

	mine := filepath.Join(r.place().volume, "thesis")
	if err := os.Mkdir(r.place().volume, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if removed, err := r.driver().RemoveVolume(t.Context(), r.p); err != nil || removed != nil {
		t.Errorf("removed %q, %v", removed, err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}
