package checkpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
)

// BenchmarkTurnWrites is how many bytes a turn sends to the disk, at 10 and at
// 1,000 earlier turns, by the kernel's account of this process: whole pages,
// without the journal of the file system. The floor is the same bytes appended
// and synced.
func BenchmarkTurnWrites(b *testing.B) {
	const turns = 64 // of each session: a page more or less must not count
	t := benchTurns(b)
	floor := durabletest.NewFloor(b)
	lengths := []int{10, 1000}
	written, floors := make([]int64, len(lengths)), make([]int64, len(lengths))
	rounds := 0
	for b.Loop() {
		for i, earlier := range lengths {
			session := fmt.Sprint(earlier, "-", rounds)
			for range earlier {
				t.Take(session)
			}
			size, before := t.Size(session), pagesWritten(b)
			for range turns {
				t.Take(session)
			}
			written[i] += pagesWritten(b) - before
			grown := int(t.Size(session)-size) / turns
			before = pagesWritten(b)
			for range turns {
				floor.Append(grown)
			}
			floors[i] += pagesWritten(b) - before
		}
		rounds++
	}
	for i, earlier := range lengths {
		b.ReportMetric(float64(written[i])/float64(rounds*turns), fmt.Sprintf("%d-B/turn", earlier))
		b.ReportMetric(float64(floors[i])/float64(rounds*turns), fmt.Sprintf("%d-floor-B/turn", earlier))
	}
	b.ReportMetric(float64(written[1])/float64(written[0]), "1000/10")
	b.ReportMetric(0, "ns/op")
}

// pagesWritten is what this process has made the kernel write so far, in bytes.
func pagesWritten(b *testing.B) int64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	var written int64
	for line := range strings.Lines(string(data)) {
		if n, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			if written, err = strconv.ParseInt(strings.TrimSpace(n), 10, 64); err != nil {
				b.Fatal(err)
			}
		}
	}
	return written
}
