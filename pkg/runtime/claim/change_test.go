package claim

import (
	"errors"
	"io"
	"path/filepath"
	"testing"
)

type silent struct{}

func (silent) Begin(string) func(string, error) { return func(string, error) {} }
func (silent) Output() io.Writer                { return io.Discard }

// A look that refuses leaves nothing held.
func TestChangeHoldsOrReleases(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "p.lock")
	refused := errors.New("another copy runs")
	held := func() bool {
		f, err := File(lock)
		if err != nil {
			return errors.Is(err, ErrLocked)
		}
		_ = Unlock(f) // it was only a question
		return false
	}
	look := func(err error) func() (string, error) {
		return func() (string, error) {
			if !held() {
				t.Error("it looks before it is alone")
			}
			return "seen", err
		}
	}
	if _, release, err := Change(t.Context(), lock, silent{}, look(refused)); !errors.Is(err, refused) || release != nil || held() {
		t.Errorf("refused: %v, held: %v", err, held())
	}
	l, release, err := Change(t.Context(), lock, silent{}, look(nil))
	if err != nil || l != "seen" || !held() {
		t.Fatalf("%q, %v, held: %v", l, err, held())
	}
	if release(); held() {
		t.Error("it is held after its release")
	}
}
