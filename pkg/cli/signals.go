package cli

import (
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
)

// interruptible does work with a context that the first SIGINT or SIGTERM
// cancels. The signal's default comes back with that: a second one ends the
// process at once, for the case that cleaning up hangs. An error of an
// interrupted work becomes one of kind Interrupted.
func interruptible(ctx context.Context, work func(context.Context) error) error {
	caught, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(caught, stop)()
	err := work(caught)
	if err != nil && caught.Err() != nil {
		return interrupted(caught, err)
	}
	return err
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
