package dockertest

import (
	"net/http"
	"path"
	"slices"
	"strings"

	api "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// place is a directory or a file of this machine that a container sees.
type place struct {
	host, inside string
	readOnly     bool
	kind         mount.Type
	volume       string
}

// places are a container's mounts, without the directories of its volumes.
func (c *container) places() []place {
	var out []place
	add := func(kind mount.Type, source, target string, ro bool) {
		p := place{host: source, inside: path.Clean(target), readOnly: ro, kind: kind}
		if kind == mount.TypeVolume {
			p.volume, p.host = source, ""
		}
		out = append(out, p)
	}
	for _, m := range c.request.HostConfig.Mounts {
		if m.Type != mount.TypeTmpfs {
			add(m.Type, m.Source, m.Target, m.ReadOnly)
		}
	}
	for _, b := range c.request.HostConfig.Binds {
		parts := strings.Split(b, ":")
		kind := mount.TypeVolume
		if strings.HasPrefix(parts[0], "/") {
			kind = mount.TypeBind
		}
		add(kind, parts[0], parts[1], len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro"))
	}
	return out
}

// checkMounts refuses what places could not read.
func checkMounts(h *api.HostConfig) error {
	for _, b := range h.Binds {
		if n := strings.Count(b, ":"); n < 1 || n > 2 {
			return refuse(http.StatusBadRequest, "invalid volume specification: '%s'", b)
		}
	}
	for _, m := range h.Mounts {
		if m.Type == mount.TypeVolume && m.Source == "" || m.Type != mount.TypeVolume && m.Type != mount.TypeBind && m.Type != mount.TypeTmpfs {
			return notPlayed("this mount")
		}
	}
	return nil
}

// places are a container's mounts. e.mu is held.
func (e *Engine) places(c *container) []place {
	out := c.places()
	for i, p := range out {
		if v := e.volumes[p.volume]; v != nil {
			out[i].host = v.Mountpoint
		}
	}
	return out
}

func (e *Engine) mounts(c *container) []api.MountPoint {
	out := []api.MountPoint{}
	for _, p := range e.places(c) {
		out = append(out, api.MountPoint{Type: p.kind, Name: p.volume, Source: p.host, Destination: p.inside, RW: !p.readOnly})
	}
	return out
}
