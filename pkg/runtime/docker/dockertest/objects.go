package dockertest

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// newDir makes a directory for a container or a volume. e.mu is held.
func (e *Engine) newDir() string {
	dir, err := os.MkdirTemp(e.dir, "d")
	if err != nil {
		e.t.Errorf("dockertest: %v", err)
	}
	return dir
}

// findNetwork takes an id or a name. e.mu is held.
func (e *Engine) findNetwork(ref string) *network.Inspect {
	for _, n := range e.networks {
		if n.ID == ref || n.Name == ref || len(ref) >= 12 && strings.HasPrefix(n.ID, ref) {
			return n
		}
	}
	return nil
}

func (e *Engine) attach(c *container, n *network.Inspect, settings *network.EndpointSettings) {
	if settings == nil {
		settings = &network.EndpointSettings{}
	}
	joined := *settings
	joined.NetworkID = n.ID
	joined.Aliases = slices.Clone(settings.Aliases)
	if n.Driver == "bridge" && n.Name != "bridge" {
		joined.Aliases = append(joined.Aliases, c.id[:12])
	}
	c.endpoints[n.ID] = &joined
}

func filtersOf(r *http.Request, played ...string) (filters.Args, error) {
	args, err := filters.FromJSON(r.URL.Query().Get("filters"))
	if err != nil {
		return args, refuse(http.StatusBadRequest, "filters: %v", err)
	}
	for _, key := range args.Keys() {
		if !slices.Contains(played, key) {
			return args, notPlayed("the filter " + key)
		}
	}
	return args, nil
}

func (e *Engine) networkList(w http.ResponseWriter, r *http.Request) error {
	args, err := filtersOf(r, "label", "name", "id")
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []network.Inspect{}
	for _, n := range e.networks {
		if args.MatchKVList("label", n.Labels) && args.Match("name", n.Name) && args.Match("id", n.ID) {
			out = append(out, *n)
		}
	}
	return answer(w, http.StatusOK, out)
}

// members are the running containers of a network. e.mu is held.
func (e *Engine) members(n *network.Inspect) map[string]network.EndpointResource {
	out := map[string]network.EndpointResource{}
	for _, c := range e.containers {
		if c.play != nil && c.endpoints[n.ID] != nil {
			out[c.id] = network.EndpointResource{Name: c.name}
		}
	}
	return out
}

func (e *Engine) networkInspect(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.findNetwork(r.PathValue("id"))
	if n == nil {
		return refuse(http.StatusNotFound, "network %s not found", r.PathValue("id"))
	}
	shown := *n
	shown.Containers = e.members(n)
	return answer(w, http.StatusOK, shown)
}

