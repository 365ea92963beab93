package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
	"github.com/flisk-go/flisk/pkg/stack/traefik"
	"github.com/flisk-go/flisk/pkg/turn"
)

// runtimeName is what FLISK_RUNTIME says.
const runtimeName = "docker"

// target is the desired state with what it takes to start it.
type target struct {
	dir      string
	files    []string // the Compose files that it is made of
	address  string   // where the gateway shall listen
	static   []byte   // what the gateway starts with
	gateway  wanted
	agents   []wantedAgent
	services []wanted // each behind those that it depends on
	network  declared
	volumes  map[string]declared // by their keys
}

// wanted is one container that shall run.
type wanted struct {
	composefile.Service
	settings string
}

type wantedAgent struct {
	wanted
	stack.Agent
	code    string
	named   []runtime.Setting
	program string // where it is built
	build   string // identifies how it is built: see buildOf
}

// declared is a network or a volume of the Compose file.
type declared struct {
	key, name string
	labels    map[string]string
	external  bool
}

// loaded is the Compose file as people left it, and what the gateway starts with.
type loaded struct {
	composefile.Loaded
	static []byte
}

// load reads the Compose file, and refuses what would not be applied.
func (d *Driver) load(ctx context.Context) (loaded, error) {
	static, err := traefik.Static(d.o.Stack)
	if err != nil {
		return loaded{}, err
	}
	l, err := composefile.Load(ctx, d.o.Stack, static, d.o.Environ)
	if err != nil {
		return loaded{}, err
	}
	return loaded{l, static}, composefile.Check(l.Project)
}

// external reports whether a volume is declared as made elsewhere.
func (l loaded) external(volume string) bool {
	for _, v := range l.Project.Volumes {
		if v.Name == volume {
			return bool(v.External)
		}
	}
	return false
}

// target works out what shall run. Its values of env files are secrets: they go
// into the containers' environments, and nowhere else.
func (d *Driver) target(loaded loaded, volumeID, arch string) (target, error) {
	s := d.o.Stack
	t := target{dir: s.Dir, address: claim.Address(s.Gateway), static: loaded.static, volumes: map[string]declared{}}
	t.files = []string{filepath.Join(s.Dir, composefile.FileName)}
	if loaded.Override != "" {
		t.files = append(t.files, loaded.Override)
	}
	for key, n := range loaded.Project.Networks {
		t.network = declared{key: key, name: n.Name, labels: d.objectLabels(n.Labels, composeNetwork, key)}
	}
	for key, v := range loaded.Project.Volumes {
		t.volumes[key] = declared{key: key, name: v.Name, labels: d.objectLabels(v.Labels, composeVolume, key), external: bool(v.External)}
	}
	for _, a := range s.Agents {
		wanted, err := d.wantedAgent(t, loaded.Project.Services[a.Name], a, volumeID, arch)
		if err != nil {
			return t, err
		}
		t.agents = append(t.agents, wanted)
	}
	gateway := loaded.Project.Services[stack.GatewayService]
	d.mountLive(&gateway)
	t.gateway = wanted{gateway, t.settingsHash(s, gateway, nil, "")}
	t.services = t.others(s, loaded.Project)
	return t, nil
}

// mountLive gives the gateway the live routes in the place of the project's,
// which are plain Compose's.
func (d *Driver) mountLive(gateway *composefile.Service) {
	gateway.Volumes = slices.Clone(gateway.Volumes)
	for i, v := range gateway.Volumes {
		switch v.Target {
		case stack.GatewayConfig:
			gateway.Volumes[i].Source = d.place.static()
		case stack.GatewayRoutes:
			gateway.Volumes[i].Source = d.place.dynamic()
		}
	}
}

