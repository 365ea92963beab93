package docker

import (
	"errors"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/flisk-go/flisk/pkg/fault"
)

// What an engine refused, for errors.Is.
var (
	errNotFound  = errors.New("no such object")
	errConflict  = errors.New("in conflict with another object")
	errPortTaken = errors.New("the port is in use")
	errNoSubnet  = errors.New("there is no free subnet")
	errNoSource  = errors.New("what shall be mounted is not there")
)

// errRuns says that a container runs that was stopped, for errors.Is.
var errRuns = errors.New("it still runs")

// refusal is an engine's error with its kind. It reads as the engine wrote it.
type refusal struct {
	kind error
	err  error
}

func (r refusal) Error() string   { return r.err.Error() }
func (r refusal) Unwrap() []error { return []error{r.kind, r.err} }

// classify tells what the engine refused. Ports, subnets and mounts have no code of
// their own in the API: their texts are all there is.
func classify(err error) error {
	text := err.Error()
	says := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case says("port is already allocated", "address already in use", "Ports are not available", "ports are not available"):
		return refusal{errPortTaken, err}
	case says("non-overlapping IPv4 address pool", "predefined address pools have been fully subnetted"):
		return refusal{errNoSubnet, err}
	case says("bind source path does not exist"):
		return refusal{errNoSource, err}
	case errdefs.IsNotFound(err), says("marked for removal"): // it goes at this moment
		return refusal{errNotFound, err}
	case errdefs.IsConflict(err):
		return refusal{errConflict, err}
	}
	return err
}

// explained says of a container's create or start that was refused whose fault that
// is, and what to do.
func explained(err error) error {
	switch {
	case errors.Is(err, errPortTaken):
		return fault.New(fault.Environment, "stop what has it, or publish another port in compose.override.yaml", "%w", err)
	case errors.Is(err, errNoSource):
		return fault.New(fault.Usage, "make it, or correct its path in compose.override.yaml", "%w", err)
	}
	return err
}

// readable takes the client's wording off.
func readable(err error) error {
	const prefix = "Error response from daemon: "
	if text, ok := strings.CutPrefix(err.Error(), prefix); ok && !client.IsErrConnectionFailed(err) {
		return reworded{text, err}
	}
	return err
}

type reworded struct {
	text string
	err  error
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.err }
