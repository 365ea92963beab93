package cli

import (
	"os"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/process"
	"github.com/flisk-go/flisk/pkg/stack"
)

// processDriver makes the driver that runs a project as local processes.
func (a *app) processDriver(p *project.Project, force <-chan struct{}) (runtime.Driver, error) {
	home, err := process.DefaultHome(a.getenv)
	if err != nil {
		return nil, fault.New(fault.Environment, "set FLISK_HOME to a directory of yours", "there is no place to keep anything: %w", err)
	}
	base, err := process.DefaultRunBase(a.getenv)
	if err != nil {
		return nil, fault.New(fault.Environment, "set FLISK_RUN_DIR to a short directory of yours", "there is no place for the run directory: %w", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fault.New(fault.Environment, "", "cannot find flisk's own executable: %w", err)
	}
	return process.New(process.Options{
		Stack:      stack.Of(p, a.global.instance),
		Home:       home,
		RunBase:    base,
		Executable: executable,
		Env:        a.environ,
		SourceHash: p.SourceHash,
		Force:      force,
		Owner:      a.owner,

		LeaveAgents: a.global.yes,
	})
}
