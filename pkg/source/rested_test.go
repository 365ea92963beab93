package source

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestC07_Rested: between two readings somebody wrote to an agent's files, or
// nobody did. That they are equal does not say so: a compiler that read in between
// may have seen something else.
func TestC07_Rested(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change     func(tr *tree)
		bot, clerk bool // whether their files rested
		same       bool // both have the hashes that they had
	}{
		"nobody touched anything":   {func(*tree) {}, true, true, true},
		"there and back":            {func(tr *tree) { tr.write("lib/a.go", "B"); tr.write("lib/a.go", "content of lib/a.go") }, false, false, true},
		"there and back, of one":    {func(tr *tree) { tr.write("main.go", "B"); tr.write("main.go", "content of main.go") }, false, true, true},
		"there and back, by rename": {func(tr *tree) { tr.rename("lib/a.go", "lib/b.go"); tr.rename("lib/b.go", "lib/a.go") }, false, false, true},
		"another file over it": {func(tr *tree) {
			tr.write("lib/b.tmp.txt", "content of lib/a.go")
			tr.rename("lib/b.tmp.txt", "lib/a.go")
		}, false, false, true},
		"its time alone":          {func(tr *tree) { tr.touch("lib/a.go") }, false, false, true},
		"came":                    {func(tr *tree) { tr.write("lib/b.go", "new") }, false, false, false},
		"came, to one":            {func(tr *tree) { tr.write("clerk/b.go", "new") }, true, false, false},
		"went":                    {func(tr *tree) { tr.remove("lib/a.go") }, false, false, false},
		"a setting":               {func(tr *tree) { tr.write(".env", "A=b") }, true, true, true},
		"what counts for nothing": {func(tr *tree) { tr.write("agent.log", "line") }, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.write("lib/a.go", "content of lib/a.go")
			tr.write(".env", "A=a")
			tr.age()
			before := tr.read(nil)
			c.change(tr)
			after := tr.read(before)
			same := true
			for agent, want := range map[string]bool{"bot": c.bot, "clerk": c.clerk} {
				if got := after.Rested(before, agent); got != want {
					t.Errorf("the files of %s rested: %t", agent, got)
				}
				was, err := before.Hash(agent)
				is, err2 := after.Hash(agent)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				same = same && was == is
			}
			if same != c.same {
				t.Errorf("the hashes are the same: %t", same)
			}
			if !after.Rested(after, "bot") || after.Rested(before, "nobody") {
				t.Error("a tree rested since itself, and nobody has no files")
			}
		})
	}
}

// age makes all files an hour old, so that the clock of the file system, which has
// coarse steps, tells every write from what was there.
func (t *tree) age() {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	t.must(filepath.WalkDir(t.p.Dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, then, then)
	}))
}

func (t *tree) touch(rel string) {
	t.Helper()
	now := time.Now()
	t.must(os.Chtimes(filepath.Join(t.p.Dir, rel), now, now))
}

func (t *tree) rename(from, to string) {
	t.Helper()
	t.must(os.Rename(filepath.Join(t.p.Dir, from), filepath.Join(t.p.Dir, to)))
}

func (t *tree) remove(rel string) {
	t.Helper()
	t.must(os.Remove(filepath.Join(t.p.Dir, rel)))
}

func (t *tree) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
