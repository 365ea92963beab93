package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
)

// interruptible does work with a context that the first SIGINT, SIGTERM or
// SIGHUP cancels. The default of the first two comes back with that: a second one
// ends the process at once, for the case that cleaning up hangs. An error of an
// interrupted work becomes one of kind Interrupted.
func (a *app) interruptible(ctx context.Context, work func(context.Context) error) error {
	caught, stop := a.untilSignal(ctx, func(signals chan<- os.Signal) { signal.Stop(signals) })
	defer stop()
	err := work(caught)
	if err != nil && caught.Err() != nil {
		return interrupted(caught, err)
	}
	return err
}

// untilSignal returns a context that ends with the first SIGINT, SIGTERM or
// SIGHUP, after first was called with the channel of the former two. The function
// it returns must be called in the end. What is said from then on begins on a
// fresh line.
func (a *app) untilSignal(ctx context.Context, first func(chan<- os.Signal)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	hangups, stopHangups := catchHangups()
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		case <-hangups:
		}
		first(signals)
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
