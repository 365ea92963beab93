package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/project"
)

// sighted is a project with eyes on it, as between two reloads.
type sighted struct {
	*testing.T
	*eyes
	dir string
	p   *project.Project
}

func openEyes(t *testing.T) *sighted {
	t.Helper()
	s := &sighted{T: t, dir: projectDir(t, false)}
	s.save("turn.go", "package main\n")
	s.load()
	s.eyes = &eyes{warn: func(err error) { t.Log(err) }}
	if err := s.open(t.Context(), s.p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *sighted) save(name, content string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

// more adds to flisk.yaml.
func (s *sighted) more(text string) {
	s.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, project.FileName))
	if err != nil {
		s.Fatal(err)
	}
	s.save(project.FileName, string(content)+text)
}

func (s *sighted) load() {
	s.Helper()
	p, _, err := project.Load(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	s.p = p
}

// told is what next says, within a time that is long enough for it.
func (s *sighted) told(but func(string) bool) dev.Change {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	c, err := s.next(ctx, but)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func TestEyesSortWhatChanged(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	s.save("prompt.md", "be kind\n")
	s.save("go.mod", "module example.com/bot\n")
	s.save("turn.go", "package main // 2\n")
	s.more("# as it was\n")
	c := s.told(nil)
	if want := []string{"flisk.yaml", "go.mod", "prompt.md", "turn.go"}; !slices.Equal(c.Paths, want) {
		t.Errorf("changed: %q", c.Paths)
	}
	if want := []string{"flisk.yaml", "go.mod", "turn.go"}; !slices.Equal(c.ByHand, want) {
		t.Errorf("by hand: %q", c.ByHand)
	}
	if want := []string{"go.mod", "prompt.md"}; !slices.Equal(c.New, want) || c.Removed != nil || !slices.Equal(c.Agents, []string{"bot"}) {
		t.Errorf("new: %q, removed: %q, of %q", c.New, c.Removed, c.Agents)
	}
	if c.First.IsZero() || c.Told.Before(c.First) {
		t.Errorf("from %s to %s", c.First, c.Told)
	}
}

// TestEyesWaitForAnotherFile: what is to be let be does not hide what changes later,
// and is told with it.
func TestEyesWaitForAnotherFile(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	s.save("state.json", "1")
	asked := make(chan struct{}, 1)
	but := func(path string) bool {
		if path == "state.json" {
			select {
			case asked <- struct{}{}:
			default:
			}
			return true
		}
		return false
	}
	go func() {
		<-asked
		if err := os.WriteFile(filepath.Join(s.dir, "turn.go"), []byte("package main // 2\n"), 0o600); err != nil {
			t.Error(err)
		}
	}()
	if c := s.told(but); !slices.Equal(c.Paths, []string{"state.json", "turn.go"}) {
		t.Errorf("told %q", c.Paths)
	}
	if c := s.told(nil); !slices.Equal(c.Paths, []string{"state.json", "turn.go"}) {
		t.Errorf("then told %q", c.Paths)
	}
}
