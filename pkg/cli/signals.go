package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
)

// sameTerm is how soon another SIGTERM is the first one again. timeout(1) sends it
// to its child and then to its own group, and so do others: nobody asks twice then.
const sameTerm = time.Second

// stopSignals counts the signals that ask for an end. The zero value has seen none.
type stopSignals struct {
	seen int
	term time.Time // the first SIGTERM
}

// count is which one of them a signal is, from 1; 0 for one that is the one before
// again. A Ctrl-C always counts.
func (s *stopSignals) count(sig os.Signal, now time.Time) int {
	if sig == syscall.SIGTERM {
		if !s.term.IsZero() && now.Sub(s.term) < sameTerm {
			return 0
		}
		if s.term.IsZero() {
			s.term = now
		}
	}
	s.seen++
	return s.seen
}

// interruptible does work with a context that the first SIGINT, SIGTERM or
// SIGHUP cancels. The default of the first two comes back with that: a second one
// ends the process at once, for the case that cleaning up hangs. An error of an
// interrupted work becomes one of kind Interrupted.
func (a *app) interruptible(ctx context.Context, work func(context.Context) error) error {
	caught, stop := a.untilSignal(ctx, restoreDefaults)
	defer stop()
	err := work(caught)
	if err != nil && caught.Err() != nil {
		return interrupted(caught, err)
	}
	return err
}

// restoreDefaults lets go of the signals that a channel gets, of which sig was the
// first: only the same SIGTERM again is still caught, see sameTerm.
func restoreDefaults(sig os.Signal, signals chan<- os.Signal) {
	if sig == syscall.SIGTERM {
		again := make(chan os.Signal, 1)
		signal.Notify(again, syscall.SIGTERM)
		time.AfterFunc(sameTerm, func() { signal.Stop(again) })
	}
	signal.Stop(signals)
}

// untilSignal returns a context that ends with the first SIGINT, SIGTERM or
// SIGHUP, after first was called with that and the channel of the former two. The
// function it returns must be called in the end. What is said from then on begins
// on a fresh line.
func (a *app) untilSignal(ctx context.Context, first func(os.Signal, chan<- os.Signal)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	hangups, stopHangups := catchHangups()
	var watch sync.WaitGroup
	watch.Go(func() {
		var sig os.Signal
		select {
		case <-ctx.Done():
			return
		case sig = <-signals:
		case sig = <-hangups:
		}
		first(sig, signals)
		a.freshLine()
		cancel()
	})
	return ctx, func() {
		cancel()
		watch.Wait()
		signal.Stop(signals)
		stopHangups()
	}
}

// catchHangups tells that the terminal is gone. One that closes sends SIGHUP more
// than once, by the kernel and by the shell: so it stays caught until stop, and
// never ends a clean-up. Whoever ignores it, as nohup does, is not told.
func catchHangups() (hangups <-chan os.Signal, stop func()) {
	caught := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(caught, syscall.SIGHUP)
	}
	return caught, func() { signal.Stop(caught) }
}

// freshLine leaves the line on which the terminal echoed a ^C.
func (a *app) freshLine() {
	if a.streams.Err.Terminal {
		a.streams.Err.FreshLine()
	} else {
		a.streams.Out.FreshLine()
	}
}

// catchBrokenPipes makes a write to a standard stream that nobody reads any more
// fail like any other write, instead of ending the process in the middle of what
// it does. Signals are caught, not ignored: what is ignored would be so in every
// program that is started from here, too.
func catchBrokenPipes() (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPIPE)
	return func() { signal.Stop(signals) }
}

// interrupted keeps what an error says beyond that ctx was cancelled.
func interrupted(ctx context.Context, err error) error {
	f := fault.New(fault.Interrupted, "", "interrupted")
	f.Err = err
	if said, ok := errors.AsType[*fault.Fault](err); ok {
		f.Message, f.Hint, f.Detail = said.Message, said.Hint, said.Detail
		f.Message = strings.TrimSuffix(f.Message, ": "+context.Cause(ctx).Error())
	}
	return f
}
