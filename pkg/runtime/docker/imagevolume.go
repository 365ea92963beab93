package docker

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/flisk-go/flisk/pkg/runtime/memory"
)

// Images of services say where they keep data: VOLUME /var/lib/postgresql/data.
// Where nobody mounts anything there, an engine makes a volume without a name for
// each container, and the next container has another one. Here such a place gets a
// volume of the project's own, with a name that stays the same: it outlives
// restarts and downs, and goes with the project's other volumes.
//
// A container that plain Compose made has a nameless one. Its successor takes that
// over, as Compose does it, and it is remembered: no label says whose it is.

// mountImageVolumes mounts volumes where the image of a service wants them.
func (a *apply) mountImageVolumes(ctx context.Context, w wanted, spec *containerSpec) error {
	image, ok, err := a.e.inspectImage(ctx, w.Image)
	if err != nil || !ok || image.Config == nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(image.Config.Volumes)) {
		at = path.Clean(at)
		if mountedAt(spec.host, at) {
			continue
		}
		name, err := a.imageVolume(ctx, w.Name, at)
		if err != nil {
			return err
		}
		spec.host.Mounts = append(spec.host.Mounts, mount.Mount{Type: mount.TypeVolume, Source: name, Target: at})
	}
	return nil
}

func mountedAt(host container.HostConfig, at string) bool {
	for tmpfs := range host.Tmpfs {
		if path.Clean(tmpfs) == at {
			return true
		}
	}
	return slices.ContainsFunc(host.Mounts, func(m mount.Mount) bool { return path.Clean(m.Target) == at })
}

// imageVolume is the volume that a service has at a place: that of the container
// before, else the one that it had when it ran last, else one of the project's.
func (a *apply) imageVolume(ctx context.Context, service, at string) (string, error) {
	if name := a.course.look.serviceOf(service).volumeAt(at); name != "" {
		return name, nil
	}
	if name := a.volume.known.Volumes[runtimeName].Nameless[service+":"+at]; name != "" {
		_, err := a.e.inspectVolume(ctx, name)
		if !errors.Is(err, errNotFound) {
			return name, err
		}
	}
	name := a.d.baseName(service) + strings.ReplaceAll(at, "/", "-") + "-" + shortHash(at)[:4] // "/a-b" is not "/a/b"
	return name, a.d.makeVolume(ctx, a.e, declared{name: name, labels: a.d.objectLabels(nil, composeVolume, service+at)})
}

// volumeAt is the volume that a container has at a place; "" when it has none.
func (c seen) volumeAt(at string) string {
	if c.ContainerJSONBase == nil { // there is no container
		return ""
	}
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume && path.Clean(m.Destination) == at {
			return m.Name
		}
	}
	return ""
}

// nameless are the volumes without a name that services have, by service and
// place, and those that they had. One that the Compose file declares is not among
// them: what is declared external is somebody's, whatever it is called.
func (l look) nameless(known memory.Volume, volumes map[string]declared) map[string]string {
	found := maps.Clone(known.Nameless)
	isDeclared := map[string]bool{}
	for _, v := range volumes {
		isDeclared[v.name] = true
	}
	maps.DeleteFunc(found, func(_, volume string) bool { return isDeclared[volume] })
	for _, c := range l.services {
		for _, m := range c.Mounts {
			if m.Type == mount.TypeVolume && isNameless(m.Name) && !isDeclared[m.Name] {
				if found == nil {
					found = map[string]string{}
				}
				found[c.service()+":"+path.Clean(m.Destination)] = m.Name
			}
		}
	}
	return found
}

// isNameless tells the names that an engine makes up.
func isNameless(volume string) bool {
	return len(volume) == 64 && strings.Trim(volume, "0123456789abcdef") == ""
}

// namelessVolumes are those that are remembered and there.
func (d *Driver) namelessVolumes(ctx context.Context, e *engine) (out []Volume, err error) {
	known, err := d.memory().Read()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Values(known.Volumes[runtimeName].Nameless)) {
		switch _, err := e.inspectVolume(ctx, name); {
		case err == nil:
			out = append(out, Volume{Name: name, nameless: true})
		case !errors.Is(err, errNotFound):
			return nil, err
		}
	}
	return out, nil
}
