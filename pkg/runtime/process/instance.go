package process

import (
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

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
	running := ""
	switch {
	case l.answer != nil:
		running = l.answer.Gateway
	case l.exists && known.Port != 0:
		on.o.Stack.Gateway.Port = known.Port // whoever has it is most likely what is left of this one
		return &on, nil
	}
	on.o.Stack.Gateway.Port, err = claim.InstancePort(d.o.Stack, running, known.Port)
	return &on, err
}

// rememberedPort is what is remembered of the port.
func (d *Driver) rememberedPort() int {
	if d.o.Stack.Instance == "" {
		return 0
	}
	return d.o.Stack.Gateway.Port
}