func (e *Engine) networkCreate(w http.ResponseWriter, r *http.Request) error {
	var in network.CreateRequest
	if err := decode(r, &in); err != nil {
		return err
	}
	if in.Driver != "" && in.Driver != "bridge" || in.Internal || in.IPAM != nil || in.ConfigFrom != nil || in.Scope != "" {
		return notPlayed("this kind of network")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.findNetwork(in.Name) != nil {
		return refuse(http.StatusConflict, "network with name %s already exists", in.Name)
	}
	n := &network.Inspect{ID: newID(), Name: in.Name, Driver: "bridge", Scope: "local", Created: time.Now(), Labels: in.Labels}
	e.networks = append(e.networks, n)
	return answer(w, http.StatusCreated, network.CreateResponse{ID: n.ID})
}

func (e *Engine) networkRemove(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.findNetwork(r.PathValue("id"))
	switch {
	case n == nil:
		return refuse(http.StatusNotFound, "network %s not found", r.PathValue("id"))
	case slices.Contains(e.networks[:3], n):
		return refuse(http.StatusForbidden, "%s is a pre-defined network and cannot be removed", n.Name)
	case len(e.members(n)) > 0:
		return refuse(http.StatusForbidden, "error while removing network: network %s id %s has active endpoints", n.Name, n.ID)
	}
	e.networks = slices.DeleteFunc(e.networks, func(other *network.Inspect) bool { return other == n })
	for _, c := range e.containers {
		delete(c.endpoints, n.ID)
	}
	return noContent(w)
}

func (e *Engine) networkConnect(w http.ResponseWriter, r *http.Request) error {
	var in network.ConnectOptions
	if err := decode(r, &in); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.findNetwork(r.PathValue("id"))
	if n == nil {
		return refuse(http.StatusNotFound, "network %s not found", r.PathValue("id"))
	}
	c, err := e.find(in.Container)
	if err != nil {
		return err
	}
	if c.endpoints[n.ID] != nil {
		return refuse(http.StatusForbidden, "endpoint with name %s already exists in network %s", c.name, n.Name)
	}
	e.attach(c, n, in.EndpointConfig)
	w.WriteHeader(http.StatusOK)
	return nil
}

func (e *Engine) networkDisconnect(w http.ResponseWriter, r *http.Request) error {
	var in network.DisconnectOptions
	if err := decode(r, &in); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.findNetwork(r.PathValue("id"))
	if n == nil {
		return refuse(http.StatusNotFound, "network %s not found", r.PathValue("id"))
	}
	c, err := e.find(in.Container)
	if err != nil {
		return err
	}
	if c.endpoints[n.ID] == nil {
		return refuse(http.StatusForbidden, "container %s is not connected to network %s", c.id, n.Name)
	}
	delete(c.endpoints, n.ID)
	w.WriteHeader(http.StatusOK)
	return nil
}

// makeVolume returns the volume of a name, a new one when there is none. e.mu is
// held.
func (e *Engine) makeVolume(name string, labels map[string]string) (*volume.Volume, error) {
	if name == "" || strings.ContainsAny(name, "/: ") {
		return nil, refuse(http.StatusBadRequest, "create %s: volume name is invalid", name)
	}
	if v := e.volumes[name]; v != nil {
		return v, nil
	}
	v := &volume.Volume{
		Name: name, Driver: "local", Scope: "local", Labels: labels, Mountpoint: filepath.Clean(e.newDir()),
		CreatedAt: time.Now().Format(time.RFC3339),
	}
	e.volumes[name] = v
	return v, nil
}

func (e *Engine) volumeCreate(w http.ResponseWriter, r *http.Request) error {
	var in volume.CreateOptions
	if err := decode(r, &in); err != nil {
		return err
	}
	if in.Driver != "" && in.Driver != "local" || len(in.DriverOpts) > 0 || in.ClusterVolumeSpec != nil {
		return notPlayed("this kind of volume")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v, err := e.makeVolume(in.Name, in.Labels)
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, v)
}

func (e *Engine) volumeList(w http.ResponseWriter, r *http.Request) error {
	args, err := filtersOf(r, "label", "name")
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := volume.ListResponse{Volumes: []*volume.Volume{}}
	for _, v := range e.volumes {
		if args.MatchKVList("label", v.Labels) && args.Match("name", v.Name) {
			out.Volumes = append(out.Volumes, v)
		}
	}
	slices.SortFunc(out.Volumes, func(a, b *volume.Volume) int { return strings.Compare(a.Name, b.Name) })
	return answer(w, http.StatusOK, out)
}

func (e *Engine) volumeInspect(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.volumes[r.PathValue("name")]
	if v == nil {
		return refuse(http.StatusNotFound, "get %s: no such volume", r.PathValue("name"))
	}
	return answer(w, http.StatusOK, v)
}

func (e *Engine) volumeRemove(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := r.PathValue("name")
	v := e.volumes[name]
	if v == nil {
		return refuse(http.StatusNotFound, "get %s: no such volume", name)
	}
	if r.URL.Query().Get("force") == "1" {
		return notPlayed("removal of a volume by force")
	}
	for _, c := range e.containers {
		for _, p := range c.places() {
			if p.kind == mount.TypeVolume && p.volume == name {
				return refuse(http.StatusConflict, "remove %s: volume is in use - [%s]", name, c.id)
			}
		}
	}
	if err := os.RemoveAll(v.Mountpoint); err != nil {
		return err
	}
	delete(e.volumes, name)
	return noContent(w)
}
