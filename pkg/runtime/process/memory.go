package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
)

// memory is what is remembered of a project between runs: which volume its
// conversations are in. Without it an emptied or exchanged volume would look
// like a new project.
type memory struct {
	Version  int    `json:"version"`
	Runtime  string `json:"runtime"`
	Volume   string `json:"volume"`    // its name
	VolumeID string `json:"volume_id"` // what its VOLUME file says
}

const memoryVersion = 1

// prepareVolume checks that the volume is the one that the project had, makes
// it when the project never had one, and returns its id. What it refuses it
// has not touched.
func (d *Driver) prepareVolume() (id string, created bool, err error) {
	var known memory
	err = readFile(d.place.memory, &known)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", false, fault.New(fault.Environment, "remove that file if its volume is the right one", "cannot read what is remembered of the project: %w", err)
	default:
		if err := d.checkVolume(known); err != nil {
			return "", false, err
		}
	}
	if id, created, err = checkpoint.InitVolume(d.place.volume); err != nil {
		return "", false, fault.New(fault.Environment, "FLISK_HOME says where volumes are", "cannot use the volume %q: %w", d.place.volume, err)
	}
	now := memory{memoryVersion, runtimeName, d.o.Stack.Volume.Name, id}
	if now == known {
		return id, created, nil
	}
	if err := os.MkdirAll(filepath.Dir(d.place.memory), userOnly); err != nil {
		return "", false, err
	}
	return id, created, writeFile(d.place.memory, now)
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
