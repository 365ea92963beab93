package verify

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Target is a stack that a verification may do anything to: nobody else uses it,
// and its volume was empty. One agent of it is verified, with one replica and
// with holds unlocked (see [turn.Hold]). Run calls its methods one at a time,
// except that turns are under way meanwhile, that Logs runs beside others, and
// that what was reloaded is retired beside later reloads.
//
// When ctx ends, a method returns its cause as soon as it can; what it began may
// be half done, and the next Up or Down goes on from there.
type Target interface {
	// Up starts what does not run, and returns when the agent answers ready at
	// URL. When everything runs it changes nothing. Every call runs the same
	// code, whatever became of the source since the first.
	Up(ctx context.Context) error

	// Down stops everything through its drain, and kills what does not end in its
	// time. The volume stays as it is.
	Down(ctx context.Context) error

	// Restart replaces the agent's process as a reload does: the new one serves
	// before the old one is stopped through its drain, or killed when that takes
	// too long. It returns when the old one has ended.
	Restart(ctx context.Context) (Change, error)

	// Reload replaces the agent's process by one of newer code, as a save under
	// flisk dev does: it returns when no request goes to the old one any more,
	// which runs on until [Reloaded.Retire] ends it. A target makes the code newer
	// by its name alone, so that the program is the same; what Up starts from then
	// on has that name.
	Reload(ctx context.Context) (Reloaded, error)

	// Signal sends a signal to the agent's process, and nothing else: whatever
	// keeps it alive is not told. It returns when that process has ended and
	// another one is there. A process that did not end is [ErrStillRuns].
	Signal(ctx context.Context, sig syscall.Signal) (Change, error)

	// Logs calls emit for each line that the agent has written since the first
	// Up, oldest first, over all its processes. With follow it goes on with
	// lines as they are written, until emit returns an error, which it returns,
	// or ctx ends, which is none.
	Logs(ctx context.Context, follow bool, emit func(line string) error) error

	// URL is the base URL of the gateway. It is the same for the whole run.
	URL() string

	// ReadVolume calls read with a directory in which the volume can be read as it
	// is now, with [checkpoint.OpenReader]: itself, or a copy. It may be called at
	// any time after the first Up.
	ReadVolume(ctx context.Context, read func(dir string) error) error

	// MoveFile renames a file of the volume behind the agent's back. Both names are
	// relative to the volume, with slashes.
	MoveFile(ctx context.Context, from, to string) error
}

// ErrStillRuns says that a process was still there when the time was up.
var ErrStillRuns = errors.New("the process still runs")

// Process is one process, told apart from every other one. The zero value is
// none.
type Process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // only equality means something
}

// Exit is how a process ended.
type Exit struct {
	Code   int            `json:"code"`   // -1 when a signal ended it
	Signal syscall.Signal `json:"signal"` // 0 when it exited by itself
}

func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d (%s)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Change is a process that ended and the one that took its place.
type Change struct {
	Before, After Process
	Exit          Exit // of Before
}

// Reloaded is a reload that was done.
type Reloaded struct {
	Code string // what the new process says that it runs; see [turn.HeaderCode]

	// Retire stops the old process through its drain, as Restart does. It is to be
	// called once.
	Retire func(ctx context.Context) (Change, error)
}

// killed says why a change is not that of a kill; nil when it is.
func (c Change) killed() error {
	switch {
	case c.Before.PID == 0:
		return errors.New("there was no process to kill")
	case c.Exit.Signal != syscall.SIGKILL:
		return fmt.Errorf("process %d ended by %s and not by signal 9", c.Before.PID, c.Exit)
	}
	return c.replaced()
}

// replaced says why a change leaves no other process; nil when it does.
func (c Change) replaced() error {
	switch {
	case c.After.PID == 0:
		return fmt.Errorf("nothing took the place of process %d", c.Before.PID)
	case c.After == c.Before:
		return fmt.Errorf("process %d is still the one that runs", c.Before.PID)
	}
	return nil
}
