package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// programs are those that are kept, by their names.
func (r *rig) programs() []string {
	r.t.Helper()
	entries, err := os.ReadDir(r.place().build)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// hashes answers with one after the other, and with the last one from then on.
func hashes(list ...string) func(string) (string, error) {
	var asked atomic.Int64
	return func(string) (string, error) { return list[min(int(asked.Add(1)), len(list))-1], nil }
}

// TestC09_RestlessBuild: where a build that is no longer the disk's will do, the
// first is dropped all the same, and the second has a name that the next up
// replaces.
func TestC09_RestlessBuild(t *testing.T) {
	t.Parallel()
	r := scaffolded(t)
	r.o.Restless = true
	r.o.SourceHash = hashes("h1", "h2", "h3", "h4")
	r.up()
	const unsettled = "h3-unsettled-"
	if got := r.replica().Code; !strings.HasPrefix(got, unsettled) {
		t.Errorf("what runs is %q", got)
	}
	if got := r.programs(); len(got) != 1 || !strings.HasPrefix(got[0], "bot-"+unsettled) {
		t.Errorf("programs: %q", got)
	}
	r.o.SourceHash = hashes("h3")
	r.up()
	if got := r.replica().Code; got != "h3" {
		t.Errorf("after the next up runs %q", got)
	}
	if got := r.programs(); !slices.Equal(got, []string{"bot-h3"}) {
		t.Errorf("programs after the next up: %q", got)
	}
	if n := strings.Count(r.p.String(), "begin build bot"); n != 3 {
		t.Errorf("%d builds, want 3:\n%s", n, r.p)
	}
}

// TestC09_SourceThatCannotBeRead after a build, or never rests, leaves no program:
// nobody would check it again.
func TestC09_SourceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	unreadable := errors.New("it cannot be read")
	for name, c := range map[string]struct {
		then func(n int) (string, error)
		want error
	}{
		"unreadable":  {func(int) (string, error) { return "", unreadable }, unreadable},
		"never rests": {func(n int) (string, error) { return fmt.Sprint("h", n), nil }, runtime.ErrSourceChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scaffolded(t)
			asked := 0
			r.o.SourceHash = func(string) (string, error) {
				if asked++; asked == 1 {
					return "h1", nil
				}
				// A kill in here leaves what there is now.
				if exists(filepath.Join(r.place().build, "bot-h1")) {
					t.Error("the program has its name before it is checked")
				}
				return c.then(asked)
			}
			if _, err := r.driver().Up(t.Context(), r.p); !errors.Is(err, c.want) {
				t.Errorf("up: %v", err)
			}
			if got := r.programs(); len(got) > 0 {
				t.Errorf("programs: %q", got)
			}
		})
	}
}

// TestC09_SourceThatChangesDuringAnotherBuild: the program of the first of two
// agents is checked again when that of the second is built.
func TestC09_SourceThatChangesDuringAnotherBuild(t *testing.T) {
	t.Parallel()
	r := scaffolded(t)
	clerk := r.o.Stack.Agents[0]
	clerk.Name = "clerk"
	r.o.Stack.Agents = append(r.o.Stack.Agents, clerk)
	r.o.SourceHash = func(agent string) (string, error) {
		if agent == "bot" && strings.Contains(r.p.String(), "begin build clerk") {
			return "second", nil
		}
		return "first", nil
	}
	r.up()
	for _, replica := range r.observe().Replicas {
		if want := map[string]string{"bot": "second", "clerk": "first"}[replica.Agent]; replica.Code != want || replica.Generation != 1 {
			t.Errorf("%s runs %q in generation %d, want %q in the first", replica.Name, replica.Code, replica.Generation, want)
		}
	}
	if said := r.p.String(); strings.Count(said, "begin build bot") != 2 || strings.Count(said, "begin build clerk") != 1 || strings.Contains(said, "begin stop") {
		t.Errorf("it did:\n%s", said)
	}
}
