package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
)

// VolumeJSON describes where the conversations are.
type VolumeJSON struct {
	Name     string `json:"name"`
	Place    string `json:"place"`             // where it is
	Exists   bool   `json:"exists"`            // false before the first "flisk up"
	Created  bool   `json:"created,omitempty"` // by this command
	Sessions int    `json:"sessions"`          // of all agents
	Problem  string `json:"problem,omitempty"` // why it could not be looked at
	Refused  string `json:"refused,omitempty"` // in status: why "flisk up" would not go on with it
}

// checkedVolume is what a driver has that can tell whether Up would refuse the
// volume.
type checkedVolume interface {
	CheckVolume(ctx context.Context) (refused, err error)
}

// checkVolume is the fault with which Up would refuse the volume; nil when it
// would not. An error says that this cannot be told right now.
func (o *opened) checkVolume(ctx context.Context) (refused, err error) {
	if driver, ok := o.driver.(checkedVolume); ok {
		return driver.CheckVolume(ctx)
	}
	return nil, nil
}

// distantVolume is what a driver has whose volume this process cannot reach as
// files. What it does with one that is not there is fs.ErrNotExist.
type distantVolume interface {
	// Survey counts and names sessions, and copies nothing. When ctx ends it may
	// return what was found until then.
	Survey(ctx context.Context) (*checkpoint.Survey, error)

	// ReadVolume calls read with a copy.
	ReadVolume(ctx context.Context, read func(dir string) error) error

	// ReadFiles calls read with a copy of some files only.
	ReadFiles(ctx context.Context, files []string, read func(dir string) error) error
}

// atVolume calls read with the directory of the volume or, where that is out of
// reach, of a copy of it: of these files only, if any are named. A volume that is
// not there is fs.ErrNotExist, from whatever read does with it.
func (o *opened) atVolume(ctx context.Context, place string, files []string, read func(dir string) error) error {
	distant, ok := o.driver.(distantVolume)
	switch {
	case !ok:
		return read(place)
	case len(files) > 0:
		return distant.ReadFiles(ctx, files, read)
	}
	return distant.ReadVolume(ctx, read)
}

// countSessions counts those of the volume.
func (o *opened) countSessions(ctx context.Context, place string) (int, error) {
	distant, ok := o.driver.(distantVolume)
	if !ok {
		return checkpoint.CountSessions(place)
	}
	found, err := distant.Survey(ctx)
	if err != nil {
		return 0, err
	}
	return found.Count(), nil
}

// volumeOf looks at the volume itself, so it works whether anything runs or not.
// A volume that cannot be read is told, and fails nothing: the caller did what
// it was asked for.
func (o *opened) volumeOf(ctx context.Context, observed runtime.Observed) VolumeJSON {
	v := VolumeJSON{Name: observed.Volume, Place: observed.Place}
	var err error
	v.Sessions, err = o.countSessions(ctx, observed.Place)
	switch {
	case err == nil || errors.Is(err, docker.ErrEmpty):
		v.Exists = true
	case !errors.Is(err, fs.ErrNotExist):
		v.Exists, v.Problem = true, err.Error()
	}
	return v
}

// volumeLine is a volume in one line: its name, and what is in it.
func (a *app) volumeLine(v VolumeJSON) string {
	return a.shorten(v.Name, 42) + " · " + v.state()
}

func (v VolumeJSON) state() string {
	switch {
	case v.Problem != "":
		return "cannot be read: " + v.Problem
	case v.Refused != "":
		return "flisk up refuses it"
	case !v.Exists && !v.Created:
		return "not there yet"
	case v.Sessions == 0: // also after a first up that failed
		return "new, no session yet"
	default:
		return fmt.Sprintf("existing (%s)", countSessions(v.Sessions))
	}
}

func countSessions(n int) string { return console.Count(n, "session") }
