package cli

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
)

// TestASignalThatIsSentTwice: timeout(1) sends SIGTERM to its child, and then to
// its own group, in which the child is.
func TestASignalThatIsSentTwice(t *testing.T) {
	t.Parallel()
	type press struct {
		sig   os.Signal
		after time.Duration // the one before
		want  int
	}
	for name, presses := range map[string][]press{
		"SIGTERM twice at once": {{syscall.SIGTERM, 0, 1}, {syscall.SIGTERM, time.Millisecond, 0}, {syscall.SIGTERM, time.Second, 2}},
		"Ctrl-C twice at once":  {{syscall.SIGINT, 0, 1}, {syscall.SIGINT, 0, 2}},
		"one and the other":     {{syscall.SIGTERM, 0, 1}, {syscall.SIGINT, 0, 2}, {syscall.SIGTERM, 0, 0}},
		"the other and the one": {{syscall.SIGINT, 0, 1}, {syscall.SIGTERM, 0, 2}, {syscall.SIGTERM, 0, 0}},
	} {
		var s stopSignals
		now := time.Now()
		for i, p := range presses {
			now = now.Add(p.after)
			if got := s.count(p.sig, now); got != p.want {
				t.Errorf("%s: number %d counts as %d, want %d", name, i+1, got, p.want)
			}
		}
	}
}

// TestADrainIsNotCutOffByItsOwnSignal: nor does a second one a moment later go
// unheard.
func TestADrainIsNotCutOffByItsOwnSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals, over, forced := make(chan os.Signal, 2), make(chan struct{}), 0
		go quietApp().watchDrain(console.Silent(), signals, func() { forced++ }, over)
		defer close(over)
		signals <- syscall.SIGTERM
		signals <- syscall.SIGTERM
		synctest.Wait()
		if forced != 0 {
			t.Error("the same signal again killed what was left")
		}
		time.Sleep(sameTerm)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if forced != 1 {
			t.Errorf("a second signal forced %d times", forced)
		}
	})
}
