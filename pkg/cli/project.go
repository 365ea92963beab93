package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
)

// opened is a project that a command works on.
type opened struct {
	project *project.Project
	runtime project.Runtime // process or docker
	choice  choice          // why that one
	driver  runtime.Driver
	partly  bool // flisk.yaml is wrong: project is what could be read of it
}

// open loads the project of --chdir, or of the working directory, and the driver
// of its runtime. Closing force ends a wait for a drain; nil never does.
func (a *app) open(ctx context.Context, force <-chan struct{}) (*opened, error) {
	p, warnings, err := project.Load(a.dir())
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		a.warn(w.String())
	}
	chosen, err := a.chooseRuntime(ctx, p)
	if err != nil {
		return nil, err
	}
	driver, err := a.newDriver(a, chosen.on, p, force)
	if err != nil {
		return nil, err
	}
	return &opened{project: p, runtime: chosen.on, choice: chosen, driver: driver}, nil
}

// look is open for commands that look at what there is, or stop it: what runs
// and what is on disk do not depend on what flisk.yaml says now, so a mistake in
// it is one line of warning.
func (a *app) look(ctx context.Context, force <-chan struct{}) (*opened, error) {
	a.looks = true
	p, warnings, err := project.Load(a.dir())
	partly := false
	if problems, ok := errors.AsType[project.Problems](err); ok {
		if p, partly = project.Identify(a.dir()); partly {
			a.warn(problems.Summary() + "; see " + a.command("up"))
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		a.warn(w.String())
	}
	chosen, err := a.lookAtRuntime(ctx, p)
	if err != nil {
		return nil, err
	}
	driver, err := a.newDriver(a, chosen.on, p, force)
	if err != nil {
		return nil, err
	}
	return &opened{project: p, runtime: chosen.on, choice: chosen, driver: driver, partly: partly}, nil
}

// ofInstance is a project, with the instance of it that this is about, for people.
func (a *app) ofInstance(project string) string {
	if a.global.instance == "" {
		return project
	}
	return project + ", instance " + a.global.instance
}

func (a *app) dir() string {
	if a.global.dir == "" {
		return "."
	}
	return a.global.dir
}

// overrideUnused says, where a project runs as local processes, that a Compose
// override counts for nothing there; else it is "".
func overrideUnused(p *project.Project, on project.Runtime) string {
	path := composefile.Override(p.Dir)
	if on != project.Process || path == "" {
		return ""
	}
	return filepath.Base(path) + " counts on Docker only: as local processes no service of it is started, and agents get nothing of its environment"
}

// noteOverride tells of it.
func (a *app) noteOverride(o *opened) {
	if unused := overrideUnused(o.project, o.runtime); unused != "" {
		a.warn(unused)
	}
}

// noteUnanswered tells that an engine was to be expected and does not answer, so
// that nobody takes local processes for it.
func (a *app) noteUnanswered(o *opened) {
	if o.choice.unanswered != "" {
		a.warn(o.choice.unanswered)
	}
}

// warn prints a line for people; with --json nobody reads it.
func (a *app) warn(text string) {
	switch {
	case a.odd != nil:
		a.odd(text)
	case !a.global.json:
		a.streams.Err.Note("warning", console.Warn, text)
	}
}

// command is a command line that does something to the same project, to be
// pasted into a shell.
func (a *app) command(arguments string) string {
	line := "flisk "
	if a.global.dir != "" {
		line += "-C " + shellWord(a.global.dir) + " "
	}
	if a.global.instance != "" {
		line += "--instance " + a.global.instance + " "
	}
	return line + arguments
}

// agent is the agent that a command is about: the named one, or the only one.
// more are agents that there are besides those of flisk.yaml: what runs, or what
// the volume knows.
func (o *opened) agent(name string, more ...string) (string, error) {
	names := o.agents(more...)
	switch {
	case name == "" && len(names) == 1:
		return names[0], nil
	case name == "" && len(names) == 0: // flisk.yaml cannot be read that far
		return "", fault.New(fault.Usage, "name one with --agent", "nothing says which agents project %q has", o.project.Name)
	case name == "":
		return "", fault.New(fault.Usage, "name one with --agent: "+strings.Join(names, ", "),
			"project %q has %d agents", o.project.Name, len(names))
	case slices.Contains(names, name):
		return name, nil
	}
	return "", o.noAgent(name, names)
}

// noAgent says that there is no such agent among those that there are.
func (o *opened) noAgent(name string, names []string) error {
	hint := "it has: " + strings.Join(names, ", ")
	if near := fault.Nearest(name, names); near != "" {
		hint = "did you mean " + `"` + near + `"?`
	}
	return fault.New(fault.Usage, hint, "project %q has no agent %q", o.project.Name, name)
}

// agents are those of flisk.yaml and more, sorted.
func (o *opened) agents(more ...string) []string {
	names := append(o.project.AgentNames(), more...)
	slices.Sort(names)
	return slices.Compact(names)
}
