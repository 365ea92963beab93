package cli

import (
	"strings"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// opened is a project that a command works on.
type opened struct {
	project *project.Project
	driver  runtime.Driver
}

// open loads the project of --chdir, or of the working directory, and the driver
// of its runtime. Closing force ends a wait for a drain; nil never does.
func (a *app) open(force <-chan struct{}) (*opened, error) {
	dir := a.global.dir
	if dir == "" {
		dir = "."
	}
	p, warnings, err := project.Load(dir)
	if err != nil {
		return nil, err
	}
	if !a.global.json {
		for _, w := range warnings {
			a.streams.Err.Note("warning", console.Warn, w.String())
		}
	}
	if err := a.onlyProcess(p.Runtime); err != nil {
		return nil, err
	}
	driver, err := a.newDriver(a, p, force)
	if err != nil {
		return nil, err
	}
	return &opened{p, driver}, nil
}

// onlyProcess refuses what this version cannot run. --runtime wins over the
// project's own choice.
func (a *app) onlyProcess(chosen project.Runtime) error {
	if a.global.runtime != "" {
		chosen = project.Runtime(a.global.runtime)
	}
	if chosen == project.Docker {
		return fault.New(fault.Environment, "run it as local processes: --runtime process",
			"the docker runtime is not in this version of flisk")
	}
	return nil
}

// command is a command line that does something to the same project, to be
// pasted into a shell.
func (a *app) command(arguments string) string {
	if a.global.dir == "" {
		return "flisk " + arguments
	}
	return "flisk -C " + shellWord(a.global.dir) + " " + arguments
}

// agent is the agent that a command is about: the named one, or the only one.
func (o *opened) agent(name string) (string, error) {
	names := o.project.AgentNames()
	if name == "" {
		if len(names) == 1 {
			return names[0], nil
		}
		return "", fault.New(fault.Usage, "name one with --agent: "+strings.Join(names, ", "),
			"project %q has %d agents", o.project.Name, len(names))
	}
	if _, ok := o.project.Agent(name); ok {
		return name, nil
	}
	hint := "it has: " + strings.Join(names, ", ")
	if near := nearest(name, names); near != "" {
		hint = "did you mean " + `"` + near + `"?`
	}
	return "", fault.New(fault.Usage, hint, "project %q has no agent %q", o.project.Name, name)
}
