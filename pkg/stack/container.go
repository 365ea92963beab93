package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
)

// What a stack looks like from inside its network, when it runs in containers.
const (
	GatewayService = project.GatewayName
	GatewayPort    = 8080    // where the gateway listens
	AgentPort      = 4001    // where every agent listens
	DataDir        = "/data" // where an agent finds the volume
	User           = "65532:65532"
)

// The gateway's container. The image is pinned to the version that its
// configuration is written for and was measured with.
const (
	GatewayImage  = "traefik:v3.7.13"
	GatewayConfig = "/etc/traefik/static.yaml"
	GatewayRoutes = "/etc/traefik/dynamic" // a directory: a file that is mounted alone is not seen to change
)

// maxContainerProject keeps "<project>-<agent>-1" within a DNS label, as
// project.MaxName does for the project itself.
const maxContainerProject = project.MaxName

// idPart is how much of the project's id is enough to tell two projects of one
// name apart, and short enough to be read.
const idPart = 6

// ContainerProject is the name of the stack's Compose project, which begins those
// of its containers: "<project>-<id>" with the first characters of the id, or
// "<project>-<instance>-<id>". Plain Compose goes by this name alone, so without
// the id it would take the containers of one checkout for those of another.
func (s Stack) ContainerProject() string {
	id := "-" + s.ID[:min(idPart, len(s.ID))]
	return s.instanceName(maxContainerProject-len(id)) + id
}

// InstanceName is the project's name, or "<project>-<instance>". It tells no two
// projects of one name apart.
func (s Stack) InstanceName() string { return s.instanceName(maxContainerProject) }

// instanceName is InstanceName in at most most characters. Where it is longer, the
// end of the project's name gives way to a hash of the whole.
func (s Stack) instanceName(most int) string {
	name, suffix := s.Name, ""
	if s.Instance != "" {
		suffix = "-" + s.Instance
	}
	if len(name)+len(suffix) > most {
		sum := sha256.Sum256([]byte(name))
		suffix = "-" + hex.EncodeToString(sum[:4]) + suffix
		name = name[:most-len(suffix)]
	}
	return name + suffix
}

// Network is the name of the network that the stack's containers share. It has
// the project's id in it: nobody else's network can be meant.
func (s Stack) Network() string { return "flisk-" + s.InstanceName() + "-" + s.ID }

// Image is the name of an agent's image. Nobody can publish one of that name on
// Docker Hub, where a user's name has no "-".
func (s Stack) Image(agent string) string {
	return "flisk-" + s.InstanceName() + "-" + s.ID + "/" + agent + ":latest"
}

// InsideHosts is the exact list of Host values that a gateway in a container
// serves: what clients outside write, and what an agent does.
func (s Stack) InsideHosts() []string {
	inside := net.JoinHostPort(GatewayService, strconv.Itoa(GatewayPort))
	hosts := s.Gateway.HostNames()
	if !slices.Contains(hosts, inside) {
		hosts = append(hosts, inside)
	}
	return hosts
}

// InsideURL is the gateway's base URL for an agent in a container.
func (s Stack) InsideURL() string {
	return "http://" + net.JoinHostPort(GatewayService, strconv.Itoa(GatewayPort))
}

// InsideRoutes is the route table of a gateway that finds each agent by its
// service's name. A runtime that replaces containers makes its own, which names
// one generation.
func (s Stack) InsideRoutes() Routes {
	r := Routes{Hosts: s.InsideHosts()}
	for _, a := range s.Agents {
		r.Agents = append(r.Agents, Route{Agent: a.Name, MaxBody: a.MaxBody, Endpoints: []Endpoint{{
			Replica: a.Name, Network: "tcp", Address: net.JoinHostPort(a.Name, strconv.Itoa(AgentPort)),
		}}})
	}
	return r
}

// leastGrace is that of an agent with the drain that flisk init writes. A gateway
// has it also before agents that take less: another grace is another container, for
// whose port the old one has to go first, and with it requests.
const leastGrace = 2*time.Minute + stopMargin

// LongestGrace is the longest that any agent of the stack may take to stop, and at
// least leastGrace.
func (s Stack) LongestGrace() time.Duration {
	d := leastGrace
	for _, a := range s.Agents {
		d = max(d, a.StopGrace)
	}
	return d
}

// GatewayGrace is how long a gateway in a container may take to stop. Before its
// end, and not before the longest of any agent's, it lets its requests go.
func (s Stack) GatewayGrace() time.Duration { return s.LongestGrace() + stopMargin }
