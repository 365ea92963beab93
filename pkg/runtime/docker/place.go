package docker

import (
	"path/filepath"

	"github.com/flisk-go/flisk/pkg/runtime/memory"
	"github.com/flisk-go/flisk/pkg/stack"
)

// place is every path on this machine that belongs to one project.
type place struct {
	traefik string // what the gateway mounts; there while it is
	build   string // programs, named by agent, code and machine
	logs    string // of agents' containers that were removed; survives down
	copies  string // of volumes, each of a command that looks at one; of all projects
	kills   string // counts what the engine does not
	images  string // those that flisk made
	stages  string // images that builds by a Dockerfile left, besides those that they were for
	lock    string // held during every change, on any runtime
	stops   string // how files begin that are locked while a container is stopped
}

func placeOf(home string, s stack.Stack) place {
	key := memory.Key(s.ID, s.Instance)
	return place{
		traefik: filepath.Join(home, "traefik", key),
		build:   filepath.Join(home, "build", key+".docker"),
		logs:    filepath.Join(home, "logs", key+".docker"),
		copies:  filepath.Join(home, "copies"),
		kills:   filepath.Join(home, "projects", key+".kills"),
		images:  filepath.Join(home, "projects", key+".images"),
		stages:  filepath.Join(home, "projects", key+".stages"),
		lock:    filepath.Join(home, "projects", key+".lock"),
		stops:   filepath.Join(home, "projects", key+".stop-"),
	}
}

func (p place) static() string { return filepath.Join(p.traefik, "static.yaml") }

// dynamic is a directory: Traefik does not see changes of a file that is mounted
// alone.
func (p place) dynamic() string { return filepath.Join(p.traefik, "dynamic") }

func (p place) routes() string { return filepath.Join(p.dynamic(), "routes.yaml") }

// stop is locked by whoever stops a container.
func (p place) stop(id string) string { return p.stops + id[:min(12, len(id))] + ".lock" }

// keptLogs is where the logs of an agent's removed containers are.
func (p place) keptLogs(agent string) string { return filepath.Join(p.logs, agent) }

// agentProgram is where an agent's program is built.
func (p place) agentProgram(agent, code, arch string) string {
	return filepath.Join(p.build, agent+"-"+code+"-"+arch)
}