func (d *Driver) wantedAgent(t target, service composefile.Service, a stack.Agent, volumeID, arch string) (wantedAgent, error) {
	code, err := d.o.SourceHash(a.Name)
	if err != nil {
		return wantedAgent{}, err
	}
	vars, err := project.LoadEnv(d.o.Stack.Dir, composefile.EnvFiles(service))
	if err != nil {
		return wantedAgent{}, err
	}
	// What the Compose file says counts more than an env file, as with plain
	// Compose; what a verification says counts most.
	env := map[string]string{}
	set := func(variables []string) {
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
	}
	set(runtime.WithoutFlisk(vars))
	for name, value := range service.Environment {
		if value != nil {
			env[name] = *value
		}
	}
	set(runtime.WithoutFlisk(a.Env))
	set(composefile.AgentEnv(d.o.Stack, a).Encode()) // an override must not lie to an agent about its surroundings
	if d.o.Stack.Verify != "" {
		env["FLISK_VERIFY"] = d.o.Stack.Verify
	}
	build := buildOf(service, d.o.Stack, a)
	hash := t.settingsHash(d.o.Stack, service, env, build)
	known, err := turn.ParseEnv(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		return wantedAgent{}, err
	}
	named := append(settingsOf(known, env), buildSetting(build), projectSetting(d.o.Stack.ContainerProject()))
	// Known to the driver only, and not among the settings: the code has a hash of
	// its own, and another volume is refused before anything is started.
	env["FLISK_CODE"] = code
	if volumeID != "" {
		env["FLISK_VOLUME"] = volumeID
	}
	service.Environment = pointers(env)
	return wantedAgent{
		wanted: wanted{service, hash}, Agent: a, code: code, named: named,
		program: d.place.agentProgram(a.Name, code, arch),
		build:   build,
	}, nil
}

// plainly is how an agent is built of which no override says how.
const plainly = "plain"

// buildOf identifies how an agent is built. What it is built from counts as its
// code, and is not part of it.
func buildOf(service composefile.Service, s stack.Stack, a stack.Agent) string {
	b := service.Build
	switch {
	case plainBuild(service, s, a):
		return plainly
	case b == nil:
		return "none"
	}
	dir, err := filepath.Rel(s.Dir, b.Context) // the project may move
	if err != nil {
		dir = b.Context
	}
	return shortHash([]any{dir, b.Dockerfile, b.Target, b.Args})
}

// buildSetting is how an agent is built, for the cause of a step.
func buildSetting(build string) runtime.Setting {
	return runtime.Setting{Name: "build", Value: build, Secret: true} // a hash means nothing to people
}

// projectSetting is the Compose project that a container is of.
func projectSetting(name string) runtime.Setting {
	return runtime.Setting{Name: "the Compose project", Value: name}
}

// plainBuild reports whether nothing of an override says how an agent is built:
// then its program says all, and needs no Dockerfile.
func plainBuild(service composefile.Service, s stack.Stack, a stack.Agent) bool {
	b := service.Build
	rel, err := filepath.Rel(s.Dir, a.Dir)
	if b == nil || err != nil || b.Target != "" || b.Dockerfile != "Dockerfile" || b.Context != s.Dir || len(b.Args) != 1 {
		return false
	}
	for _, dir := range b.Args { // the one that says where the main package is
		return dir != nil && filepath.Clean(filepath.FromSlash(*dir)) == rel
	}
	return false
}

func pointers(env map[string]string) map[string]*string {
	out := make(map[string]*string, len(env))
	for name, value := range env {
		out[name] = &value
	}
	return out
}

// others are the services that people added, each behind those that it depends
// on.
func (t target) others(s stack.Stack, p *composefile.Project) []wanted {
	var out []wanted
	done := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		service, ok := p.Services[name]
		if done[name] || !ok {
			return
		}
		done[name] = true // the loader has refused cycles
		for _, needs := range slices.Sorted(maps.Keys(service.DependsOn)) {
			visit(needs)
		}
		if name != stack.GatewayService && !slices.ContainsFunc(t.agents, func(a wantedAgent) bool { return a.Agent.Name == name }) {
			out = append(out, wanted{service, t.settingsHash(s, service, nil, "")})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Services)) {
		visit(name)
	}
	return out
}

// settingsHash identifies what a container is made from. Where a project is on
// disk, and the order of starts are not part of it; build is what buildOf says of
// an agent. The Compose project is, because a label of a container cannot be
// changed, and so are the names on the engine of its network and of its volumes.
func (t target) settingsHash(of stack.Stack, s composefile.Service, env map[string]string, build string) string {
	s.Build, s.EnvFiles, s.DependsOn = nil, nil, nil
	if env != nil {
		s.Environment = pointers(env)
	}
	names := []string{t.network.name}
	for _, v := range s.Volumes {
		if v.Type == "volume" {
			names = append(names, t.volumes[v.Source].name)
		}
	}
	return shortHash([]any{s, build, of.ContainerProject(), names})
}

// shortHash is cut short on purpose: it tells settings apart, and must not help to
// guess a secret among them.
func shortHash(settings any) string {
	encoded, err := json.Marshal(settings)
	if err != nil { // strings, numbers and maps of them
		panic(err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:6])
}

