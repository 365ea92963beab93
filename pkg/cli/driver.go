package cli

import (
	"os"

	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
	"github.com/flisk-go/flisk/pkg/runtime/process"
	"github.com/flisk-go/flisk/pkg/source"
	"github.com/flisk-go/flisk/pkg/stack"
)

// driverOf makes the driver that runs a project on a runtime. It starts nothing
// and connects to nothing.
func driverOf(a *app, on project.Runtime, p *project.Project, force <-chan struct{}) (runtime.Driver, error) {
	if on == project.Docker {
		return a.dockerDriver(p, force)
	}
	return a.processDriver(p, force)
}

// processDriver makes the driver that runs a project as local processes.
func (a *app) processDriver(p *project.Project, force <-chan struct{}) (runtime.Driver, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	base, err := process.DefaultRunBase(a.getenv)
	if err != nil {
		return nil, fault.New(fault.Environment, "set FLISK_RUN_DIR to a short directory of yours", "there is no place for the run directory: %w", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, fault.New(fault.Environment, "", "cannot find flisk's own executable: %w", err)
	}
	o := process.Options{
		Stack:      stack.Of(p, a.global.instance),
		Home:       home,
		RunBase:    base,
		Executable: executable,
		Env:        a.environ,
		SourceHash: hashes(p),
		Force:      force,
		Owner:      a.owner,

		LeaveAgents: a.global.yes,
	}
	if l := a.loop; l != nil {
		o.SourceHash, o.SourceStill, o.Told, o.Leave, o.Restless, o.Attached = l.hash, l.still, l.told, true, true, l.attached
	}
	return process.New(o)
}

// driverLoop is what the drivers of a dev loop have that no others do: they leave
// what they replace to it, and do not wait for files to rest.
type driverLoop struct {
	hash     func(agent string) (string, error)
	still    func(agent, code string) (bool, error)
	told     dev.Told
	attached bool // something runs, and is to be kept up
	warn     func(text string)
}

// hashes names the present source of a project's agents.
func hashes(p *project.Project) func(agent string) (string, error) {
	return func(agent string) (string, error) { return source.Hash(p, agent) }
}

// dockerDriver makes the driver that runs a project as containers.
func (a *app) dockerDriver(p *project.Project, force <-chan struct{}) (*docker.Driver, error) {
	home, err := a.home()
	if err != nil {
		return nil, err
	}
	o := docker.Options{
		Stack:        stack.Of(p, a.global.instance),
		Home:         home,
		Surroundings: a.surroundings(),
		Environ:      a.environ,
		SourceHash:   hashes(p),
		Force:        force,
		Warn:         a.warn,

		LeaveAgents: a.global.yes,
	}
	if l := a.loop; l != nil {
		o.SourceHash, o.SourceStill, o.Told, o.Leave, o.Restless, o.Attached, o.Warn = l.hash, l.still, l.told, true, true, l.attached, l.warn
	}
	return docker.New(o)
}
