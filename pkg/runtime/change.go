package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
)

// What every driver does alike when it changes something.

// ErrStopped is what an Up of a driver that is attached to a stack comes to when
// somebody has stopped that.
var ErrStopped = errors.New("the stack was stopped")

// Knows refuses agents that a stack does not have.
func Knows(s stack.Stack, agents []string) error {
	for _, agent := range agents {
		if !slices.ContainsFunc(s.Agents, func(a stack.Agent) bool { return a.Name == agent }) {
			return fault.New(fault.Usage, "", "the project has no agent %q", agent)
		}
	}
	return nil
}

// Converge is an Up, or the Restart of an agent, or of all where agent is "". do
// does it, and says of an interruption what became of what it had begun; where it
// had begun nothing that is said here.
func Converge(ctx context.Context, s stack.Stack, agent string, do func(agents []string) (Report, error)) (Report, error) {
	var agents []string
	if agent != "" {
		agents = []string{agent}
	}
	if err := Knows(s, agents); err != nil {
		return Report{}, err
	}
	report, err := do(agents)
	if err != nil && ctx.Err() != nil && fault.KindOf(err) != fault.Interrupted {
		err = Interrupted(ctx, err, WayBack{})
	}
	return report, err
}

// GivenUp is the error of a plan that failed with err, after what it did was taken
// back as far as that goes.
func GivenUp(ctx context.Context, err error, back WayBack) error {
	if ctx.Err() != nil {
		return Interrupted(ctx, err, back)
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok && back.Ended {
		said := *f
		said.Message += "; what ran before has stopped already, and nothing of the project runs now"
		said.Hint = strings.TrimPrefix(f.Hint+"; then flisk up", "; then ")
		err = &said
	}
	if back.Runs && back.Err == nil {
		err = StillRuns(err)
	}
	return errors.Join(err, back.Err)
}

// Serves reports whether an agent answers turns.
func (o Observed) Serves() bool {
	return slices.ContainsFunc(o.Replicas, func(r Replica) bool { return r.State == Ready })
}

// StillRuns adds to the error of a change that failed what its reader wants to
// know first: that it cost nothing.
func StillRuns(err error) error {
	const said = "what ran before still runs"
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || strings.HasSuffix(f.Hint, said) {
		return err
	}
	with := *f
	with.Hint = strings.TrimPrefix(f.Hint+"; "+said, "; ")
	return &with
}

// ErrSourceChanged says that something was not built from the source that its name
// says, because somebody wrote it meanwhile.
var ErrSourceChanged = errors.New("the source changed while it was being built")

// CheckSource is ErrSourceChanged when the source of an agent is not what its code
// is the name of, or was not all the time that it was built. still may be nil; then
// the names are compared.
func CheckSource(hash func(agent string) (string, error), still func(agent, code string) (bool, error), agent, code string) error {
	if still == nil {
		still = func(agent, code string) (bool, error) {
			now, err := hash(agent)
			return now == code, err
		}
	}
	same, err := still(agent, code)
	if err == nil && !same {
		err = ErrSourceChanged
	}
	return err
}

// maxTries bounds how often a plan is begun again because of that.
const maxTries = 3

// TryAgain reports whether a plan that failed is to be made anew, from the source
// as it is now: builds come first, so nothing was started yet. tries counts from 1.
func TryAgain(err error, tries int) bool {
	return errors.Is(err, ErrSourceChanged) && tries < maxTries
}

// RefuseOther refuses to change a stack that runs from another directory than its
// own. A project whose directory was moved or removed meanwhile is no other copy,
// and neither is "", which nobody knows.
func RefuseOther(s stack.Stack, dir string) error {
	theirs, err := os.Stat(dir)
	if dir == "" || err != nil {
		return nil
	}
	if mine, err := os.Stat(s.Dir); err == nil && os.SameFile(mine, theirs) {
		return nil
	}
	return fault.New(fault.Environment,
		fmt.Sprintf("run this one beside it, with conversations of its own: flisk up --instance NAME; or stop the other: %s", DownOf(dir, s.Instance)),
		"this project (id %s) runs from another directory, %q", s.ID, dir)
}

// DownOf is the command that stops what runs from a directory.
func DownOf(dir, instance string) string {
	command := fmt.Sprintf("flisk -C %q", filepath.Clean(dir))
	if instance != "" {
		command += " --instance " + instance
	}
	return command + " down"
}

// Span is how long a step took, for people.
func Span(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
