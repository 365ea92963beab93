package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
)

// sighted is a project with eyes on it, as between two reloads.
type sighted struct {
	*testing.T
	*eyes
	dir string
}

func openEyes(t *testing.T) *sighted {
	t.Helper()
	s := &sighted{T: t, dir: projectDir(t, false)}
	s.save("turn.go", "package main\n")
	s.eyes = &eyes{warn: func(err error) { t.Log(err) }, alarm: func(err error) { t.Error(err) }}
	p, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.open(t.Context(), p); err != nil {
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

func (s *sighted) load() (*project.Project, error) {
	p, _, err := project.Load(s.dir)
	return p, err
}

// told is what next says, within a time that is long enough for it.
func (s *sighted) told(until dev.Until) dev.Change {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	c, err := s.next(ctx, until)
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
	c := s.told(dev.Until{})
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
	if c := s.told(dev.Until{But: but}); !slices.Equal(c.Paths, []string{"state.json", "turn.go"}) {
		t.Errorf("told %q", c.Paths)
	}
	if c := s.told(dev.Until{}); !slices.Equal(c.Paths, []string{"state.json", "turn.go"}) {
		t.Errorf("then told %q", c.Paths)
	}
}

// TestEyesWithoutANewWatcher: when a changed flisk.yaml needs a watcher that cannot
// be made, the one before goes on, and the next reading tries again.
func TestEyesWithoutANewWatcher(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	s.more("verify: {env: {A: b}}\n")
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := s.read(ctx, func() (*project.Project, error) {
		cancel() // Ctrl-C
		return s.load()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("read: %v", err)
	}
	s.save("turn.go", "package main // 2\n")
	if c := s.told(dev.Until{}); !slices.Equal(c.Paths, []string{"turn.go"}) {
		t.Errorf("told %q", c.Paths)
	}
	p, c, err := s.read(t.Context(), s.load)
	if err != nil || p.Verify.Env["A"] != "b" || !reflect.DeepEqual(s.project, p) || !slices.Equal(c.Paths, []string{"turn.go"}) {
		t.Errorf("the next reading: %+v, %+v, %v", p, c, err)
	}
}

// TestEyesSeeASecondSaveOfSettings: flisk.yaml is saved again after it was loaded,
// before the new watcher has read the files.
func TestEyesSeeASecondSaveOfSettings(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	s.more("verify: {env: {A: one}}\n")
	again := false
	p, c, err := s.read(t.Context(), func() (*project.Project, error) {
		p, err := s.load()
		if !again {
			again = true
			content, err := os.ReadFile(filepath.Join(s.dir, project.FileName))
			if err != nil {
				t.Fatal(err)
			}
			s.save(project.FileName, strings.Replace(string(content), "one", "two", 1))
		}
		return p, err
	})
	if err != nil || p.Verify.Env["A"] != "two" || !slices.Equal(c.Paths, []string{"flisk.yaml"}) {
		t.Errorf("%+v, %+v, %v", p, c, err)
	}
	s.save("turn.go", "package main // 2\n")
	if c := s.told(dev.Until{}); !slices.Equal(c.Paths, []string{"turn.go"}) {
		t.Errorf("then told %q", c.Paths)
	}
}

// TestEyesOpenedTooLate: flisk.yaml is saved between the first load and the first
// reading.
func TestEyesOpenedTooLate(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	before, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	s.more("verify: {env: {A: b}}\n")
	if err := s.open(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	p, _, err := s.read(t.Context(), s.load)
	if err != nil || p.Verify.Env["A"] != "b" || !reflect.DeepEqual(s.project, p) {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestEyesOnSettingsThatNeverRest give up.
func TestEyesOnSettingsThatNeverRest(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	n := 0
	_, _, err := s.read(t.Context(), func() (*project.Project, error) {
		p, err := s.load()
		if n++; err == nil {
			p.Verify.Inputs = []string{strings.Repeat("x", n)}
		}
		return p, err
	})
	if fault.KindOf(err) != fault.Environment || n != maxLoads {
		t.Errorf("%v after %d loads", err, n)
	}
}

// TestC07_EyesOnWhatGoesBackAndForth: a compiler may have read what was there in
// between.
func TestC07_EyesOnWhatGoesBackAndForth(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	hash, still := s.forDriver(t.Context())
	code, err := hash("bot")
	if err != nil {
		t.Fatal(err)
	}
	rested := func(want bool) {
		t.Helper()
		if ok, err := still("bot", code); err != nil || ok != want {
			t.Errorf("still: %v, %v", ok, err)
		}
	}
	rested(true)
	s.save("turn.go", "package main // 2\n")
	rested(false)
	s.save("turn.go", "package main\n")
	rested(false)
	if !s.fresh() {
		t.Error("what the driver was told is not what was read")
	}
	if again, err := hash("bot"); err != nil || again != code { // it plans anew
		t.Errorf("planned anew: %s and %s, %v", code, again, err)
	}
	rested(true)
	if !s.fresh() {
		t.Error("the same content is not what was read")
	}
}

// TestC07_EyesOnWhatWasPlannedLater: what the driver planned anew for is not what
// the reload was told for.
func TestC07_EyesOnWhatWasPlannedLater(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	hash, still := s.forDriver(t.Context())
	code, err := hash("bot")
	if err != nil {
		t.Fatal(err)
	}
	s.save("turn.go", "package main // 2\n")
	later, err := hash("bot")
	if err != nil || later == code {
		t.Fatalf("planned anew: %s and %s, %v", code, later, err)
	}
	if s.fresh() {
		t.Error("it is not what was read")
	}
	if ok, err := still("bot", later); err != nil || !ok {
		t.Errorf("still: %v, %v", ok, err)
	}
	if _, _, err := s.read(t.Context(), s.load); err != nil {
		t.Fatal(err)
	}
	if !s.fresh() {
		t.Error("it is what was read then")
	}
}

// TestEyesSeeATouch where that is waited for: a file that is saved as it was, also
// between the reading and the wait.
func TestEyesSeeATouch(t *testing.T) {
	t.Parallel()
	s := openEyes(t)
	s.save("turn.go", "package main\n")
	if c := s.told(dev.Until{Touched: true}); !slices.Equal(c.Paths, []string{"turn.go"}) {
		t.Errorf("told %q", c.Paths)
	}
	s.save("new.go", "package main\n")
	if c := s.told(dev.Until{}); !slices.Equal(c.Paths, []string{"new.go"}) {
		t.Errorf("else told %q", c.Paths)
	}
}
