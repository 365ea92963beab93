package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

// nameContainer adds to the error of a port that is in use which container has it,
// where one has: the process that is seen to listen is the engine's own, and is not
// what to stop.
func (d *Driver) nameContainer(ctx context.Context, e *engine, err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, errPortTaken) {
		return err
	}
	port := d.o.Stack.Gateway.Port
	c, ok := e.publisher(ctx, port)
	if !ok {
		return err
	}
	name := strings.TrimPrefix(slices.Concat(c.Names, []string{short(c.ID)})[0], "/")
	of, stop := "", "docker stop "+name
	switch dir := c.Labels[composeDir]; {
	case c.Labels[labelProject] != "" && dir != "":
		of, stop = fmt.Sprintf(", of the flisk project in %q", dir), runtime.DownOf(dir, c.Labels[labelInstance])
	case dir != "":
		of = fmt.Sprintf(", of the Compose project in %q", dir)
	}
	named := *f
	named.Message = fmt.Sprintf("port %d is in use by the container %q%s", port, name, of)
	named.Hint = fmt.Sprintf("stop that (%s), or %s", stop, claim.OtherPort)
	return &named
}

// publisher finds the container, anybody's, that has a port of this machine. An
// engine that does not say has none.
func (e *engine) publisher(ctx context.Context, port int) (container.Summary, bool) {
	ctx, cancel := lookContext(context.WithoutCancel(ctx))
	defer cancel()
	list, err := e.api.ContainerList(ctx, container.ListOptions{})
	if err != nil {
		return container.Summary{}, false
	}
	i := slices.IndexFunc(list, func(c container.Summary) bool {
		return slices.ContainsFunc(c.Ports, func(p container.Port) bool { return int(p.PublicPort) == port && p.Type == "tcp" })
	})
	if i < 0 {
		return container.Summary{}, false
	}
	return list[i], true
}
