package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/stack"
)

func (d *Driver) memory() memory.File {
	return memory.Of(d.o.Home, d.o.Stack.ID, d.o.Stack.Instance)
}

// volumeState is what is known of the volume before anything is started.
type volumeState struct {
	known   memory.Project
	exists  bool
	id      string   // what its VOLUME file says, if that is known
	without []string // agents that have sessions, are not in the stack, and need not be
}

// CheckVolume is why Up would refuse the volume; nil when it would not. It changes
// nothing. An error says that this cannot be told right now.
func (d *Driver) CheckVolume(ctx context.Context) (refused, err error) {
	l, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := d.load(ctx)
	if err != nil {
		return nil, nil // what is wrong there is not about the volume
	}
	_, err = d.checkVolume(ctx, l, loaded.external(d.o.Stack.Volume.Name))
	if _, ok := errors.AsType[unseen](err); ok {
		return nil, err
	}
	return err, nil
}

// unseen is an error of a look at the volume. It says nothing of the volume.
type unseen struct{ error }

func (u unseen) Unwrap() error { return u.error }

// checkVolume refuses a volume that is not the one that the project had: another
// name, another engine, none where there was one, one that was made again or
// emptied, somebody else's that nobody declared external. It changes nothing.
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
		return state, unseen{err}
	}
	foreign := state.exists && !external && !d.ours(v.Labels)
	was, has := known.Volumes[runtimeName]
	if !has {
		if foreign {
			return state, notOurs(name)
		}
		return state, nil
	}
	if err := d.memory().Renamed(was, name); err != nil {
		return state, err
	}
	sameEngine := was.EngineID == l.e.facts.ID
	switch {
	case !state.exists && !sameEngine:
		return state, fault.New(fault.Environment, "use that engine again (DOCKER_HOST, or docker context use), or take them along with flisk sessions export and import; to begin without them instead, remove "+d.memory().Path(),
			"the project's conversations are in volume %q of another Docker engine (%s) than the one at %s", name, was.Engine, l.e.endpoint.Host)
	case !state.exists:
		return state, d.memory().Gone(name)
	case foreign:
		return state, fault.New(fault.Environment,
			fmt.Sprintf("put the right one back from a backup; to begin without them instead, give yours another name under volumes in flisk.yaml, and remove %s; or, where nobody needs what is in that one: docker volume rm %s, then flisk down --volumes", d.memory().Path(), name),
			"the volume %q is not the one with the project's conversations: %s", name, d.whose(v.Labels))
	}
	remedy := "put the right one back from a backup"
	if !sameEngine { // it may be the same one, set up anew on its old data
		remedy = "use the engine that has the right one (DOCKER_HOST, or docker context use)"
	}
	if err := d.mustBe(ctx, l, was, remedy); err != nil {
		return state, err
	}
	state.id = was.ID
	state.without, err = d.checkAgents(ctx, was)
	return state, err
}

// mustBe refuses a volume that does not say that it is the one that was. Where
// nothing can look at it yet, its agents will: they are told its id.
func (d *Driver) mustBe(ctx context.Context, l look, was memory.Volume, remedy string) error {
	id, err := d.liveID(ctx, l)
	switch {
	case errors.Is(err, errNoImage):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return d.memory().Gone(d.o.Stack.Volume.Name)
	case err != nil:
		return unseen{err}
	}
	return d.memory().Other(was, d.o.Stack.Volume.Name, id, remedy)
}

// liveID is the id that the volume has now: as an agent's container sees it, which
// is the cheapest way.
func (d *Driver) liveID(ctx context.Context, l look) (id string, err error) {
	for _, c := range l.agents {
		if id, err := d.volumeID(ctx, l.e, c.ID); err == nil {
			return id, nil
		} // it may have been removed just now
	}
	err = d.looking(ctx, l.e, func(container string) error {
		id, err = d.volumeID(ctx, l.e, container)
		return err
	})
	return id, err
}

// whose says of a volume that is not the project's whose it is, by its labels.
func (d *Driver) whose(labels map[string]string) string {
	switch id, compose := labels[labelProject], labels[composeProject]; {
	case id == d.o.Stack.ID && labels[labelInstance] == "":
		return "it is of this project, without --instance"
	case id == d.o.Stack.ID:
		return fmt.Sprintf("it is of the instance %q of this project", labels[labelInstance])
	case id != "":
		return fmt.Sprintf("it is of another flisk project, with id %s", id)
	case compose != "":
		return fmt.Sprintf("it is of the Compose project %q", compose)
	}
	return "it has no label of any project, so it was not made by flisk"
}

// checkAgents are the agents that the project goes on without. Looking into the
// volume takes a container: those are asked about that ever wrote to it.
func (d *Driver) checkAgents(ctx context.Context, was memory.Volume) (without []string, err error) {
	gone := func(name string) bool {
		return !slices.ContainsFunc(d.o.Stack.Agents, func(a stack.Agent) bool { return a.Name == name })
	}
	if !slices.ContainsFunc(was.Agents, gone) {
		return nil, nil
	}
	found, err := d.Survey(ctx)
	if err != nil {
		return nil, unseen{fault.New(fault.Environment, "", "cannot use the volume %q: %w", d.o.Stack.Volume.Name, err)}
	}
	return memory.Without(found.Counts(), d.o.Stack, was.Without, d.o.LeaveAgents)
}

// remember writes down which volume the project has, once an agent has made it
// one: container is one that has it mounted, and volumes are those that the Compose
// file declares.
func (d *Driver) remember(ctx context.Context, l look, state volumeState, volumes map[string]declared, container string) error {
	e := l.e
	if state.id == "" {
		var err error
		if state.id, err = d.volumeID(ctx, e, container); err != nil {
			return fault.New(fault.KindOf(err), "", "cannot tell the id of the volume %q: %w", d.o.Stack.Volume.Name, err)
		}
	}
	agents := slices.Clone(state.known.Volumes[runtimeName].Agents)
	for _, a := range d.o.Stack.Agents {
		agents = append(agents, a.Name)
	}
	slices.Sort(agents)
	now := state.known.Keep(runtimeName, memory.Volume{
		Name: d.o.Stack.Volume.Name, ID: state.id, EngineID: e.facts.ID, Engine: e.endpoint.Host,
		Agents: slices.Compact(agents), Without: state.without, Nameless: l.nameless(state.known.Volumes[runtimeName], volumes),
	})
	now.Port = 0
	if d.o.Stack.Instance != "" {
		now.Port = d.o.Stack.Gateway.Port
	}
	return d.memory().Write(now)
}
