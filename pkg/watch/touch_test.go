package watch

import (
	"context"
	"os"
	"testing"
	"time"
)

// TestTouches: who waits for them is told of a file that is saved as it was, or
// whose time is set, with events and without.
func TestTouches(t *testing.T) {
	t.Parallel()
	for name, poll := range map[string]bool{"events": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			o := r.options()
			o.Poll = poll
			w, err := New(t.Context(), o)
			r.must(err)
			r.use(w)
			touched := func(want string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				c, err := w.NextTouch(ctx, r.base)
				if err != nil {
					t.Fatal(err)
				}
				r.base = c.Tree
				if len(c.Files) != 1 || c.Files[0].Path != want || c.Files[0].Op != "modified" {
					t.Errorf("got %+v, want %s", c.Files, want)
				}
			}
			r.save("main.go", "content of main.go")
			touched("main.go")
			r.must(os.Chtimes(r.at("assets/prompt.txt"), time.Time{}, time.Unix(1, 0)))
			touched("assets/prompt.txt")
			r.write("main.go", "another")
			touched("main.go")
			r.save("main.go", "another")
			r.nothing("a touch that nobody waits for")
		})
	}
}
