package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/stack"
)

func (d *Driver) memory() memory.File {
	return memory.Of(d.o.Home, d.o.Stack.ID, d.o.Stack.Instance)
}

// rememberedVolume is the name of a project's volume, or the one that init gives
// it when nothing is remembered: nothing ran yet then, so there is none to miss.
func rememberedVolume(o Options) string {
	known, err := memory.Of(o.Home, o.Stack.ID, o.Stack.Instance).Read()
	if v := known.Volumes[runtimeName]; err == nil && v.Name != "" {
		return v.Name
	}
	return stack.InstanceVolume(project.VolumeName(o.Stack.Name, o.Stack.ID), o.Stack.Instance)
}

// volumeState is what is known of the volume before anything is started.
type volumeState struct {
	known   memory.Project
	exists  bool
	id      string   // what its VOLUME file says, if that is known
	without []string // agents that have sessions, are not in the stack, and need not be
}

// checkVolume refuses a volume that is not the one that the project had: another
// name, another engine, none where there was one, somebody else's that nobody
// declared external. It changes nothing.
func (d *Driver) checkVolume(ctx context.Context, l look, external bool) (volumeState, error) {
	known, err := d.memory().Read()
	if err != nil {
		return volumeState{}, err
	}
	state := volumeState{known: known}
	name := d.o.Stack.Volume.Name
	v, err := l.e.inspectVolume(ctx, name)
	switch {
	case err == nil:
		state.exists = true
	case !errors.Is(err, errNotFound):
		return state, err
	}
	was, has := known.Volumes[runtimeName]
	if !has {
		if state.exists && !external && !d.ours(v.Labels) {
			return state, notOurs(name)
		}
		return state, nil
	}
	giveUp := "; to begin with an empty one instead, remove " + d.memory().Path()
	sameEngine := was.EngineID == l.e.facts.ID
	switch {
	case was.Name != name:
		return state, fault.New(fault.Environment, "name it under volumes in flisk.yaml again"+giveUp,
			"the project's conversations are in volume %q, and flisk.yaml names %q", was.Name, name)
	case !state.exists && !sameEngine:
		return state, fault.New(fault.Environment, "use that engine again (DOCKER_HOST, or docker context use), or take them along with flisk sessions export and import"+giveUp,
			"the project's conversations are in volume %q of another Docker engine (%s) than the one at %s", name, was.Engine, l.e.endpoint.Host)
	case !state.exists:
		return state, fault.New(fault.Environment, "put it back from a backup"+giveUp,
			"the volume with the project's conversations is gone: %q", name)
	}
	state.id = was.ID
	if !sameEngine {
		// Another engine that has a volume of this name: it may be the same engine,
		// set up anew on its old data.
		if err := d.mustBeVolume(ctx, was.ID); err != nil {
			return state, err
		}
	}
	state.without, err = d.checkAgents(ctx, was)
	return state, err
}

// mustBeVolume refuses a volume with another id.
func (d *Driver) mustBeVolume(ctx context.Context, want string) error {
	found, err := d.Survey(ctx)
	if err != nil || found.Volume == want {
		return err
	}
	return fault.New(fault.Environment, "use the engine that has the right one; to begin with this one instead, remove "+d.memory().Path(),
		"%q is another volume (%s) than the one with the project's conversations (%s)", d.o.Stack.Volume.Name, found.Volume, want)
}

// checkAgents refuses to go on without an agent that has sessions, unless it was
// accepted now or earlier. It returns the agents that it goes on without: a name
// that is back is not among them, and is asked about when it goes again. An agent
// that was renamed looks like one that was removed and another that was added:
// its conversations would be forgotten without a word.
func (d *Driver) checkAgents(ctx context.Context, was memory.Volume) (without []string, err error) {
	var absent []string
	for _, name := range was.Agents {
		if !slices.ContainsFunc(d.o.Stack.Agents, func(a stack.Agent) bool { return a.Name == name }) {
			absent = append(absent, name)
		}
	}
	if len(absent) == 0 {
		return nil, nil // looking into the volume takes a container
	}
	found, err := d.Survey(ctx)
	if err != nil {
		return nil, fault.New(fault.Environment, "", "cannot use the volume %q: %w", d.o.Stack.Volume.Name, err)
	}
	var missed []string
	for _, name := range absent {
		n := len(found.Sessions[name])
		if n == 0 {
			continue
		}
		without = append(without, name)
		if !slices.Contains(was.Without, name) {
			missed = append(missed, fmt.Sprintf("%s of agent %q", sessions(n), name))
		}
	}
	if len(missed) == 0 || d.o.LeaveAgents {
		return without, nil
	}
	return nil, fault.New(fault.Environment,
		"put the name back into flisk.yaml; or go on without it, and leave them on the volume: flisk up --yes",
		"the volume holds %s, and flisk.yaml names no such agent", strings.Join(missed, ", "))
}

func sessions(n int) string {
	if n == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", n)
}

// remember writes down which volume the project has, once an agent has made it
// one: container is one that has it mounted.
func (d *Driver) remember(ctx context.Context, e *engine, state volumeState, container string) error {
	if state.id == "" {
		var err error
		if state.id, err = d.volumeID(ctx, e, container); err != nil {
			return fault.New(fault.Failed, "", "cannot tell the id of the volume %q: %w", d.o.Stack.Volume.Name, err)
		}
	}
	agents := slices.Clone(state.known.Volumes[runtimeName].Agents)
	for _, a := range d.o.Stack.Agents {
		agents = append(agents, a.Name)
	}
	slices.Sort(agents)
	now := state.known.Keep(runtimeName, memory.Volume{
		Name: d.o.Stack.Volume.Name, ID: state.id, EngineID: e.facts.ID, Engine: e.endpoint.Host,
		Agents: slices.Compact(agents), Without: state.without,
	})
	now.Port = 0
	if d.o.Stack.Instance != "" {
		now.Port = d.o.Stack.Gateway.Port
	}
	return d.memory().Write(now)
}

// forget is for a volume that was removed on purpose.
func (d *Driver) forget() error {
	known, err := d.memory().Read()
	if err != nil || len(known.Volumes) == 0 {
		return err
	}
	if known = known.Forget(runtimeName); len(known.Volumes) == 0 {
		return d.memory().Remove()
	}
	return d.memory().Write(known)
}

// downOf is the command that stops what runs from a directory.
func (d *Driver) downOf(dir string) string {
	command := fmt.Sprintf("flisk -C %q", filepath.Clean(dir))
	if d.o.Stack.Instance != "" {
		command += " --instance " + d.o.Stack.Instance
	}
	return command + " down"
}
