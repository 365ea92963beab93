package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/stack"
)

// memory is what is remembered of a project between runs: which volume its
// conversations are in, and whose may be left alone. Without it an emptied or
// exchanged volume would look like a new project.
type memory struct {
	Version  int    `json:"version"`
	Runtime  string `json:"runtime"`
	Volume   string `json:"volume"`    // its name
	VolumeID string `json:"volume_id"` // what its VOLUME file says

	// Port is the one of an instance, which may not be that of flisk.yaml; 0 is
	// that one.
	Port int `json:"port,omitempty"`

	// Without are agents that have sessions on the volume, are not in the stack,
	// and need not be: somebody said so.
	Without []string `json:"without_agents,omitempty"`
}

const memoryVersion = 1

// rememberedVolume is the name of a project's volume, or the one that init gives
// it when nothing is remembered: nothing ran yet then, so there is none to miss.
func rememberedVolume(o Options) string {
	var known memory
	if readFile(placeOf(o.Home, o.RunBase, o.Stack).memory, &known) == nil && known.Volume != "" {
		return known.Volume
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
	without, err := d.checkAgents(ctx, known.Without)
	if err != nil {
		return "", false, err
	}
	if id, created, err = checkpoint.InitVolume(d.place.volume); err != nil {
		return "", false, fault.New(fault.Environment, "FLISK_HOME says where volumes are", "cannot use the volume %q: %w", d.place.volume, err)
	}
	now := memory{
		Version: memoryVersion, Runtime: runtimeName, Volume: d.o.Stack.Volume.Name, VolumeID: id,
		Port: d.rememberedPort(), Without: without,
	}
	if reflect.DeepEqual(now, known) {
		return id, created, nil
	}
	if err := os.MkdirAll(filepath.Dir(d.place.memory), userOnly); err != nil {
		return "", false, err
	}
	return id, created, writeFile(d.place.memory, now)
}

// remembered is the memory of the project, checked against the volume; the zero
// value when it never had one.
func (d *Driver) remembered() (memory, error) {
	var known memory
	err := readFile(d.place.memory, &known)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return memory{}, nil
	case err != nil:
		return known, fault.New(fault.Environment, "remove that file if its volume is the right one", "cannot read what is remembered of the project: %w", err)
	}
	return known, d.checkVolume(known)
}

func (d *Driver) checkVolume(known memory) error {
	giveUp := "; to begin with an empty one instead, remove " + d.place.memory
	if known.Volume != d.o.Stack.Volume.Name {
		return fault.New(fault.Environment, "name it under volumes in flisk.yaml again"+giveUp,
			"the project's conversations are in volume %q, and flisk.yaml names %q", known.Volume, d.o.Stack.Volume.Name)
	}
	id, err := checkpoint.VolumeID(d.place.volume)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Environment, "put it back from a backup"+giveUp,
			"the volume with the project's conversations is gone or was emptied: %q", d.place.volume)
	}
	if err != nil {
		return fault.New(fault.Environment, "", "cannot use the volume %q: %w", d.place.volume, err)
	}
	if id != known.VolumeID {
		return fault.New(fault.Environment, "put the right one back"+giveUp,
			"%q is another volume (%s) than the one with the project's conversations (%s)", d.place.volume, id, known.VolumeID)
	}
	return nil
}
