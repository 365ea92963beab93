package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Command is what an agent's own program is asked to do with the project's
// volume.
type Command struct {
	Args   []string
	Input  *io.SectionReader // becomes a file, whose name is a last argument; nil is none
	Stdout io.Writer
	Stderr io.Writer
}

// inputFile is where a command finds its input: in the root of its container,
// which every image has.
const inputFile = "flisk-input"

// ChangeVolume runs an agent's own program with arguments where the volume is
// mounted as agents have it, and returns its exit code: the way to write to a
// volume that nothing else reaches. Agents may serve meanwhile; nothing of the
// project is started or stopped. The volume and an image are made where there are
// none yet. When ctx ends the program gets SIGTERM, and SIGKILL when it takes too
// long or Options.Force is closed; what it said is told all the same.
func (d *Driver) ChangeVolume(ctx context.Context, p runtime.Progress, c Command) (exit int, err error) {
	l, release, err := d.begin(ctx, p)
	if err != nil {
		return 0, err
	}
	defer release()
	spec, err := d.changer(ctx, p, l, c)
	if err != nil {
		return 0, err
	}
	id, _, err := l.e.createContainer(ctx, spec)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.e.discard(ctx, id)) }()
	if c.Input != nil {
		if err := l.e.putFile(ctx, id, inputFile, c.Input); err != nil {
			return 0, err
		}
	}
	if err := l.e.startContainer(ctx, id); err != nil {
		return 0, err
	}
	if exit, err = l.e.waitContainer(ctx, id); err != nil {
		if ctx.Err() == nil {
			return 0, err
		}
		if exit, err = l.e.stopContainer(ctx, id, d.o.Force); err != nil {
			return 0, err
		}
	}
	var written error
	err = l.e.logs(context.WithoutCancel(ctx), id, logOptions{tail: -1}, func(line logLine) error {
		out := c.Stdout
		if line.stderr {
			out = c.Stderr
		}
		_, written = fmt.Fprintln(out, line.text)
		return written
	})
	return exit, err
}

// changer is the container of a command.
func (d *Driver) changer(ctx context.Context, p runtime.Progress, l look, c Command) (containerSpec, error) {
	loaded, err := d.load(ctx)
	if err != nil {
		return containerSpec{}, err
	}
	state, err := d.checkVolume(ctx, l, loaded.external(d.o.Stack.Volume.Name))
	if err != nil {
		return containerSpec{}, err
	}
	t, err := d.target(loaded, state.id, l.e.facts.Arch)
	if err != nil {
		return containerSpec{}, err
	}
	if len(t.agents) == 0 {
		return containerSpec{}, fault.New(fault.Usage, "", "the project has no agent whose program could change its volume")
	}
	agent := t.agents[0] // each can do it for all
	if !state.exists {
		for _, v := range t.volumes {
			if v.name == d.o.Stack.Volume.Name {
				if err := d.makeVolume(ctx, l.e, v); err != nil {
					return containerSpec{}, err
				}
			}
		}
	}
	if image, ok, err := l.e.inspectImage(ctx, agent.Image); err != nil {
		return containerSpec{}, err
	} else if !ok || image.Config == nil || !d.ours(image.Config.Labels) {
		if _, err := newApply(course{d: d, look: l, target: t, volume: state}, p).build(ctx, agent); err != nil {
			return containerSpec{}, err
		}
	}
	spec, err := t.containerOf(agent.Service)
	if err != nil {
		return spec, err
	}
	spec.name = d.baseName("reader") + "-" + strings.ToLower(rand.Text()[:8])
	spec.config.Labels = d.ourLabels()
	spec.config.Labels[labelReader] = "true"
	spec.config.Entrypoint, spec.config.Cmd = []string{"/" + programInImage}, c.Args
	if c.Input != nil {
		spec.config.Cmd = append(spec.config.Cmd, "/"+inputFile)
	}
	spec.config.Healthcheck, spec.config.ExposedPorts, spec.config.Tty = nil, nil, false
	spec.host.PortBindings, spec.host.NetworkMode = nil, "none"
	spec.host.RestartPolicy = container.RestartPolicy{}
	spec.host.LogConfig = container.LogConfig{Type: "json-file"} // another one may not be readable
	spec.host.ReadonlyRootfs = c.Input == nil                    // the engine puts no file into one that is
	return spec, nil
}

// putFile writes a file into the root of a container that did not start yet.
func (e *engine) putFile(ctx context.Context, id, name string, content *io.SectionReader) error {
	from, to := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		w := tar.NewWriter(to)
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o444, Size: content.Size(), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = io.Copy(w, content)
		}
		err = errors.Join(err, w.Close())
		_ = to.CloseWithError(err) // it never fails
		packed <- err
	}()
	err := e.putArchive(ctx, id, "/", from)
	_ = from.CloseWithError(errors.New("the engine reads no more")) // it never fails
	return errors.Join(err, <-packed)
}
