package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
)

func TestC04_LimitsAreToldAndPolled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open func(*fake) func() (notifier, error)
		want []string
	}{
		"watches": {func(f *fake) func() (notifier, error) {
			f.fail = func(dir string) error {
				if strings.HasSuffix(dir, "deep") {
					return errNoSpace
				}
				return nil
			}
			return f.opens
		}, []string{"fs.inotify.max_user_watches is "}},
		"instances": {func(*fake) func() (notifier, error) {
			return func() (notifier, error) { return nil, fmt.Errorf("init: %w", syscall.EMFILE) }
		}, []string{"fs.inotify.max_user_instances is "}},
		"something else": {func(*fake) func() (notifier, error) {
			return func() (notifier, error) { return nil, syscall.ENOSYS }
		}, []string{"function not implemented"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.watchWith(r.options(), c.open(newFake()))
			got := r.warnings()
			if len(got) != 1 {
				t.Fatalf("warnings: %q", got)
			}
			for _, want := range c.want {
				if !strings.Contains(got[0], want) {
					t.Errorf("warning %q, want %q", got[0], want)
				}
			}
			if !r.w.polling {
				t.Error("it does not poll")
			}
			r.save("lib/deep/er/lib.go", "changed")
			r.expect("modified lib/deep/er/lib.go")
		})
	}
	f, ok := errors.AsType[*fault.Fault](explain(errNoSpace, "x"))
	if !ok || f.Kind != fault.Environment || !strings.Contains(f.Hint, "sudo sysctl -w fs.inotify.max_user_watches=") {
		t.Errorf("%+v", f)
	}
}

// TestC05_NoEvents: the probe file gives none, and so it polls.
func TestC05_NoEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := newWatcher(r.options(), newFake().opens)
	began := time.Now()
	why := w.deaf(r.Context())
	if f, ok := errors.AsType[*fault.Fault](why); !ok || !strings.Contains(f.Message, "gives no event") || f.Hint == "" {
		t.Errorf("without events: %v", why)
	}
	if took := time.Since(began); took < patience || took > 3*patience {
		t.Errorf("it took %v", took)
	}
	if _, err := os.Stat(r.at(".flisk")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the probe leaves its directory: %v", err)
	}
	r.must(w.Close())

	w = newWatcher(r.options(), openNotifier)
	if why := w.deaf(r.Context()); why != nil {
		t.Errorf("with events: %v", why)
	}
	r.must(w.Close())
}

// TestC05_WithoutEventsItPolls: a watcher that gets none says so, once, asks for
// none any more, and sees a save all the same.
func TestC05_WithoutEventsItPolls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	f := newFake() // every directory can be watched, and nothing comes
	w, err := newWith(t.Context(), r.options(), f.opens)
	r.must(err)
	r.use(w)
	if got := r.warnings(); len(got) != 1 || !strings.Contains(got[0], "gives no event") {
		t.Errorf("it says %q", got)
	}
	if every := w.Polls(); every < pollPause {
		t.Errorf("it looks every %v", every)
	}
	if f.opened != 1 { // for the probe
		t.Errorf("it asked for events %d times", f.opened)
	}
	r.save("main.go", "one")
	r.expect("modified main.go")
}

func TestC05_Polling(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	o.Poll = true
	r.watchWith(o, func() (notifier, error) { t.Error("it asks for events"); return nil, syscall.ENOSYS })
	r.save("main.go", "one")
	r.expect("modified main.go")
	r.write("new/deep/x.go", "new")
	r.must(os.Remove(r.at("assets/prompt.txt")))
	r.expect("removed assets/prompt.txt, added new/deep/x.go")
}

// TestC05_PollingIsBounded: a look that takes long is rare.
func TestC05_PollingIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.options()
	o.Poll = true
	r.watchWith(o, nil)
	for cost, want := range map[time.Duration]time.Duration{time.Millisecond: 500 * time.Millisecond, 100 * time.Millisecond: 2500 * time.Millisecond} {
		r.w.cost = cost
		if pause, polling, _ := r.w.pause(); pause != want || !polling || cost*20 > pause {
			t.Errorf("after a look of %v the pause is %v", cost, pause)
		}
	}
}
