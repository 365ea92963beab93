package cli

import (
	"context"
	"errors"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
)

// errDeclined is below the error of a question that a person answered with no.
// What they wanted came about, so it is told as plain news; but a script that goes
// on after the command must not, so it is exit code 1.
var errDeclined = errors.New("declined")

// confirm returns nil when --yes or a person agrees. Otherwise its error says
// that nothing was done, in the words of kept ("nothing was removed"): of kind
// Failed, with errDeclined, when somebody said no, of kind Usage when nobody could
// be asked.
func (a *app) confirm(ctx context.Context, question, kept string) error {
	if a.global.yes {
		return nil
	}
	why := "--no-input is set"
	if !a.global.noInput {
		yes, err := a.streams.Confirm(ctx, question)
		switch {
		case yes:
			return nil
		case err == nil:
			return &fault.Fault{Kind: fault.Failed, Message: kept, Err: errDeclined}
		case ctx.Err() != nil:
			return fault.New(fault.Interrupted, "", "interrupted; %s", kept)
		case !errors.Is(err, console.ErrNoTerminal):
			return err
		}
		why = "there is no terminal to ask on"
	}
	return fault.New(fault.Usage, "--yes goes on without a question", "%s: it needs a yes, and %s", kept, why)
}
