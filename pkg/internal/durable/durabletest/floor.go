package durabletest

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// Floor is what no durable write is faster than: bytes appended to a plain file
// with one write, and one fdatasync. A Floor is for one goroutine.
type Floor struct {
	tb   testing.TB
	file durable.File
	end  int64
	data []byte
}

// NewFloor makes an empty file in a temporary directory of its own.
func NewFloor(tb testing.TB) *Floor {
	tb.Helper()
	root, err := durable.OpenRoot(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	file, err := root.Open("floor", "floor", os.O_RDWR|os.O_CREATE)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = file.Close()
		_ = root.Close()
	})
	return &Floor{tb: tb, file: file}
}

// Append writes n bytes behind those that are there and syncs them.
func (f *Floor) Append(n int) {
	if n > len(f.data) {
		f.data = make([]byte, n)
	}
	_, err := f.file.WriteAt("floor", f.data[:n], f.end)
	if err == nil {
		err = f.file.Datasync("floor")
	}
	if err != nil {
		f.tb.Error(err)
	}
	f.end += int64(n)
}

// Turns is something that takes turns of sessions, as a benchmark sees it.
type Turns struct {
	Take func(session string)       // takes the next turn of a session to its end
	Size func(session string) int64 // the size of its file
}

// length is a class of sessions: those with about so many earlier turns.
type length struct {
	earlier int
	renew   int // a new session after so many turns; 0 keeps one

	session string
	taken   int
	size    int64
	floor   *Floor

	turns, floors []time.Duration
}

// BenchTurns reports what a turn costs at 1, 100 and 5,000 earlier turns,
// against the floor of the same bytes. All alternate within one loop, so that
// all see the same disk and the same neighbours.
//
// It reports medians: "N-p50-µs" and "N-floor-µs", their quotient "N/floor", and
// the longest sessions against the shortest, "5000/1".
func BenchTurns(b *testing.B, t Turns) {
	lengths := []*length{
		{earlier: 1, renew: 20},
		{earlier: 100, renew: 100},
		{earlier: 5000},
	}
	for _, l := range lengths {
		l.floor = NewFloor(b)
	}
	next := 0
	for b.Loop() {
		for _, l := range lengths {
			if l.session == "" || l.taken == l.renew && l.renew > 0 {
				next++
				l.session, l.taken = fmt.Sprint("s", next), 0
				for range l.earlier {
					t.Take(l.session)
				}
				l.size = t.Size(l.session)
				l.floor.Append(1) // what the set-up left to the journal is nobody's cost
			}
			start := time.Now()
			t.Take(l.session)
			l.turns = append(l.turns, time.Since(start))
			l.taken++

			size := t.Size(l.session)
			grown := int(size - l.size)
			l.size = size
			start = time.Now()
			l.floor.Append(grown)
			l.floors = append(l.floors, time.Since(start))
		}
	}
	for _, l := range lengths {
		took, floor := Median(l.turns), Median(l.floors)
		b.ReportMetric(Micros(took), fmt.Sprintf("%d-p50-µs", l.earlier))
		b.ReportMetric(Micros(floor), fmt.Sprintf("%d-floor-µs", l.earlier))
		b.ReportMetric(float64(took)/float64(floor), fmt.Sprintf("%d/floor", l.earlier))
	}
	first, last := lengths[0], lengths[len(lengths)-1]
	b.ReportMetric(float64(Median(last.turns))/float64(Median(first.turns)), fmt.Sprintf("%d/%d", last.earlier, first.earlier))
	b.ReportMetric(0, "ns/op") // of a whole round, with set-ups: means nothing
}

// Median sorts what it gets.
func Median[T cmp.Ordered](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// Micros is a duration as benchmarks report it.
func Micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
