package dockertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	api "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"
)

// container is one, with what it was created from. Everything in it is guarded
// by Engine.mu.
type container struct {
	id, name string
	created  time.Time
	request  api.CreateRequest
	image    *image
	dir      string // its own, for tmpfs mounts
	port     int    // that its program listens on, on this machine
	logs     *logs

	endpoints map[string]*network.EndpointSettings // by network id

	play       *play // nil when it does not run
	started    time.Time
	finished   time.Time
	exitCode   int
	failed     string // why it could not start
	paused     bool
	byHand     bool // stopped by hand: no restart
	restarting bool
	restarts   int
	health     *api.Health
}

func (c *container) status() api.ContainerState {
	switch {
	case c.restarting:
		return api.StateRestarting
	case c.play != nil && c.paused:
		return api.StatePaused
	case c.play != nil:
		return api.StateRunning
	case c.started.IsZero():
		return api.StateCreated
	}
	return api.StateExited
}

func (c *container) pid() int {
	if c.play == nil {
		return 0
	}
	return c.play.pid
}

// find takes an id, the beginning of one, or a name. e.mu is held.
func (e *Engine) find(ref string) (*container, error) {
	name := strings.TrimPrefix(ref, "/")
	for _, c := range e.containers {
		if c.id == ref || c.name == name {
			return c, nil
		}
	}
	for _, c := range e.containers {
		if len(ref) >= 12 && strings.HasPrefix(c.id, ref) {
			return c, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "No such container: %s", ref)
}

func (e *Engine) containerCreate(w http.ResponseWriter, r *http.Request) error {
	var in api.CreateRequest
	if err := decode(r, &in); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if in.Config == nil {
		return refuse(http.StatusBadRequest, "config cannot be empty in order to create a container")
	}
	if in.HostConfig == nil {
		in.HostConfig = &api.HostConfig{}
	}
	if in.HostConfig.AutoRemove || in.HostConfig.Privileged || len(in.HostConfig.VolumesFrom) > 0 || len(in.HostConfig.Links) > 0 {
		return notPlayed("this host configuration")
	}
	name := r.URL.Query().Get("name")
	if name == "" {
		return notPlayed("containers without a name")
	}
	if other, err := e.find(name); err == nil {
		return refuse(http.StatusConflict, "Conflict. The container name %q is already in use by container %q. You have to remove (or rename) that container to be able to reuse that name.", "/"+name, other.id)
	}
	img := e.findImage(in.Image)
	if img == nil {
		return refuse(http.StatusNotFound, "No such image: %s", in.Image)
	}
	if h := in.Healthcheck; h != nil && h.StartInterval != 0 && !e.knows("1.44") {
		e.ignored = append(e.ignored, "Healthcheck.StartInterval")
		h.StartInterval = 0
	}
	c := &container{
		id: newID(), name: name, created: time.Now(), request: in, image: img, logs: newLogs(),
		endpoints: map[string]*network.EndpointSettings{},
	}
	if err := e.attachAll(c, in.NetworkingConfig); err != nil {
		return err
	}
	if err := checkMounts(in.HostConfig); err != nil {
		return err
	}
	for _, p := range c.places() {
		if p.kind == mount.TypeVolume {
			if _, err := e.makeVolume(p.volume, nil); err != nil {
				return err
			}
		}
	}
	c.dir = e.newDir()
	e.containers[c.id] = c
	e.announce()
	return answer(w, http.StatusCreated, api.CreateResponse{ID: c.id, Warnings: []string{}})
}

// attachAll joins a new container to its networks as a create does.
func (e *Engine) attachAll(c *container, config *network.NetworkingConfig) error {
	wanted := map[string]*network.EndpointSettings{}
	if config != nil {
		for name, settings := range config.EndpointsConfig {
			wanted[name] = settings
		}
	}
	if len(wanted) > 1 && !e.knows("1.44") {
		var names []string
		for name := range wanted {
			names = append(names, name)
		}
		slices.Sort(names)
		return refuse(http.StatusBadRequest, "Container cannot be connected to network endpoints: %s", strings.Join(names, ", "))
	}
	mode := string(c.request.HostConfig.NetworkMode)
	if mode == "" || mode == "default" {
		mode = "bridge"
	}
	if _, ok := wanted[mode]; !ok {
		wanted[mode] = &network.EndpointSettings{}
	}
	for name, settings := range wanted {
		n := e.findNetwork(name)
		if n == nil {
			return refuse(http.StatusNotFound, "network %s not found", name)
		}
		e.attach(c, n, settings)
	}
	return nil
}

func (e *Engine) containerStart(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	if c.play != nil || c.restarting {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.byHand, c.restarts, c.failed = false, 0, ""
	if err := e.begin(c); err != nil {
		c.failed, c.exitCode = err.Error(), 128
		return err
	}
	return noContent(w)
}

func (e *Engine) containerStop(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	c, err := e.find(r.PathValue("id"))
	if err != nil {
		e.mu.Unlock()
		return err
	}
	grace := 10 * time.Second
	if t := c.request.StopTimeout; t != nil {
		grace = time.Duration(*t) * time.Second
	}
	if t := r.URL.Query().Get("t"); t != "" {
		seconds, err := strconv.Atoi(t)
		if err != nil {
			e.mu.Unlock()
			return refuse(http.StatusBadRequest, "t: %v", err)
		}
		grace = time.Duration(seconds) * time.Second
	}
	c.byHand = true
	playing := c.play
	if playing == nil {
		c.restarting = false
		e.announce()
		e.mu.Unlock()
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	sig := syscall.SIGTERM
	if c.request.StopSignal != "" {
		if sig, err = parseSignal(c.request.StopSignal); err != nil {
			e.mu.Unlock()
			return err
		}
	}
	e.resume(c) // the signal is to arrive
	e.tellSignal(c, sig)
	e.mu.Unlock()

	playing.signal(sig)
	// The engine goes on when the client leaves; some engines took that for the
	// end of the grace.
	left := context.Background().Done()
	if e.o.CancelKills {
		left = r.Context().Done()
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-playing.done:
	case <-left:
		playing.signal(syscall.SIGKILL)
	case <-timer.C:
		playing.signal(syscall.SIGKILL)
	case <-e.ctx.Done():
		return refuse(http.StatusInternalServerError, "the engine ends")
	}
	if !e.until(context.Background(), func() bool { return c.play != playing }) {
		return refuse(http.StatusInternalServerError, "the engine ends")
	}
	return noContent(w)
}

func (e *Engine) containerKill(w http.ResponseWriter, r *http.Request) error {
	sig := syscall.SIGKILL
	if s := r.URL.Query().Get("signal"); s != "" {
		var err error
		if sig, err = parseSignal(s); err != nil {
			return err
		}
	}
	e.mu.Lock()
	c, err := e.find(r.PathValue("id"))
	if err != nil {
		e.mu.Unlock()
		return err
	}
	playing := c.play
	if playing == nil {
		e.mu.Unlock()
		return refuse(http.StatusConflict, "Container %s is not running", c.id)
	}
	// The real one does so for signals that end most programs.
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		c.byHand = true
	}
	e.tellSignal(c, sig)
	e.mu.Unlock()
	playing.signal(sig)
	if sig == syscall.SIGKILL {
		<-playing.done
		if !e.until(context.Background(), func() bool { return c.play != playing }) {
			return refuse(http.StatusInternalServerError, "the engine ends")
		}
	}
	return noContent(w)
}

func parseSignal(s string) (syscall.Signal, error) {
	switch strings.TrimPrefix(strings.ToUpper(s), "SIG") {
	case "KILL", "9":
		return syscall.SIGKILL, nil
	case "TERM", "15":
		return syscall.SIGTERM, nil
	case "INT", "2":
		return syscall.SIGINT, nil
	case "QUIT", "3":
		return syscall.SIGQUIT, nil
	}
	return 0, notPlayed("the signal " + s)
}

func (e *Engine) containerWait(w http.ResponseWriter, r *http.Request) error {
	condition := r.URL.Query().Get("condition")
	if condition != "" && condition != string(api.WaitConditionNotRunning) {
		return notPlayed("waiting for " + condition)
	}
	e.mu.Lock()
	c, err := e.find(r.PathValue("id"))
	e.mu.Unlock()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // the client sees that its wait began; if it left, the next write says so
	var code int
	if !e.until(r.Context(), func() bool { code = c.exitCode; return c.play == nil && !c.restarting }) {
		return nil
	}
	return json.NewEncoder(w).Encode(api.WaitResponse{StatusCode: int64(code)})
}

func (e *Engine) containerRename(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(r.URL.Query().Get("name"), "/")
	if other, err := e.find(name); err == nil && other != c {
		return refuse(http.StatusConflict, "Conflict. The container name %q is already in use by container %q.", "/"+name, other.id)
	}
	c.name = name
	return noContent(w)
}

func (e *Engine) containerRemove(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if q.Get("force") == "1" || q.Get("link") == "1" {
		return notPlayed("removal by force")
	}
	if q.Get("v") == "1" {
		return notPlayed("removal of a container's volumes")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	if c.play != nil || c.restarting {
		return refuse(http.StatusConflict, "You cannot remove a %s container %s. Stop the container before attempting removal or force remove", c.status(), c.id)
	}
	delete(e.containers, c.id)
	e.tell(c, events.ActionDestroy, nil)
	return noContent(w)
}

func (e *Engine) containerInspect(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(r.PathValue("id"))
	if err != nil {
		return err
	}
	status := c.status()
	base := &api.ContainerJSONBase{
		ID: c.id, Name: "/" + c.name, Created: c.created.Format(time.RFC3339Nano), Image: c.image.id,
		HostConfig: c.request.HostConfig, RestartCount: c.restarts, Platform: "linux",
		State: &api.State{
			Status: status, Running: c.play != nil || c.restarting, Restarting: c.restarting, Paused: status == api.StatePaused, Pid: c.pid(), ExitCode: c.exitCode,
			Error: c.failed, StartedAt: stamp(c.started), FinishedAt: stamp(c.finished), Health: c.health,
		},
	}
	config := *c.request.Config
	config.Env, config.Entrypoint, config.Cmd = c.env(), c.entrypoint(), c.command()
	config.Labels = c.labels()
	settings := &api.NetworkSettings{Networks: map[string]*network.EndpointSettings{}}
	settings.Ports = c.ports()
	for id, s := range c.endpoints {
		settings.Networks[e.findNetwork(id).Name] = s
	}
	return answer(w, http.StatusOK, api.InspectResponse{
		ContainerJSONBase: base, Config: &config, Mounts: e.mounts(c), NetworkSettings: settings,
	})
}

// ports are the published ones, as long as it runs.
func (c *container) ports() nat.PortMap {
	if c.play == nil {
		return nat.PortMap{}
	}
	return c.play.ports
}

// stamp is a time as the engine writes it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func (e *Engine) containerList(w http.ResponseWriter, r *http.Request) error {
	args, err := filters.FromJSON(r.URL.Query().Get("filters"))
	if err != nil {
		return refuse(http.StatusBadRequest, "filters: %v", err)
	}
	for _, key := range args.Keys() {
		if key != "label" && key != "name" && key != "status" && key != "network" {
			return notPlayed("the filter " + key)
		}
	}
	all := r.URL.Query().Get("all") == "1"
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []api.Summary{}
	for _, c := range e.containers {
		labels, status := c.labels(), string(c.status())
		if !all && !args.Contains("status") && c.play == nil ||
			!args.MatchKVList("label", labels) || !args.Match("name", c.name) || !args.ExactMatch("status", status) ||
			args.Contains("network") && !slices.ContainsFunc(args.Get("network"), func(n string) bool {
				found := e.findNetwork(n)
				return found != nil && c.endpoints[found.ID] != nil
			}) {
			continue
		}
		s := api.Summary{
			ID: c.id, Names: []string{"/" + c.name}, Image: c.request.Image, ImageID: c.image.id, Created: c.created.Unix(),
			Labels: labels, State: c.status(), Status: describe(c), Mounts: e.mounts(c),
			NetworkSettings: &api.NetworkSettingsSummary{Networks: map[string]*network.EndpointSettings{}},
		}
		for id, settings := range c.endpoints {
			s.NetworkSettings.Networks[e.findNetwork(id).Name] = settings
		}
		for port, bindings := range c.ports() {
			for _, b := range bindings {
				public, _ := strconv.Atoi(b.HostPort) // it is a number that this engine wrote
				s.Ports = append(s.Ports, api.Port{IP: b.HostIP, PublicPort: uint16(public), PrivatePort: uint16(port.Int()), Type: port.Proto()})
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b api.Summary) int { return strings.Compare(a.Names[0], b.Names[0]) })
	return answer(w, http.StatusOK, out)
}

func describe(c *container) string {
	switch c.status() {
	case api.StateRunning:
		s := fmt.Sprintf("Up %d seconds", int(time.Since(c.started).Seconds()))
		if c.health != nil {
			s += " (" + c.health.Status + ")"
		}
		return s
	case api.StateExited:
		return fmt.Sprintf("Exited (%d)", c.exitCode)
	case api.StateRestarting:
		return fmt.Sprintf("Restarting (%d)", c.exitCode)
	}
	return "Created"
}

// What a container runs with: its own words over its image's.

func (c *container) env() []string {
	merged := slices.Clone(c.image.config.Env)
	for _, pair := range c.request.Env {
		name, _, _ := strings.Cut(pair, "=")
		merged = slices.DeleteFunc(merged, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		merged = append(merged, pair)
	}
	return merged
}

func (c *container) entrypoint() []string {
	if c.request.Entrypoint != nil {
		return c.request.Entrypoint
	}
	return c.image.config.Entrypoint
}

func (c *container) command() []string {
	if c.request.Cmd != nil || c.request.Entrypoint != nil {
		return c.request.Cmd
	}
	return c.image.config.Cmd
}

func (c *container) labels() map[string]string {
	merged := map[string]string{}
	for k, v := range c.image.config.Labels {
		merged[k] = v
	}
	for k, v := range c.request.Labels {
		merged[k] = v
	}
	return merged
}
