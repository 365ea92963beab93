package memory

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// VolumeName is the name of a project's volume on a runtime, or the one that init
// gives it when nothing is remembered: nothing ran yet then, so there is none to
// miss.
func (f File) VolumeName(runtime string, s stack.Stack) string {
	known, err := f.Read()
	if v := known.Volumes[runtime]; err == nil && v.Name != "" {
		return v.Name
	}
	return stack.InstanceVolume(project.VolumeName(s.Name, s.ID), s.Instance)
}

// Renamed is the fault of a stack that names another volume than the remembered
// one; nil where it does not.
func (f File) Renamed(was Volume, name string) error {
	if was.Name == name {
		return nil
	}
	return f.refuse("name it under volumes in flisk.yaml again",
		"the project's conversations are in volume %q, and flisk.yaml names %q", was.Name, name)
}

// Gone is the fault of a volume that is not there, or is empty, where the project
// had one; volume is its name or place.
func (f File) Gone(volume string) error {
	return f.refuse("put it back from a backup", "the volume with the project's conversations is gone or was emptied: %q", volume)
}

// Other is the fault of a volume with another id than the remembered one; nil
// where it has that. remedy is how to get the right one.
func (f File) Other(was Volume, volume, id, remedy string) error {
	if was.ID == id {
		return nil
	}
	return f.refuse(remedy, "%q is another volume (%s) than the one with the project's conversations (%s)", volume, id, was.ID)
}

func (f File) refuse(remedy, format string, args ...any) error {
	return fault.New(fault.Environment, remedy+"; to begin without them instead, remove "+f.path, format, args...)
}

// Without are the agents that have sessions on a volume, by their numbers, and are
// not in the stack: those that an Up goes on without. It refuses them unless they
// were accepted earlier, or leave says so now. A name that is back is not among
// them, and is asked about when it goes again. An agent that was renamed looks
// like one that was removed and another that was added: its conversations would be
// forgotten without a word. A stack without agents is for looking, and goes on with
// all of them.
func Without(sessions map[string]int, s stack.Stack, accepted []string, leave bool) (without []string, err error) {
	var missed []string
	for _, name := range slices.Sorted(maps.Keys(sessions)) {
		n := sessions[name]
		if n == 0 || len(s.Agents) == 0 || !turn.ValidAgent(name) || slices.ContainsFunc(s.Agents, func(a stack.Agent) bool { return a.Name == name }) {
			continue
		}
		without = append(without, name)
		if !slices.Contains(accepted, name) {
			text := fmt.Sprintf("%d sessions", n)
			if n == 1 {
				text = "1 session"
			}
			missed = append(missed, fmt.Sprintf("%s of agent %q", text, name))
		}
	}
	if len(missed) == 0 || leave {
		return without, nil
	}
	return nil, fault.New(fault.Environment,
		"put the name back into flisk.yaml; or go on without it, and leave them on the volume: flisk up --yes",
		"the volume holds %s, and flisk.yaml names no such agent", strings.Join(missed, ", "))
}
