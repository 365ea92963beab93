package runtime

import (
	"context"
	"errors"

	"github.com/flisk-go/flisk/pkg/fault"
)

// WayBack is what became of what an Up or a Restart had begun when it failed.
type WayBack struct {
	Closed bool  // something was stopped for good, so nothing was taken back
	Err    error // of taking it back

	Runs  bool // what ran before the change still runs
	Ended bool // it does not, and nothing took its place
}

// Interrupted is the error of an Up or a Restart that ended with err because ctx
// had ended. It says that everything is as before only where that is so, and its
// detail is what else went wrong.
func Interrupted(ctx context.Context, err error, back WayBack) error {
	cause := context.Cause(ctx)
	said, hint := "interrupted; what this run had started is stopped again", ""
	switch {
	case back.Closed:
		said, hint = "interrupted when there was no way back any more", "flisk up finishes what this run began"
	case back.Err != nil:
		said, hint = "interrupted; not all that this run had done could be taken back", "flisk status shows what runs; flisk up brings it into order"
	}
	f := fault.New(fault.Interrupted, hint, "%s: %w", said, cause)
	if errors.Is(err, cause) {
		err = nil // it says no more
	}
	if more := errors.Join(err, back.Err); more != nil {
		f.Detail, f.Err = more.Error(), errors.Join(cause, more)
	}
	return f
}
