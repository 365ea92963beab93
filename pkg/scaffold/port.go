package scaffold

import (
	"errors"
	"net"
	"strconv"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
)

// portsTried bounds the search: when so many neighbours are taken, something is
// wrong that another port would not mend.
const portsTried = 200

// freePort is the first port from a given one that nobody listens on. It may be
// taken again a moment later: `up` says so then.
func freePort(from int) (int, error) {
	var last error
	for port := from; port < from+portsTried && port <= 65535; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		if last = err; !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
			break
		}
	}
	return 0, fault.New(fault.Environment, "free one of them", "found no free port from %d on: %w", from, last)
}
