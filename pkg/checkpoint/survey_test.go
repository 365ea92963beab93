package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// surveyOf shows a survey the files of a volume as an archive does.
func surveyOf(t *testing.T, dir string) *Survey {
	t.Helper()
	s, err := NewSurvey(bytes.NewReader(readFile(t, filepath.Join(dir, VolumeFile))))
	if err != nil {
		t.Fatal(err)
	}
	root := os.DirFS(dir)
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		var content io.Reader
		if err == nil && !entry.IsDir() {
			content = bytes.NewReader(readFile(t, filepath.Join(dir, name)))
		}
		return errors.Join(err, s.Add(name, content))
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSurvey: what an archive shows is what a look at the directory finds, also
// of sessions that cannot be read.
func TestSurvey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for agent, ids := range map[string][]string{"bot": {"s1", "s2"}, "clerk": {"s1"}, "idle": nil} {
		f := openStore(t, dir, Options{Agent: agent})
		for _, id := range ids {
			mustTurn(t, f, id, "k", strings.Repeat("long", headSize), "out")
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, pathOf(dir, "s2"), []byte("rotten"))
	writeFile(t, filepath.Join(filepath.Dir(pathOf(dir, "s1")), "notes.txt"), nil)

	s := surveyOf(t, dir)
	for _, ids := range s.Sessions {
		slices.Sort(ids)
	}
	if want := map[string][]string{"bot": {"", "s1"}, "clerk": {"s1"}, "idle": nil}; !reflect.DeepEqual(s.Sessions, want) || s.Count() != 3 {
		t.Errorf("the sessions are %v, %d in all; want %v", s.Sessions, s.Count(), want)
	}
	if id, err := VolumeID(dir); err != nil || s.Volume != id {
		t.Errorf("the volume is %q, want %q, %v", s.Volume, id, err)
	}
	if by, err := SessionsByAgent(dir); err != nil || !reflect.DeepEqual(by, map[string]int{"bot": 2, "clerk": 1, "idle": 0}) || !reflect.DeepEqual(by, s.Counts()) {
		t.Errorf("by agent: %v, %v", by, err)
	}
	if _, err := NewSurvey(strings.NewReader("{}")); !errors.Is(err, ErrNotVolume) {
		t.Errorf("a file that makes no volume: %v", err)
	}
}

// TestSessionFiles: a copy of no more than these shows the whole session.
func TestSessionFiles(t *testing.T) {
	t.Parallel()
	dir, part := t.TempDir(), t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s1", "k", "in", "out")
	mustTurn(t, f, "s2", "k", "in", "out")
	want, err := f.View(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(SessionFiles("bot", "s1"), VolumeFile) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(part, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(part, file), readFile(t, filepath.Join(dir, file)))
	}
	r, err := OpenReader(part, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := r.View(t.Context(), "s1"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the view is %+v, %v; want %+v", got, err, want)
	}
	if _, err := r.View(t.Context(), "s2"); !errors.Is(err, ErrNoSession) {
		t.Errorf("another session: %v", err)
	}
}
