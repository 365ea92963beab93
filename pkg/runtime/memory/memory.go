// Package memory is what is remembered of a project between its runs, whatever
// runtime they use: which one ran last, and where each has the project's
// conversations. Without it an emptied or exchanged volume would look like a new
// project, and another runtime like a new beginning.
//
// It is a claim and no fact: a driver checks it against the live volume before it
// starts anything. There is one file a project and instance; [Of] names it.
package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Project is what is remembered of one project or instance. The zero value is
// that of a project which never ran.
type Project struct {
	Version int `json:"version"`

	// Runtime is the one that ran last: "process" or "docker".
	Runtime string `json:"runtime"`

	// Volumes are those with the project's conversations, by runtime.
	Volumes map[string]Volume `json:"volumes"`

	// Port is the one of an instance, which may not be that of flisk.yaml; 0 is
	// that one.
	Port int `json:"port,omitempty"`
}

// Volume is one that the project has.
type Volume struct {
	Name string `json:"name"`
	ID   string `json:"id"` // what its VOLUME file says; "" until something has made that

	// EngineID and Engine are the Docker engine that has it, and that one's
	// address, for people.
	EngineID string `json:"engine_id,omitempty"`
	Engine   string `json:"engine,omitempty"`

	// Agents are those that ever had a place to write conversations to, where
	// the volume itself cannot be asked as easily.
	Agents []string `json:"agents,omitempty"`

	// Nameless are volumes that an engine named itself, by service and place
	// ("db:/data"): nothing on the engine says that they are the project's.
	Nameless map[string]string `json:"nameless,omitempty"`

	// Without are agents that have sessions on the volume, are not in the stack,
	// and need not be: somebody said so.
	Without []string `json:"without_agents,omitempty"`
}

const version = 2

// File is where a project is remembered.
type File struct{ path string }

// Of is the file of a project or instance below $FLISK_HOME. It does no I/O.
func Of(home, id, instance string) File {
	return File{filepath.Join(home, "projects", Key(id, instance)+".json")}
}

// Key names a project, or one of its instances, in file names.
func Key(id, instance string) string {
	if instance == "" {
		return id
	}
	return id + "-" + instance
}

// Path is the file's name.
func (f File) Path() string { return f.path }

// Read returns the zero value when nothing is remembered. A file that cannot be
// read is a fault of kind Environment, which names it: guessing would be a fresh
// start.
func (f File) Read() (Project, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Project{}, nil
	}
	var p Project
	if err == nil {
		p, err = decode(data)
	}
	if err != nil {
		return Project{}, fault.New(fault.Environment, "remove that file if the project's volume is the right one",
			"cannot read what is remembered of the project: %q: %w", f.path, err)
	}
	return p, nil
}

func decode(data []byte) (Project, error) {
	// The first version knew one runtime, and its volume by these names.
	var p struct {
		Project
		Volume   string   `json:"volume"`
		VolumeID string   `json:"volume_id"`
		Without  []string `json:"without_agents"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return Project{}, err
	}
	switch {
	case p.Version == 1:
		p.Volumes = map[string]Volume{p.Runtime: {Name: p.Volume, ID: p.VolumeID, Without: p.Without}}
	case p.Version != version:
		return Project{}, fmt.Errorf("it has version %d, and this flisk knows %d: it was written by another flisk", p.Version, version)
	}
	p.Project.Version = version
	return p.Project, nil
}

// Write replaces what is remembered; nothing is written when that is the same.
// Whoever writes holds the lock of the project's operations.
func (f File) Write(p Project) error {
	p.Version = version
	if known, err := f.Read(); err == nil && reflect.DeepEqual(p, known) {
		return nil
	}
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := f.replace(append(data, '\n')); err != nil {
		return fault.New(fault.Environment, "FLISK_HOME says where that is", "cannot remember the project: %w", err)
	}
	return nil
}

// Remove forgets the project. Nothing remembered is no error.
func (f File) Remove() error {
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Environment, "", "cannot forget the project: %w", err)
	}
	return nil
}

// replace makes the new content durable before it gets its name: an empty memory
// after a power cut would keep the project from running.
func (f File) replace(data []byte) error {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".tmp-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Forget is for a runtime's volume that was removed on purpose. Where that ran
// last, nothing is remembered to have.
func (f File) Forget(runtime string) error {
	p, err := f.Read()
	if err != nil {
		return err
	}
	if delete(p.Volumes, runtime); len(p.Volumes) == 0 {
		return f.Remove()
	}
	if p.Runtime == runtime {
		p.Runtime = ""
	}
	return f.Write(p)
}

// Keep returns p with a runtime's volume, as the one that ran last.
func (p Project) Keep(runtime string, v Volume) Project {
	volumes := map[string]Volume{}
	for name, other := range p.Volumes {
		volumes[name] = other
	}
	volumes[runtime] = v
	p.Runtime, p.Volumes = runtime, volumes
	return p
}
