// Package claim is how a runtime gets hold of what there is only one of on this
// machine: the gateway's port, and a project to change.
package claim

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
)

// Address is where a gateway listens, "host:port".
func Address(g stack.Gateway) string { return net.JoinHostPort(g.Bind, strconv.Itoa(g.Port)) }

// OtherPort is what always helps against a port that cannot be had.
const OtherPort = "set gateway.port in flisk.yaml to a free one"

// Listen opens the gateway's listener, or says in words why that cannot be. It
// is also how a port is checked: whoever asks closes it again. The error of a port
// that is in use wraps EADDRINUSE.
func Listen(g stack.Gateway) (net.Listener, error) {
	ln, err := net.Listen("tcp", Address(g))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		holder, stop := byHolder(g.Port), "stop that, or "
		if holder == "" {
			stop = fmt.Sprintf("find out who has it (lsof -i :%d, perhaps as root), or ", g.Port)
		}
		if strings.Contains(holder, engineProxy) {
			holder, stop = " by a container", fmt.Sprintf("stop that (docker ps --filter publish=%d shows it), or ", g.Port)
		}
		f := fault.New(fault.Environment, stop+OtherPort, "port %d is in use%s", g.Port, holder)
		f.Err = err
		return nil, f
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.New(fault.Environment, OtherPort+", 1024 or above", "port %d may not be used by this user: %w", g.Port, err)
	case err != nil:
		return nil, fault.New(fault.Environment, "see gateway.bind and gateway.port in flisk.yaml", "cannot listen on %s: %w", Address(g), err)
	}
	return ln, nil
}

// engineProxy is the program with which a Docker engine listens for a container.
const engineProxy = "docker-proxy"

// byHolder is " by process 4711 (nc -lk 8080)", or "" when that is not known.
func byHolder(port int) string {
	pid, command := PortHolder(port)
	switch {
	case pid == 0:
		return ""
	case command == "":
		return fmt.Sprintf(" by process %d", pid)
	}
	return fmt.Sprintf(" by process %d (%s)", pid, command)
}
