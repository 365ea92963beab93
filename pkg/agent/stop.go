package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// errHurried is the cause of a drain's early end.
var errHurried = errors.New("a second signal came")

// stopWatch watches for what can tell an agent to stop.
type stopWatch struct {
	first context.Context // ends with the first signal, or with the lifeline
	alone context.Context // ends with the lifeline: nobody sends new requests any more
	hurry context.Context // ends with SIGINT when first has ended

	signals  chan os.Signal
	pipes    chan os.Signal
	lifeline *os.File
	done     chan struct{}
	watchers sync.WaitGroup
}

// watchForStop starts the watch. lifeline is a descriptor whose end of file
// means that no gateway sends anything any more, because the supervisor saw to
// that, or is gone with the gateway; or 0.
func watchForStop(lifeline int) (*stopWatch, error) {
	w := &stopWatch{
		signals: make(chan os.Signal, 3),
		pipes:   make(chan os.Signal, 1),
		done:    make(chan struct{}),
	}
	if lifeline != 0 {
		// Non-blocking, so that close can end the read; close-on-exec, so that
		// what runTurn starts does not get it.
		syscall.CloseOnExec(lifeline)
		if err := syscall.SetNonblock(lifeline, true); err != nil {
			return nil, fmt.Errorf("FLISK_LIFELINE=\"%d\": not an inherited descriptor: %w", lifeline, err)
		}
		w.lifeline = os.NewFile(uintptr(lifeline), "lifeline")
	}
	var stop, hurry context.CancelFunc
	w.first, stop = context.WithCancel(context.Background())
	w.alone = context.Background()
	hurrying, hurryNow := context.WithCancelCause(context.Background())
	w.hurry, hurry = hurrying, func() { hurryNow(errHurried) }

	signal.Notify(w.signals, syscall.SIGTERM, syscall.SIGINT)
	// A supervisor that was killed takes the reader of our output with it. The
	// write that meets the broken pipe must fail, not kill: there is a drain to
	// finish. Notify and not Ignore, so that child processes keep the default.
	signal.Notify(w.pipes, syscall.SIGPIPE)

	w.watchers.Go(func() { w.count(stop, hurry) })
	if w.lifeline != nil {
		alone, leave := context.WithCancel(context.Background())
		w.alone = alone
		w.watchers.Go(func() {
			// Whatever ends the reading, there is no supervisor to rely on.
			_, _ = io.Copy(io.Discard, w.lifeline)
			leave()
			stop()
		})
	}
	return w, nil
}

// count acts on signals: the first one stops, the second one hurries, the third
// one ends the process. SIGTERM counts as the first one only: it is what programs
// send, and two that want the same end, such as `docker stop` and `flisk down`,
// want nothing more. Who wants more is a person with Ctrl-C, or sends SIGKILL.
func (w *stopWatch) count(stop, hurry context.CancelFunc) {
	for n := 1; ; n++ {
		var sig os.Signal
		for sig == nil || n > 1 && sig == syscall.SIGTERM {
			select {
			case sig = <-w.signals:
			case <-w.done:
				return
			}
		}
		switch n {
		case 1:
			stop()
		case 2:
			hurry()
		default:
			os.Exit(exitFail)
		}
	}
}

// close ends the watch and waits for its goroutines. Signals have their default
// effect again.
func (w *stopWatch) close() {
	signal.Stop(w.signals)
	signal.Stop(w.pipes)
	close(w.done)
	if w.lifeline != nil {
		_ = w.lifeline.Close() // only ever read
	}
	w.watchers.Wait()
}
