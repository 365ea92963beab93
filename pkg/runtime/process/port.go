package process

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack"
)

func address(g stack.Gateway) string { return net.JoinHostPort(g.Bind, strconv.Itoa(g.Port)) }

// otherPort is what always helps against a port that cannot be had.
const otherPort = "set gateway.port in flisk.yaml to a free one"

// listen opens the gateway's listener, or says in words why that cannot be. It
// is also how a port is checked: whoever asks closes it again.
func listen(g stack.Gateway) (net.Listener, error) {
	ln, err := net.Listen("tcp", address(g))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		holder, stop := byHolder(g.Port), "stop that, or "
		if holder == "" {
			stop = fmt.Sprintf("find out who has it (lsof -i :%d, perhaps as root), or ", g.Port)
		}
		f := fault.New(fault.Environment, stop+otherPort, "port %d is in use%s", g.Port, holder)
		f.Err = err
		return nil, f
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.New(fault.Environment, otherPort+", 1024 or above", "port %d may not be used by this user: %w", g.Port, err)
	case err != nil:
		return nil, fault.New(fault.Environment, "see gateway.bind and gateway.port in flisk.yaml", "cannot listen on %s: %w", address(g), err)
	}
	return ln, nil
}

// nameProject adds to the error of listen which project of this user has the port,
// where it is one: its directory says more than a process of flisk.
func (d *Driver) nameProject(err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	runs, _ := os.ReadDir(d.place.base) // what cannot be read names nobody
	for _, run := range runs {
		other := place{run: filepath.Join(d.place.base, run.Name())}
		s, err := other.settings()
		if err != nil || s.Gateway.Port != d.o.Stack.Gateway.Port {
			continue
		}
		id, recorded := other.supervisor()
		if alive, err := id.Alive(); !recorded || err != nil || !alive {
			continue
		}
		named := *f
		named.Message = fmt.Sprintf("port %d is in use by the project in %q", s.Gateway.Port, s.Serve.Dir)
		named.Hint = fmt.Sprintf("stop that (%s), or %s", downOf(s.Serve.Dir, s.Instance), otherPort)
		return &named
	}
	return err
}

// byHolder is " by process 4711 (nc -lk 8080)", or "" when that is not known.
func byHolder(port int) string {
	pid, command := portHolder(port)
	switch {
	case pid == 0:
		return ""
	case command == "":
		return fmt.Sprintf(" by process %d", pid)
	}
	return fmt.Sprintf(" by process %d (%s)", pid, command)
}