// settingsOf are the settings of an agent as people know them.
func settingsOf(env turn.Env, environ map[string]string) []runtime.Setting {
	out := []runtime.Setting{
		{Name: "turn_timeout", Value: env.TurnTimeout.String()},
		{Name: "drain", Value: env.Drain.String()},
		{Name: "on_busy", Value: env.OnBusy},
		{Name: "require_session_id", Value: strconv.FormatBool(env.RequireSession)},
		{Name: "max_body", Value: strconv.FormatInt(env.MaxBody, 10)},
		{Name: "gateway.hosts", Value: strings.Join(addedHosts(env.Hosts), " ")},
	}
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if strings.HasPrefix(name, "FLISK_") || name == "PATH" { // PATH is the image's
			continue
		}
		sum := sha256.Sum256([]byte(name + "\x00" + environ[name]))
		out = append(out, runtime.Setting{Name: name, Value: hex.EncodeToString(sum[:6]), Secret: true})
	}
	return out
}

// addedHosts are those of the Host values of an agent that flisk.yaml adds to what
// every gateway serves: the loopback names with its port, and its name inside.
func addedHosts(hosts []string) []string {
	var port string
	if len(hosts) > 0 {
		_, port, _ = net.SplitHostPort(hosts[0]) // a loopback name
	}
	return slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		name, at, err := net.SplitHostPort(host)
		if err != nil { // of port 80
			name, at = strings.Trim(host, "[]"), "80"
		}
		own := name == "localhost" || net.ParseIP(name).IsLoopback()
		return own && at == port || host == net.JoinHostPort(stack.GatewayService, strconv.Itoa(stack.GatewayPort))
	})
}

func (t target) desired() runtime.Desired {
	out := runtime.Desired{Dir: t.dir, Gateway: t.address, Setup: t.gateway.settings}
	for _, a := range t.agents {
		out.Agents = append(out.Agents, runtime.Want{
			Agent: a.Agent.Name, Replicas: a.Replicas, Code: a.code, Settings: a.settings, Named: a.named,
		})
	}
	for _, s := range t.services {
		out.Services = append(out.Services, runtime.Service{Name: s.Name, Settings: s.settings})
	}
	return out
}

func (t target) agent(name string) *wantedAgent {
	return &t.agents[slices.IndexFunc(t.agents, func(a wantedAgent) bool { return a.Agent.Name == name })]
}

func (t target) service(name string) wanted {
	return t.services[slices.IndexFunc(t.services, func(s wanted) bool { return s.Name == name })]
}

func (t target) serviceOrGateway(name string) wanted {
	if name == t.gateway.Name {
		return t.gateway
	}
	return t.service(name)
}

// baseName is what a container is called, but for its number: as plain Compose
// would call it.
func (d *Driver) baseName(service string) string {
	return d.o.Stack.ContainerProject() + "-" + service
}

// ServiceContainer is the name of the container that a service of
// compose.override.yaml runs in.
func (d *Driver) ServiceContainer(name string) string { return d.baseName(name) + "-1" }

// agentContainer is a generation of an agent's replica.
func (d *Driver) agentContainer(t target, ref runtime.Ref, name string) (containerSpec, error) {
	a := t.agent(ref.Agent)
	spec, err := t.containerOf(a.Service)
	if err != nil {
		return spec, err
	}
	number, _ := strconv.Atoi(strings.TrimPrefix(ref.Replica, ref.Agent+"-")) // the planner wrote it
	spec.name = name
	spec.config.Labels = t.serviceLabels(d, a.Service, a.settings, number)
	spec.config.Labels[labelReplica], spec.config.Labels[labelGeneration] = ref.Replica, strconv.Itoa(ref.Generation)
	spec.config.Labels[labelCode], spec.config.Labels[labelBuild] = a.code, a.build
	spec.networks = t.attached(a.Service, alias(ref), ref.Agent)
	return spec, nil
}

// serviceContainer is the gateway, or a service that people added.
func (d *Driver) serviceContainer(t target, w wanted, name string) (containerSpec, error) {
	spec, err := t.containerOf(w.Service)
	if err != nil {
		return spec, err
	}
	spec.name = name
	spec.config.Labels = t.serviceLabels(d, w.Service, w.settings, 1)
	spec.networks = t.attached(w.Service, w.Name)
	return spec, nil
}

// attached joins a service to the one network of the stack.
func (t target) attached(s composefile.Service, aliases ...string) []attachment {
	if n := s.Networks[t.network.key]; n != nil {
		aliases = append(aliases, n.Aliases...)
	}
	return []attachment{{network: t.network.name, aliases: aliases}}
}
