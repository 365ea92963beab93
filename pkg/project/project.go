// Package project reads flisk.yaml, the one file of a project that people edit.
//
// Call [Load] for a checked [Project], and [Identify] for what can be read of a
// file that Load refuses. Everything that is wrong with the file is reported
// at once, each problem with its line, its column and the line itself. Values
// mean what they say: nothing in the file is expanded, neither "$" nor an
// environment variable. YAML is imported by this package only.
package project

import (
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// FileName is the file that makes a directory a project.
const FileName = "flisk.yaml"

// Version is the only version of the file format so far.
const Version = 1

// Project is a checked flisk.yaml, defaults filled in.
type Project struct {
	Dir     string // absolute, free of symbolic links
	Name    string // see ValidName
	ID      string // 12 hexadecimal digits: the project's identity, wherever it is moved
	Runtime Runtime
	Gateway Gateway
	Agents  []Agent // at least one, in the order of their names
	Volume  string  // name of the volume that holds the conversations
	Verify  Verify
}

// Runtime says where a stack shall run.
type Runtime string

// The values of Runtime.
const (
	Auto    Runtime = "auto" // docker if its engine answers, else process
	Docker  Runtime = "docker"
	Process Runtime = "process"
)

// Gateway is the one address that clients use.
type Gateway struct {
	Bind  string   // a loopback IP address
	Port  int      // 1 to 65535
	Hosts []string // Host values to serve besides the loopback names: lower case, with port where there is one
}

// Agent is one named service.
type Agent struct {
	Name           string // satisfies turn.ValidAgent
	Path           string // of its main package: relative to the project, with slashes, never leaving it
	Replicas       int
	TurnTimeout    time.Duration
	Drain          time.Duration
	OnBusy         string // turn.BusyQueue or turn.BusyReject
	RequireSession bool
	MaxBody        int64    // bytes
	EnvFiles       []string // relative to the project, with slashes, never leaving it; they need not exist

	// WatchIgnore are names that change nothing of the agent: such files do not
	// count for what it is built from (pkg/source), and reload nothing.
	// Every other file of the project counts, because an agent may embed it. A
	// pattern is one of path.Match, for the name of a file or directory in any
	// depth or, with a slash in it, for its path in the project.
	WatchIgnore []string
}

// Verify is what a verification sends, and what the agent's environment is then.
type Verify struct {
	Inputs []string
	Env    map[string]string
}

// Agent finds an agent by its name.
func (p *Project) Agent(name string) (Agent, bool) {
	i := slices.IndexFunc(p.Agents, func(a Agent) bool { return a.Name == name })
	if i < 0 {
		return Agent{}, false
	}
	return p.Agents[i], true
}

// AgentNames lists the agents, sorted.
func (p *Project) AgentNames() []string {
	var names []string
	for _, a := range p.Agents {
		names = append(names, a.Name)
	}
	return names
}

// Every default of the file is below. Those that an agent shares when it is
// started by hand come from the wire contract.

func defaults(dir string) Project {
	return Project{
		Dir:     dir,
		Runtime: Auto,
		Gateway: Gateway{Bind: "127.0.0.1", Port: DefaultPort},
		Verify:  Verify{Inputs: []string{"remember 17", "what did I say?", "and before?"}, Env: map[string]string{}},
	}
}

func defaultAgent(name string) Agent {
	env := turn.DefaultEnv()
	return Agent{
		Name:        name,
		Path:        ".",
		Replicas:    1,
		TurnTimeout: env.TurnTimeout,
		Drain:       env.Drain,
		OnBusy:      env.OnBusy,
		MaxBody:     env.MaxBody,
		EnvFiles:    []string{".env"},
	}
}

// DefaultPort is the gateway's port, and the first one that init tries.
const DefaultPort = 8080

// GatewayName is what the gateway is called in a network of containers, where
// every agent has its own name. No agent can have this one.
const GatewayName = "gateway"

// Limits of names. The longest names made of them, "<name>-<agent>-1" and
// "flisk-<name>-<id>", have 63 characters or fewer: the longest DNS label.
const (
	MaxName   = 63 - len("-") - turn.MaxAgent - len("-1")
	MaxVolume = 63
	idLength  = 12
)

// VolumeName is the name that init gives to a project's volume.
func VolumeName(name, id string) string { return "flisk-" + name + "-" + id }

// ValidName reports whether name can name a project: 1 to [MaxName] characters
// of a-z 0-9 and -, the first and the last one not a -.
func ValidName(name string) bool {
	if name == "" || len(name) > MaxName || strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
