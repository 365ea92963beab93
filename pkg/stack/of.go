package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Of derives the stack of a project. It is pure: equal arguments give equal
// results, and nothing is read from disk.
//
// An instance other than "" is a second copy that runs beside the first. It has
// a volume of its own; its port is the project's, and a runtime that starts it
// takes another one when that is in use.
func Of(p *project.Project, instance string) Stack {
	s := Stack{
		Name:     p.Name,
		ID:       p.ID,
		Instance: instance,
		Dir:      p.Dir,
		Gateway:  Gateway{Bind: p.Gateway.Bind, Port: p.Gateway.Port, Hosts: slices.Clone(p.Gateway.Hosts)},
		Volume:   Volume{Name: InstanceVolume(p.Volume, instance)},
	}
	for _, a := range p.Agents {
		agent := Agent{
			Name:           a.Name,
			Dir:            filepath.Join(p.Dir, filepath.FromSlash(a.Path)),
			Replicas:       a.Replicas,
			TurnTimeout:    a.TurnTimeout,
			Drain:          a.Drain,
			StopGrace:      a.Drain + stopMargin,
			OnBusy:         a.OnBusy,
			RequireSession: a.RequireSession,
			MaxBody:        a.MaxBody,
			WatchIgnore:    slices.Clone(a.WatchIgnore),
		}
		for _, file := range a.EnvFiles {
			agent.EnvFiles = append(agent.EnvFiles, filepath.Join(p.Dir, filepath.FromSlash(file)))
		}
		s.Agents = append(s.Agents, agent)
	}
	return s
}

// ValidInstance reports whether name can name an instance: by the same rule as
// an agent's name.
func ValidInstance(name string) bool { return turn.ValidAgent(name) }

// InstanceVolume is the volume of an instance of a project that has this one:
// "<volume>-<instance>", or the volume itself when instance is "". Where that is
// too long, the end of the volume's name gives way to a hash of the whole.
func InstanceVolume(volume, instance string) string {
	if instance == "" || volume == "" {
		return volume
	}
	suffix := "-" + instance
	if len(volume)+len(suffix) > project.MaxVolume {
		sum := sha256.Sum256([]byte(volume))
		suffix = "-" + hex.EncodeToString(sum[:4]) + suffix
		volume = volume[:project.MaxVolume-len(suffix)]
	}
	return volume + suffix
}

// Budgets nest: turn timeout < drain < stop grace < driver timeout. Each has time
// to see the one inside it end by itself.
const (
	stopMargin   = 10 * time.Second // drain ended, exit seen
	driverMargin = 10 * time.Second // its requests let go, killed after its grace, reaped
)

// DriverTimeout is how long a runtime may take to stop a replica that has this
// grace, a kill at its end included.
func DriverTimeout(grace time.Duration) time.Duration { return grace + driverMargin }
