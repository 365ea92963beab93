package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Examine implements runtime.Driver.
func (d *Driver) Examine(ctx context.Context) []runtime.Finding {
	l, err := d.look(ctx)
	if err != nil {
		return []runtime.Finding{d.examineRunDir(), blocking("supervisor", err), d.examineVolume(), d.examineSpace()}
	}
	return []runtime.Finding{d.examineRunDir(), d.examineSupervisor(l), d.examinePort(ctx, l), runtime.ExamineEnv(d.o.Stack), d.examineVolume(), d.examineSpace()}
}

// blocking is an error as a finding.
func blocking(subject string, err error) runtime.Finding {
	f := runtime.Finding{Subject: subject, Level: runtime.Blocking, Text: err.Error()}
	if said, ok := errors.AsType[*fault.Fault](err); ok {
		f.Text, f.Hint = said.Message, said.Hint
	}
	return f
}

func fine(subject, format string, args ...any) runtime.Finding {
	return runtime.Finding{Subject: subject, Level: runtime.Fine, Text: fmt.Sprintf(format, args...)}
}

// examineRunDir knows that the names of sockets are short enough: New does.
func (d *Driver) examineRunDir() runtime.Finding {
	const subject = "run directory"
	for _, dir := range []string{d.place.base, d.place.run} {
		switch err := checkPrivate(dir); {
		case errors.Is(err, fs.ErrNotExist):
			if err := writable(dir); err != nil {
				return blocking(subject, notPrivate(dir, err))
			}
			return fine(subject, "%s, made when it is needed", d.place.run)
		case err != nil:
			return blocking(subject, notPrivate(dir, err))
		}
		if err := writable(dir); err != nil {
			return blocking(subject, notPrivate(dir, err))
		}
	}
	return fine(subject, "%s", d.place.run)
}

// writable asks whether this process may write to a directory, or make it.
func writable(dir string) error {
	for {
		err := unix.Access(dir, unix.W_OK|unix.X_OK)
		if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "write to", Path: dir, Err: err}
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%q is not a directory", dir)
		}
		return nil
	}
}

func (d *Driver) examineSupervisor(l look) runtime.Finding {
	const subject = "supervisor"
	if err := d.refuseOther(l); err != nil {
		return blocking(subject, err)
	}
	if errors.Is(l.err, errOtherVersion) {
		return blocking(subject, refuseOtherVersion())
	}
	if o := d.observed(l); len(o.Stale) > 0 {
		return runtime.Finding{Subject: subject, Level: runtime.Doubtful, Text: strings.Join(o.Stale, "; "), Hint: "flisk up cleans up and starts it again"}
	} else if o.Running {
		return fine(subject, "process %d runs the gateway and the agents", o.GatewayPID)
	}
	return fine(subject, "nothing of the project runs, and nothing is left behind")
}

func (d *Driver) examinePort(ctx context.Context, l look) runtime.Finding {
	const subject = "port"
	on, err := d.onItsPort(l)
	if err != nil {
		return blocking(subject, err)
	}
	if on.hasPort(l) {
		return fine(subject, "%d is the project's own gateway", on.o.Stack.Gateway.Port)
	}
	if err := on.checkPort(ctx, l); err != nil {
		return blocking(subject, err)
	}
	return fine(subject, "%d is free", on.o.Stack.Gateway.Port)
}

func (d *Driver) examineVolume() runtime.Finding {
	const subject = "volume"
	known, err := d.remembered()
	if err != nil {
		return blocking(subject, err)
	}
	if _, err := d.checkAgents(known); err != nil {
		return blocking(subject, err)
	}
	if err := writable(d.place.volume); err != nil {
		return blocking(subject, fault.New(fault.Environment, "FLISK_HOME says where volumes are", "cannot use the volume: %w", err))
	}
	switch _, err := os.Stat(d.place.volume); {
	case known.Volumes[runtimeName].ID != "":
		return fine(subject, "%s, the one that the project has", d.o.Stack.Volume.Name)
	case err == nil:
		return fine(subject, "%s, which no flisk up has used yet", d.o.Stack.Volume.Name)
	}
	return fine(subject, "%s, made by the first flisk up", d.o.Stack.Volume.Name)
}

// Free disk space, in bytes, that a finding is made of.
const (
	fewBytes    = 256 << 20
	noBytes     = 16 << 20
	bytesPerMiB = 1 << 20
)

func (d *Driver) examineSpace() runtime.Finding {
	const subject, hint = "disk space", "make room, or set FLISK_HOME to a place that has some"
	dir := d.place.volume
	var at unix.Statfs_t
	err := unix.Statfs(dir, &at)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		err = unix.Statfs(dir, &at)
	}
	if err != nil {
		return runtime.Finding{Subject: subject, Level: runtime.Doubtful, Text: "it cannot be told: " + err.Error(), Hint: hint}
	}
	free := uint64(at.Bavail) * uint64(at.Bsize)
	f := fine(subject, "%d MiB are free for conversations and builds", free/bytesPerMiB)
	if free < fewBytes {
		f.Level, f.Hint = runtime.Doubtful, hint
	}
	if free < noBytes {
		f.Level = runtime.Blocking
	}
	return f
}
