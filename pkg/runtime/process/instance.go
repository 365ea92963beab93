package process

import (
	"errors"
	"net"
	"strconv"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

// maxPort is the highest TCP port.
const maxPort = 1<<16 - 1

// onItsPort is the driver with the port that its stack has. For the project
// itself that is what flisk.yaml says. An instance stays where it runs, else
// goes back to where it was, else takes the project's port; where somebody else
// has that, the next one that is free.
func (d *Driver) onItsPort(l look) (*Driver, error) {
	if d.o.Stack.Instance == "" {
		return d, nil
	}
	known, err := d.remembered()
	if err != nil {
		return nil, err
	}
	on := *d
	if known.Port != 0 {
		on.o.Stack.Gateway.Port = known.Port
	}
	if l.answer != nil {
		_, port, err := net.SplitHostPort(l.answer.Gateway)
		if err != nil {
			return nil, err
		}
		on.o.Stack.Gateway.Port, err = strconv.Atoi(port)
		return &on, err
	}
	if l.exists && known.Port != 0 {
		return &on, nil // whoever has the port is most likely what is left of this one
	}
	for first := on.o.Stack.Gateway.Port; on.o.Stack.Gateway.Port <= maxPort; on.o.Stack.Gateway.Port++ {
		ln, err := net.Listen("tcp", claim.Address(on.o.Stack.Gateway))
		if err == nil {
			return &on, ln.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			on.o.Stack.Gateway.Port = first // where that is said, and what to do
			return &on, nil
		}
	}
	return nil, fault.New(fault.Environment, "set gateway.port in flisk.yaml to a lower one",
		"there is no free port for instance %q", d.o.Stack.Instance)
}

// rememberedPort is what is remembered of the port.
func (d *Driver) rememberedPort() int {
	if d.o.Stack.Instance == "" {
		return 0
	}
	return d.o.Stack.Gateway.Port
}
