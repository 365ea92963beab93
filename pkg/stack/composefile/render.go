// Package composefile is a stack as a Compose file: [Render] writes the one that
// a project has, [Load] reads it together with what people added to it, and
// [Check] says what of that flisk does not apply. The Compose types are imported
// by this package only; [Project] and [Service] name them for others.
package composefile

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// The names of the files. An override is a person's, and there may be none.
const (
	FileName    = "compose.yaml"
	StaticFile  = "traefik/static.yaml"
	RoutesFile  = "traefik/dynamic/routes.yaml"
	routesDir   = "./traefik/dynamic"
	volumeKey   = "checkpoints"
	networkKey  = "default"
	buildArg    = "AGENT" // of the Dockerfile: where the main package is
	runtimeName = "docker"
)

// Linger is the FLISK_LINGER of agents in containers. Nobody is told of a
// container that stops before it does: the gateway has let go of it, or finds
// out by itself and tries again.
const Linger = 100 * time.Millisecond

// AgentEnv is what an agent is told when it runs in a container, by whatever
// started that: it lacks what only a runtime of flisk knows, which is the code,
// the volume's id and the nonce of a verification.
func AgentEnv(s stack.Stack, a stack.Agent) turn.Env {
	return turn.Env{
		Agent: a.Name, Data: stack.DataDir, Listen: net.JoinHostPort("0.0.0.0", strconv.Itoa(stack.AgentPort)),
		Hosts: s.InsideHosts(), Gateway: s.InsideURL(), Runtime: runtimeName,
		Drain: a.Drain, Linger: Linger, TurnTimeout: a.TurnTimeout,
		OnBusy: a.OnBusy, RequireSession: a.RequireSession, MaxBody: a.MaxBody,
	}
}

// Render writes the Compose file of a stack. Equal stacks give equal bytes, and
// no value of an env file is in them. static is the content of Traefik's static
// file: the gateway carries its hash, because nothing else about a container
// changes when a mounted file does, and it is read only once.
//
// The result is for plain Compose, too. Values are what they are: "$" is written
// so that Compose does not look for a variable behind it.
func Render(s stack.Stack, static []byte) ([]byte, error) {
	labels := types.Labels{LabelProject: s.ID}
	if s.Instance != "" {
		labels[LabelInstance] = s.Instance
	}
	p := &types.Project{
		Name:     s.ContainerProject(),
		Services: types.Services{stack.GatewayService: gateway(s, static, with(labels))},
		Networks: types.Networks{networkKey: {Name: s.Network(), Labels: with(labels)}},
		Volumes:  types.Volumes{volumeKey: {Name: s.Volume.Name, Labels: with(labels)}},
	}
	for _, a := range s.Agents {
		service, err := agent(s, a, with(labels, LabelAgent, a.Name))
		if err != nil {
			return nil, err
		}
		p.Services[a.Name] = service
	}
	out, err := p.MarshalYAML()
	if err != nil {
		return nil, err
	}
	// Keys have no "$", and in YAML it stands for itself however a value is quoted.
	return bytes.ReplaceAll(out, []byte("$"), []byte("$$")), nil
}

// with copies labels and adds pairs.
func with(labels types.Labels, pairs ...string) types.Labels {
	out := types.Labels{}
	for k, v := range labels {
		out[k] = v
	}
	for pair := range slices.Chunk(pairs, 2) {
		out[pair[0]] = pair[1]
	}
	return out
}

// agent is the service of one agent.
func agent(s stack.Stack, a stack.Agent, labels types.Labels) (types.ServiceConfig, error) {
	dir, err := inside(s.Dir, a.Dir)
	if err != nil {
		return types.ServiceConfig{}, err
	}
	env := types.MappingWithEquals{}
	for _, variable := range AgentEnv(s, a).Encode() {
		env = env.OverrideBy(types.NewMappingWithEquals([]string{variable}))
	}
	service := hardened(a.StopGrace, labels)
	service.Image = s.Image(a.Name)
	service.Build = &types.BuildConfig{
		Context: ".", Dockerfile: "Dockerfile", Args: types.MappingWithEquals{buildArg: &dir},
	}
	service.Environment = env
	for _, file := range a.EnvFiles {
		path, err := inside(s.Dir, file)
		if err != nil {
			return types.ServiceConfig{}, err
		}
		service.EnvFiles = append(service.EnvFiles, types.EnvFile{Path: path, Required: false})
	}
	service.Tmpfs = types.StringList{"/tmp"}
	service.Volumes = []types.ServiceVolumeConfig{{Type: types.VolumeTypeVolume, Source: volumeKey, Target: stack.DataDir}}
	service.HealthCheck = &types.HealthCheckConfig{
		Test:        types.HealthCheckTest{"CMD", "/agent", "health"},
		Interval:    duration(5 * time.Second),
		Timeout:     duration(5 * time.Second),
		Retries:     new(uint64(3)),
		StartPeriod: duration(30 * time.Second),
	}
	// What is started later is stopped earlier: an agent's last answers need the
	// gateway.
	service.DependsOn = types.DependsOnConfig{stack.GatewayService: {Condition: types.ServiceConditionStarted, Required: true}}
	return service, nil
}

// gateway is Traefik. It mounts no socket of the engine: its routes are files.
func gateway(s stack.Stack, static []byte, labels types.Labels) types.ServiceConfig {
	labels[LabelStatic] = staticHash(static)
	service := hardened(s.GatewayGrace(), labels)
	service.Image = stack.GatewayImage
	service.Command = types.ShellCommand{"--configFile=" + stack.GatewayConfig}
	service.Ports = []types.ServicePortConfig{{
		Mode: "ingress", Protocol: "tcp", Target: stack.GatewayPort,
		HostIP: s.Gateway.Bind, Published: strconv.Itoa(s.Gateway.Port),
	}}
	service.Volumes = []types.ServiceVolumeConfig{
		mounted("./"+StaticFile, stack.GatewayConfig),
		mounted(routesDir, stack.GatewayRoutes),
	}
	// Else a name that is not there is asked for outside, and one question without
	// an answer holds up all others for that name.
	service.DNSOpts = []string{"ndots:1"}
	service.DNSSearch = types.StringList{"."}
	return service
}

// hardened is what every service has in common: no root, no capability, nothing
// to write on, and a grace of its own to stop in.
func hardened(grace time.Duration, labels types.Labels) types.ServiceConfig {
	var s types.ServiceConfig
	s.User = stack.User
	s.ReadOnly = true
	s.CapDrop = []string{"ALL"}
	s.SecurityOpt = []string{"no-new-privileges:true"}
	s.Init = new(false) // a process that is put before it would not wait for its drain
	s.Restart = types.RestartPolicyUnlessStopped
	s.StopGracePeriod = duration(grace)
	s.Labels = labels
	return s
}

func mounted(source, target string) types.ServiceVolumeConfig {
	return types.ServiceVolumeConfig{
		Type: types.VolumeTypeBind, Source: source, Target: target, ReadOnly: true,
		Bind: &types.ServiceVolumeBind{CreateHostPath: false},
	}
}

func duration(d time.Duration) *types.Duration { return new(types.Duration(d)) }

// inside is a path relative to the project, with slashes. It begins with a dot,
// so that nothing takes "~" or "-" at its beginning for anything but a name.
func inside(dir, path string) (string, error) {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%q is not inside the project %q", path, dir)
	}
	if rel == "." {
		return rel, nil
	}
	return "./" + filepath.ToSlash(rel), nil
}
