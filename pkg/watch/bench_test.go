package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/source"
)

// large makes a project of 5,000 files in 500 directories.
func large(b *testing.B) *project.Project {
	b.Helper()
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for i := range 500 {
		sub := filepath.Join(dir, fmt.Sprintf("p%d", i/10), fmt.Sprintf("q%d", i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 10 {
			file := filepath.Join(sub, fmt.Sprintf("%d.go", j))
			if err := os.WriteFile(file, fmt.Appendf(nil, "package q%d\n\nconst C%d = %q\n", i, j, make([]byte, 500)), 0o644); err != nil {
				b.Fatal(err)
			}
			if err := os.Chtimes(file, old, old); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("/out/\n*.tmp\n!keep.tmp\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte("**/*.md\n**/.env\n**/node_modules\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	p, _, err := project.Parse(dir, []byte(config))
	if err != nil {
		b.Fatal(err)
	}
	<-time.After(2100 * time.Millisecond) // until the stamps of the files can be trusted
	return p
}

// BenchmarkScan reads 5,000 files for the first time.
func BenchmarkScan(b *testing.B) {
	p := large(b)
	for b.Loop() {
		if _, err := source.Read(b.Context(), p, source.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRescan reads them after one of them has changed.
func BenchmarkRescan(b *testing.B) {
	p := large(b)
	tree, err := source.Read(b.Context(), p, source.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if err := os.WriteFile(filepath.Join(p.Dir, "p1", "q11", "3.go"), fmt.Append(nil, i), 0o644); err != nil {
			b.Fatal(err)
		}
		next, err := source.Read(b.Context(), p, source.Options{Previous: tree})
		if err != nil || len(source.Diff(tree, next)) != 1 {
			b.Fatal(err)
		}
		tree = next
	}
}

// BenchmarkSave is how long after a save a change is told, beyond the quiet
// period.
func BenchmarkSave(b *testing.B) {
	p := large(b)
	w, err := New(b.Context(), Options{Project: p})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	tree, err := w.Tree(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var beyond time.Duration
	for i := 0; b.Loop(); i++ {
		file := filepath.Join(p.Dir, "p1", "q11", "3.go")
		if err := os.WriteFile(file+"~", fmt.Append(nil, i), 0o644); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := os.Rename(file+"~", file); err != nil {
			b.Fatal(err)
		}
		c, err := w.Next(b.Context(), tree)
		if err != nil {
			b.Fatal(err)
		}
		beyond += time.Since(began) - Quiet
		tree = c.Tree
	}
	b.ReportMetric(float64(beyond.Milliseconds())/float64(b.N), "ms-beyond-quiet/op")
}
