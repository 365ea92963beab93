// Package fault is the error that a person reads: what happened, what to do
// next, and which exit code it means. Any package of the command half may
// return one; pkg/cli prints it and exits with its code.
package fault

import (
	"errors"
	"fmt"
)

// Kind says whose turn it is, and thereby the exit code.
type Kind int

// The kinds, with their exit codes as values. 0 is success and never a fault.
const (
	Failed      Kind = 1   // the work failed, or a guarantee is broken
	Usage       Kind = 2   // the command line or the configuration is wrong
	Environment Kind = 3   // the engine, a port, the toolchain … is not ready
	Unchecked   Kind = 4   // nothing is broken, but something could not be checked
	Interrupted Kind = 130 // the user stopped it
)

// Fault is an error with a hint. Message follows Go's habit: lower case, no
// full stop, names quoted; one line. Hint is a sentence fragment that says what
// to do next, and may be empty. Detail is text of somebody else's that belongs
// to the message (a compiler's output, the last log lines), printed as it is.
type Fault struct {
	Kind    Kind
	Message string
	Hint    string
	Detail  string
	Agents  []string // whose own fault it is, where it is that of some agents
	Err     error    // the cause, if there is one worth testing for
}

// New makes a fault. A %w verb in format sets Err.
func New(kind Kind, hint, format string, args ...any) *Fault {
	err := fmt.Errorf(format, args...)
	return &Fault{Kind: kind, Message: err.Error(), Hint: hint, Err: errors.Unwrap(err)}
}

func (f *Fault) Error() string { return f.Message }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// KindOf is the kind of the first fault in err's tree, or Failed when there is
// none.
func KindOf(err error) Kind {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Kind
	}
	return Failed
}
