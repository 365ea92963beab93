package agent

import (
	"net"
	"net/http"
	"strconv"
	"strings"
)

// hostAllowed is the guard against DNS rebinding: a page of some site can make
// its own name resolve to 127.0.0.1 and then is "same origin" with whatever
// listens there, but its requests still carry that name as their Host.
//
// Served are, exactly, the names in FLISK_HOSTS; on a TCP listener also the
// loopback names with the port of that listener; and on a Unix socket, which no
// browser can reach, "localhost" and the agent's own name, for the probes of a
// supervisor.
func (s *Server) hostAllowed(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	if s.hosts[host] {
		return true
	}
	switch local := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name, port = strings.Trim(host, "[]"), "80"
		}
		return port == strconv.Itoa(local.Port) && (name == "localhost" || name == "127.0.0.1" || name == "::1")
	case *net.UnixAddr:
		return host == "localhost" || host == s.env.Agent
	}
	return false
}
