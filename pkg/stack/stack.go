// Package stack is the desired state of a project as plain data: what shall
// run, on any runtime. [Of] derives it from a project; nothing in it depends on
// Docker or on local processes, and nothing in it is a secret.
package stack

import "time"

// Stack is everything that `up` brings about.
type Stack struct {
	Name     string // of the project
	ID       string // of the project: every object that a runtime makes carries it
	Instance string // "" unless a second copy of the project was asked for
	Dir      string // absolute path of the project
	Gateway  Gateway
	Agents   []Agent // in the order of their names
	Volume   Volume
	Verify   string // the nonce that unlocks holds; "" outside a verification
}

// Gateway is the one address that clients use.
type Gateway struct {
	Bind  string // an IP address, loopback
	Port  int
	Hosts []string // Host values to serve besides the loopback names; with port where there is one
}

// Agent is one named service.
type Agent struct {
	Name           string
	Dir            string // absolute path of its main package
	Replicas       int
	TurnTimeout    time.Duration
	Drain          time.Duration // budget of a drain
	StopGrace      time.Duration // how long a runtime waits for the exit; above Drain
	OnBusy         string
	RequireSession bool
	MaxBody        int64    // bytes
	EnvFiles       []string // absolute paths; one that does not exist is skipped
	Env            []string // "NAME=value", after what the env files say; a verification's
	WatchIgnore    []string
}

// Volume is where checkpoints live.
type Volume struct {
	Name string
}
