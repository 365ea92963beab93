package checkpoint

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/durable"
)

// BenchmarkWarmTurn measures one whole turn of a session that is loaded, at
// several lengths, and beside it the floor: the same bytes appended to a plain
// file and synced once. The two alternate, so that both see the same disk.
// "ratio" is the one number to look at.
func BenchmarkWarmTurn(b *testing.B) {
	for _, earlier := range []int{1, 100, 5000} {
		b.Run(fmt.Sprintf("earlier=%d", earlier), func(b *testing.B) {
			store := openStore(b, b.TempDir(), Options{})
			ctx := b.Context()
			for range earlier {
				if _, err := oneTurn(ctx, store, "s", "", "the question", "the answer"); err != nil {
					b.Fatal(err)
				}
			}
			root, err := durable.OpenRoot(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer root.Close()
			floor, err := root.Open("floor", "floor", os.O_RDWR|os.O_CREATE)
			if err != nil {
				b.Fatal(err)
			}
			defer floor.Close()
			before := store.entries[fileName("s")].file.size
			input, _ := json.Marshal(string(make([]byte, 100)))
			reply, _ := json.Marshal(fmt.Sprintf("%01000d", 7))
			var turns, floors []time.Duration
			end := int64(0)
			for b.Loop() {
				start := time.Now()
				s, err := store.Acquire(ctx, "s")
				if err != nil {
					b.Fatal(err)
				}
				cp := s.Checkpoint()
				if _, err := s.Begin(Begin{Input: input}); err != nil {
					b.Fatal(err)
				}
				add := []Message{{Role: "user", Content: input}, {Role: "assistant", Content: reply}}
				if _, err := s.Commit(Commit{Messages: cp.Messages, Add: add, Reply: reply}); err != nil {
					b.Fatal(err)
				}
				s.Release()
				turns = append(turns, time.Since(start))

				after := store.entries[fileName("s")].file.size
				bytes := make([]byte, after-before)
				before = after
				start = time.Now()
				if _, err := floor.WriteAt("floor", bytes, end); err != nil {
					b.Fatal(err)
				}
				if err := floor.Datasync("floor"); err != nil {
					b.Fatal(err)
				}
				end += int64(len(bytes))
				floors = append(floors, time.Since(start))
			}
			t, f := median(turns), median(floors)
			b.ReportMetric(float64(t.Microseconds()), "p50-µs")
			b.ReportMetric(float64(f.Microseconds()), "floor-p50-µs")
			b.ReportMetric(float64(t)/float64(f), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
