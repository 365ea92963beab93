package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// VolumeJSON describes where the conversations are.
type VolumeJSON struct {
	Name     string `json:"name"`
	Place    string `json:"place"`             // where it is
	Exists   bool   `json:"exists"`            // false before the first "flisk up"
	Created  bool   `json:"created,omitempty"` // by this command
	Sessions int    `json:"sessions"`          // of all agents
	Problem  string `json:"problem,omitempty"` // why it could not be looked at
}

// distantVolume is what a driver has whose volume this process cannot reach as
// files.
type distantVolume interface {
	// ReadVolume calls read with a copy; fs.ErrNotExist when there is nothing to
	// copy.
	ReadVolume(ctx context.Context, read func(dir string) error) error
}

// atVolume calls read with the directory of the volume or, where that is out of
// reach, of a copy of it. A volume that is not there is fs.ErrNotExist, from
// whatever read does with it.
func (o *opened) atVolume(ctx context.Context, place string, read func(dir string) error) error {
	if distant, ok := o.driver.(distantVolume); ok {
		return distant.ReadVolume(ctx, read)
	}
	return read(place)
}

// volumeOf looks at the volume itself, so it works whether anything runs or not.
// A volume that cannot be read is told, and fails nothing: the caller did what
// it was asked for.
func (o *opened) volumeOf(ctx context.Context, observed runtime.Observed) VolumeJSON {
	v := VolumeJSON{Name: observed.Volume, Place: observed.Place}
	err := o.atVolume(ctx, observed.Place, func(dir string) (err error) {
		v.Sessions, err = checkpoint.CountSessions(dir)
		return err
	})
	switch {
	case err == nil:
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
	case !v.Exists && !v.Created:
		return "not there yet"
	case v.Sessions == 0: // also after a first up that failed
		return "new, no session yet"
	default:
		return fmt.Sprintf("existing (%s)", countSessions(v.Sessions))
	}
}

func countSessions(n int) string { return console.Count(n, "session") }
