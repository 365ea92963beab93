package watch

import (
	"fmt"
	"testing"
	"time"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for name, c := range map[string]struct {
		paths       int
		last, after time.Duration // since the first event: the last one, and when it is asked
		busy        bool
		want        time.Duration
	}{
		"nothing":            {0, 0, 0, true, 0},
		"one save":           {1, 0, 0, false, Quiet},
		"in the middle":      {1, 0, Quiet / 4, false, 3 * Quiet / 4},
		"again":              {1, Quiet, Quiet, false, Quiet},
		"near the limit":     {1, Most - Quiet/4, Most - Quiet/4, false, Quiet / 4},
		"many are few":       {manyFiles, Most, Most, false, 0},
		"many":               {manyFiles + 1, Most, Most, false, stormQuiet * Quiet},
		"many for too long":  {5000, Many - Quiet, Many - Quiet, false, Quiet},
		"busy, and at rest":  {1, 0, Most, true, Quiet},
		"busy for too long":  {1, 0, Many, true, 0},
		"over long ago":      {1, 0, time.Hour, false, Quiet - time.Hour},
		"many, with a pause": {5000, Most, Most + Quiet, false, (stormQuiet - 1) * Quiet},
	} {
		var b, later batch
		for i := range c.paths {
			b.add(fmt.Sprint(i), start)
		}
		if c.paths > 0 && c.last > 0 {
			later.add("0", start.Add(c.last))
			b.merge(later)
		}
		if got := b.left(start.Add(c.after), Quiet, c.busy); got != c.want {
			t.Errorf("%s: %v left, want %v", name, got, c.want)
		}
		if len(b.paths) > manyFiles+1 {
			t.Errorf("%s: %d paths are kept", name, len(b.paths))
		}
	}
}
