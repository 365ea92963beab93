package docker

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
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
)

// Examine implements runtime.Driver.
func (d *Driver) Examine(ctx context.Context) []runtime.Finding {
	e, err := d.connected(ctx)
	if err != nil {
		return []runtime.Finding{blocking("engine", err), d.examineHome(), d.examineCompose(ctx), runtime.ExamineEnv(d.o.Stack)}
	}
	out := []runtime.Finding{
		fine("engine", "Docker %s (API %s) at %s: %s", e.facts.Version, e.facts.API, e.endpoint.Host, e.endpoint.Why),
	}
	out = append(out, d.examineHome())
	for _, w := range e.warnings {
		out = append(out, runtime.Finding{Subject: "engine", Level: runtime.Doubtful, Text: w})
	}
	l, err := d.look(ctx)
	if err != nil {
		return append(out, blocking("containers", err))
	}
	return append(out,
		d.examineContainers(l), d.examinePort(ctx, l), d.examineImage(ctx, e), d.examineCompose(ctx), runtime.ExamineEnv(d.o.Stack),
		d.examineVolume(ctx, l), d.examineSpace(e))
}

// blocking is an error as a finding.
func blocking(subject string, err error) runtime.Finding {
	f := runtime.Finding{Subject: subject, Level: runtime.Blocking, Text: err.Error()}
	if said, ok := errors.AsType[*fault.Fault](err); ok {
		f.Text, f.Hint = said.Message, said.Hint
		if said.Detail != "" {
			f.Text += ": " + strings.Join(strings.Split(strings.TrimSpace(said.Detail), "\n"), "; ")
		}
	}
	return f
}

func fine(subject, format string, args ...any) runtime.Finding {
	return runtime.Finding{Subject: subject, Level: runtime.Fine, Text: fmt.Sprintf(format, args...)}
}

func (d *Driver) examineContainers(l look) runtime.Finding {
	const subject = "containers"
	if err := d.refuseOther(l); err != nil {
		return blocking(subject, err)
	}
	running, stopped := 0, 0
	for _, c := range l.everything() {
		switch {
		case c.runs():
			running++
		case c.Config.Labels[labelReader] == "":
			stopped++
		}
	}
	switch {
	case stopped > 0:
		return runtime.Finding{Subject: subject, Level: runtime.Doubtful, Text: fmt.Sprintf("%d of the project run, and %d have stopped", running, stopped), Hint: "flisk up clears them away"}
	case running > 0:
		return fine(subject, "%d of the project run", running)
	}
	return fine(subject, "nothing of the project runs, and nothing is left behind")
}

func (d *Driver) examinePort(ctx context.Context, l look) runtime.Finding {
	const subject = "port"
	on, err := d.onItsPort(l)
	if err != nil {
		return blocking(subject, err)
	}
	if g, ok := l.gateway(); ok && g.address() == claim.Address(on.o.Stack.Gateway) {
		return fine(subject, "%d is the project's own gateway", on.o.Stack.Gateway.Port)
	}
	ln, err := claim.Listen(on.o.Stack.Gateway)
	if err != nil {
		return blocking(subject, on.nameContainer(ctx, l.e, err))
	}
	_ = ln.Close() // it was only a question
	return fine(subject, "%d is free", on.o.Stack.Gateway.Port)
}

func (d *Driver) examineImage(ctx context.Context, e *engine) runtime.Finding {
	const subject = "gateway image"
	switch _, ok, err := e.inspectImage(ctx, stack.GatewayImage); {
	case err != nil:
		return blocking(subject, err)
	case !ok:
		return runtime.Finding{Subject: subject, Level: runtime.Doubtful, Text: stack.GatewayImage + " is not there yet; the first flisk up pulls it"}
	}
	return fine(subject, "%s", stack.GatewayImage)
}

func (d *Driver) examineCompose(ctx context.Context) runtime.Finding {
	const subject = "compose file"
	loaded, err := d.load(ctx)
	if err != nil {
		return blocking(subject, err)
	}
	text := composefile.FileName
	if loaded.Override != "" {
		text += " with what " + loaded.Override + " adds"
	}
	f := fine(subject, "%s", text)
	if len(loaded.Warnings) > 0 {
		f.Level, f.Text = runtime.Doubtful, strings.Join(loaded.Warnings, "; ")
	}
	return f
}

func (d *Driver) examineVolume(ctx context.Context, l look) runtime.Finding {
	const subject = "volume"
	loaded, err := d.load(ctx)
	if err != nil {
		return runtime.Finding{Subject: subject, Level: runtime.Doubtful, Text: "the Compose file has to be read before it can be told"}
	}
	state, err := d.checkVolume(ctx, l, loaded.external(d.o.Stack.Volume.Name))
	for key, v := range loaded.Project.Volumes {
		if err == nil {
			err = d.checkDeclared(ctx, l.e, declared{key: key, name: v.Name, external: bool(v.External)})
		}
	}
	switch {
	case err != nil:
		return blocking(subject, err)
	case state.id != "":
		return fine(subject, "%s, the one that the project has", d.o.Stack.Volume.Name)
	case state.exists:
		return fine(subject, "%s, which no flisk up has used yet", d.o.Stack.Volume.Name)
	}
	return fine(subject, "%s, made by the first flisk up", d.o.Stack.Volume.Name)
}

// homeHint is for a directory of flisk's own that cannot be written to.
const homeHint = "make room there, or make it writable; FLISK_HOME says where it is"

// examineHome asks whether FLISK_HOME, or where it would be made, can be written
// to.
func (d *Driver) examineHome() runtime.Finding {
	const subject = "FLISK_HOME"
	dir := d.o.Home
	for {
		err := unix.Access(dir, unix.W_OK|unix.X_OK)
		if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		if info, statErr := os.Stat(dir); err == nil && statErr == nil && !info.IsDir() {
			err = unix.ENOTDIR
		}
		if err != nil {
			return blocking(subject, fault.New(fault.Environment, homeHint, "cannot write to %q: %w", dir, err))
		}
		break
	}
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err == nil && uint64(at.Bavail)*uint64(at.Bsize) < noBytes {
		return runtime.Finding{Subject: subject, Level: runtime.Blocking, Text: fmt.Sprintf("%s has less than %d MiB of room", d.o.Home, noBytes/bytesPerMiB), Hint: homeHint}
	}
	return fine(subject, "%s can be written to", d.o.Home)
}

// Free disk space, in bytes, that a finding is made of.
const (
	fewBytes    = 1 << 30
	noBytes     = 64 << 20
	bytesPerMiB = 1 << 20
)

// examineSpace looks at the engine's directory where that is on this machine.
func (d *Driver) examineSpace(e *engine) runtime.Finding {
	const subject = "disk space"
	var at unix.Statfs_t
	err := unix.Statfs(e.facts.Root, &at)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission):
		return fine(subject, "that of the engine's directory %s cannot be seen from here", e.facts.Root)
	case err != nil:
		return runtime.Finding{Subject: subject, Level: runtime.Doubtful, Text: "it cannot be told: " + err.Error()}
	}
	free := uint64(at.Bavail) * uint64(at.Bsize)
	f := fine(subject, "%d MiB are free for images and conversations in %s", free/bytesPerMiB, e.facts.Root)
	if free < fewBytes {
		f.Level, f.Hint = runtime.Doubtful, "make room: docker system df shows what takes it"
	}
	if free < noBytes {
		f.Level = runtime.Blocking
	}
	return f
}
