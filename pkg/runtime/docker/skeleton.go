package docker

import (
	"context"
	"errors"

	"github.com/flisk-go/flisk/pkg/runtime"
)

var errUnfinished = errors.New("the docker runtime is not finished yet")

// Observe implements runtime.Driver.
func (d *Driver) Observe(ctx context.Context) (runtime.Observed, error) {
	return runtime.Observed{}, errUnfinished
}

// Examine implements runtime.Driver.
func (d *Driver) Examine(ctx context.Context) []runtime.Finding { return nil }

// Plan implements runtime.Driver. What Up would refuse before it does anything
// is refused here as well, except for what only doing it finds out.
func (d *Driver) Plan(ctx context.Context, op runtime.Op, agents ...string) (runtime.Plan, error) {
	return nil, errUnfinished
}

// Up implements runtime.Driver.
func (d *Driver) Up(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	return runtime.Report{}, errUnfinished
}

// Down implements runtime.Driver. Once it has begun to stop, ctx does not end
// it: a drain that is cut loses what it was for. Options.Force does.
func (d *Driver) Down(ctx context.Context, p runtime.Progress) (runtime.Report, error) {
	return runtime.Report{}, errUnfinished
}

// Restart implements runtime.Driver.
func (d *Driver) Restart(ctx context.Context, agent string, p runtime.Progress) (runtime.Report, error) {
	return runtime.Report{}, errUnfinished
}

// Kill implements runtime.Driver. The engine does not bring back what was killed
// by hand, so it is started again here.
func (d *Driver) Kill(ctx context.Context, agent string) ([]runtime.Change, error) {
	return nil, errUnfinished
}

// Logs implements runtime.Driver. They are those of the containers that are
// there: the engine forgets a log with its container. A follow goes on with
// containers that come later, and returns nil when the context ends.
func (d *Driver) Logs(ctx context.Context, o runtime.LogOptions, emit func(runtime.Line) error) error {
	return errUnfinished
}

// Volume is a volume of the project on the engine.
type Volume struct {
	Name        string
	Checkpoints bool // it holds the project's conversations
	External    bool // declared as made elsewhere: never removed
}

// Volumes lists the volumes of the project that exist on the engine, the one
// with its conversations first. It changes nothing.
func (d *Driver) Volumes(ctx context.Context) ([]Volume, error) { return nil, errUnfinished }

// ReadVolume copies the volume with the project's conversations, as it is right
// now, into a temporary directory, calls read with it, and removes it. It is for
// looking, when nothing runs and while something does: the engine is not always
// able to show a directory otherwise. Nothing that read does reaches the volume.
// A volume that does not exist, or of which nothing was ever written, is
// fs.ErrNotExist.
//
// It takes a container to look at a volume: one of the project's, or one that is
// made for it, never started, and removed.
func (d *Driver) ReadVolume(ctx context.Context, read func(dir string) error) error {
	return errUnfinished
}

// RemoveVolume removes every volume of the project on the engine that carries
// its label, and returns their names: the conversations are gone then. One that
// is declared external, and one of anybody else's, is not touched. What is
// remembered of the volume is forgotten. While something of the project runs it
// is refused: Down first.
func (d *Driver) RemoveVolume(ctx context.Context, p runtime.Progress) (removed []string, err error) {
	return nil, errUnfinished
}

// Erase removes everything of the project from the engine and from Home: it
// stops what runs without a drain, then removes containers, network, volumes,
// images, live routes and built programs, and what is remembered. It is for stacks that were made to be
// thrown away, and goes on where an earlier one was killed. ctx does not end it.
func (d *Driver) Erase(ctx context.Context, p runtime.Progress) error { return errUnfinished }
