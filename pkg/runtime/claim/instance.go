package claim

import (
	"errors"
	"net"
	"strconv"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
)

// maxPort is the highest TCP port.
const maxPort = 1<<16 - 1

// InstancePort is the port of a stack. For the project itself that is what
// flisk.yaml says. An instance stays where it runs, at the address running, else
// goes back to where it was, else takes the project's port; where somebody else
// has that, the next one that is free. was is the port that is remembered, 0 for
// none.
func InstancePort(s stack.Stack, running string, was int) (int, error) {
	if s.Instance == "" {
		return s.Gateway.Port, nil
	}
	if running != "" {
		_, port, err := net.SplitHostPort(running)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(port)
	}
	g := s.Gateway
	if was != 0 {
		g.Port = was
	}
	for first := g.Port; g.Port <= maxPort; g.Port++ {
		ln, err := net.Listen("tcp", Address(g))
		if err == nil {
			return g.Port, ln.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return first, nil // where that is said, and what to do
		}
	}
	return 0, fault.New(fault.Environment, "set gateway.port in flisk.yaml to a lower one",
		"there is no free port for instance %q", s.Instance)
}
