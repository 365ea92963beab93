package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/source"
)

// TestRandomOperations does what programs do to files, in an order that nobody
// thought of, while a reader follows. When all is done, what the reader has been
// told last is what is on the disk.
func TestRandomOperations(t *testing.T) {
	t.Parallel()
	for _, poll := range []bool{false, true} {
		t.Run(fmt.Sprintf("poll=%t", poll), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := newRig(t)
			r.write(".gitignore", "gen/\n*.out\n!keep.out\n")
			r.write("lib.go", "package x\n//go:embed a/gen/*.out\n")
			o := r.options()
			o.Poll = poll
			w, err := New(t.Context(), o)
			r.must(err)
			r.use(w)
			const rounds, steps = 3, 120
			for round := range rounds {
				random := rand.New(rand.NewPCG(seed, uint64(round)))
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range steps {
						scramble(random, r.dir)
					}
					// The end that the reader waits for.
					_ = os.WriteFile(filepath.Join(r.dir, "end"), fmt.Append(nil, round), 0o644)
				}()
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				for finished := false; !finished; {
					c, err := w.Next(ctx, r.base)
					if err != nil {
						t.Fatalf("seed %d, round %d: %v", seed, round, err)
					}
					r.base = c.Tree
					finished = slices.ContainsFunc(c.Files, func(f source.Change) bool { return f.Path == "end" })
				}
				cancel()
				<-done
				fresh, err := source.Read(t.Context(), r.p, source.Options{})
				r.must(err)
				if left := source.Diff(r.base, fresh); len(left) > 0 {
					t.Fatalf("seed %d, round %d: the disk has more than was told: %+v", seed, round, left)
				}
				for _, agent := range r.p.AgentNames() {
					told, err1 := r.base.Hash(agent)
					disk, err2 := fresh.Hash(agent)
					r.must(err1, err2)
					if told != disk {
						t.Fatalf("seed %d, round %d: agent %s has the hash %s, on the disk %s", seed, round, agent, told, disk)
					}
				}
				// The directories are watched, too, and not just read in the end.
				for _, dir := range listDirs(t, r.dir) {
					r.write(filepath.Join(dir, "probe.go"), fmt.Sprint("package x // ", round))
					if got := r.change().Files; len(got) != 1 || got[0].Path != filepath.Join(dir, "probe.go") {
						t.Fatalf("seed %d, round %d: a new file in %q gives %+v", seed, round, dir, got)
					}
				}
			}
		})
	}
}

// listDirs lists a few directories of a tree that count.
func listDirs(t *testing.T, root string) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			rel, err := filepath.Rel(root, path)
			if !source.Ignored(filepath.Join(rel, "probe.go")) {
				dirs = append(dirs, rel)
			}
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rand.Shuffle(len(dirs), func(i, j int) { dirs[i], dirs[j] = dirs[j], dirs[i] })
	return dirs[:min(4, len(dirs))]
}

// scramble does one thing to a tree. What it cannot do it leaves.
func scramble(random *rand.Rand, root string) {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	path := func() string {
		p := root
		for range random.IntN(4) {
			p = filepath.Join(p, pick("a", "b", "gen", "assets"))
		}
		return filepath.Join(p, pick("a", "b", "gen", "x.go", "y.txt", "z.out", "keep.out", "agent.log"))
	}
	switch at := path(); random.IntN(10) {
	case 0, 1, 2:
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		_ = os.WriteFile(at, fmt.Append(nil, random.IntN(5)), 0o644)
	case 3:
		temporary := filepath.Join(filepath.Dir(at), "new~")
		_ = os.WriteFile(temporary, fmt.Append(nil, random.IntN(5)), 0o644)
		_ = os.Rename(temporary, at)
		_ = os.Remove(temporary)
	case 4:
		_ = os.Rename(at, path())
	case 5:
		_ = os.Rename(filepath.Dir(at), filepath.Dir(path()))
	case 6:
		_ = os.Mkdir(at, 0o755)
	case 7:
		_ = os.Remove(at)
	case 8:
		if dir := filepath.Dir(at); dir != root {
			_ = os.RemoveAll(dir)
		}
	case 9:
		_ = os.Symlink(pick("a", "x.go", "../y.txt", "."), at)
	}
}
