package process

import (
	"context"
	"errors"
	"io/fs"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/memory"
)

// prepareVolume checks that the volume is the one that the project had, and that
// it has no sessions of agents that are gone; makes it when the project never
// had one; and returns its id. What it refuses it has not touched.
func (d *Driver) prepareVolume() (id string, created bool, err error) {
	known, err := d.remembered()
	if err != nil {
		return "", false, err
	}
	without, err := d.checkAgents(known)
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
	if err := d.memory().Renamed(known, d.o.Stack.Volume.Name); err != nil {
		return err
	}
	id, err := checkpoint.VolumeID(d.place.volume)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.memory().Gone(d.place.volume)
	case err != nil:
		return d.unusable(err)
	}
	return d.memory().Other(known, d.place.volume, id, "put the right one back")
}

// CheckVolume is why Up would refuse the volume; nil when it would not. It changes
// nothing. Its error is always nil: a volume that cannot be read is refused.
func (d *Driver) CheckVolume(context.Context) (refused, err error) {
	known, err := d.remembered()
	if err == nil {
		_, err = d.checkAgents(known)
	}
	return err, nil
}

// checkAgents are the agents that the project goes on without.
func (d *Driver) checkAgents(known memory.Project) ([]string, error) {
	counts, err := checkpoint.SessionsByAgent(d.place.volume)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, d.unusable(err)
	}
	return memory.Without(counts, d.o.Stack, known.Volumes[runtimeName].Without, d.o.LeaveAgents)
}

func (d *Driver) unusable(err error) error {
	return fault.New(fault.Environment, "", "cannot use the volume %q: %w", d.place.volume, err)
}
