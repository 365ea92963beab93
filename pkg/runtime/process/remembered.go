package process

import (
	"context"
	"errors"
	"io/fs"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/stack"
)

// rememberedVolume is the name of a project's volume, or the one that init gives
// it when nothing is remembered: nothing ran yet then, so there is none to miss.
func rememberedVolume(o Options) string {
	known, err := memory.Of(o.Home, o.Stack.ID, o.Stack.Instance).Read()
	if v := known.Volumes[runtimeName]; err == nil && v.Name != "" {
		return v.Name
	}
	return stack.InstanceVolume(project.VolumeName(o.Stack.Name, o.Stack.ID), o.Stack.Instance)
}

// prepareVolume checks that the volume is the one that the project had, and that
// it has no sessions of agents that are gone; makes it when the project never
// had one; and returns its id. What it refuses it has not touched.
func (d *Driver) prepareVolume(ctx context.Context) (id string, created bool, err error) {
	known, err := d.remembered()
	if err != nil {
		return "", false, err
	}
	without, err := d.checkAgents(ctx, known.Volumes[runtimeName].Without)
	if err != nil {
		return "", false, err
	}
	if id, created, err = checkpoint.InitVolume(d.place.volume); err != nil {
		return "", false, fault.New(fault.Environment, "FLISK_HOME says where volumes are", "cannot use the volume %q: %w", d.place.volume, err)
	}
	now := known.Keep(runtimeName, memory.Volume{Name: d.o.Stack.Volume.Name, ID: id, Without: without})
	now.Port = d.rememberedPort()
	return id, created, d.memory().Write(now)
}

func (d *Driver) memory() memory.File {
	return memory.Of(d.o.Home, d.o.Stack.ID, d.o.Stack.Instance)
}

// remembered is the memory of the project, checked against the volume; the zero
// value when it never had one.
func (d *Driver) remembered() (memory.Project, error) {
	known, err := d.memory().Read()
	if err != nil {
		return known, err
	}
	if v, has := known.Volumes[runtimeName]; has {
		return known, d.checkVolume(v)
	}
	return known, nil
}

func (d *Driver) checkVolume(known memory.Volume) error {
	giveUp := "; to begin with an empty one instead, remove " + d.memory().Path()
	if known.Name != d.o.Stack.Volume.Name {
		return fault.New(fault.Environment, "name it under volumes in flisk.yaml again"+giveUp,
			"the project's conversations are in volume %q, and flisk.yaml names %q", known.Name, d.o.Stack.Volume.Name)
	}
	id, err := checkpoint.VolumeID(d.place.volume)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Environment, "put it back from a backup"+giveUp,
			"the volume with the project's conversations is gone or was emptied: %q", d.place.volume)
	}
	if err != nil {
		return fault.New(fault.Environment, "", "cannot use the volume %q: %w", d.place.volume, err)
	}
	if id != known.ID {
		return fault.New(fault.Environment, "put the right one back"+giveUp,
			"%q is another volume (%s) than the one with the project's conversations (%s)", d.place.volume, id, known.ID)
	}
	return nil
}
