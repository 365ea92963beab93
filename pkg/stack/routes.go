package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Routes is the route table of a gateway: which replica serves which agent
// right now. The built-in proxy serves it, and Traefik's files are written from
// it.
type Routes struct {
	Hosts  []string // the Host values to serve; any other is refused
	Agents []Route
}

// Route sends the requests below an agent's path to its replicas.
type Route struct {
	Agent     string
	MaxBody   int64 // bytes; a larger request body is refused at the gateway
	Endpoints []Endpoint
}

// Endpoint is one replica's address, as net.Dial takes it.
type Endpoint struct {
	Replica string // unique name of the replica, of one generation
	Network string // "unix" or "tcp"
	Address string
}

// Hash identifies the table: the value of the flisk-routes response header.
func (r Routes) Hash() string {
	b, err := json.Marshal(r)
	if err != nil { // strings and numbers only
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// HostNames is the exact list of Host values that a gateway serves: the
// loopback names and its own address with its port, and what the project adds.
// Most clients leave port 80 out.
func (g Gateway) HostNames() []string {
	names := []string{"127.0.0.1", "localhost", "::1"}
	if !slices.Contains(names, g.Bind) {
		names = append(names, g.Bind)
	}
	var hosts []string
	for _, name := range names {
		host := net.JoinHostPort(name, strconv.Itoa(g.Port))
		hosts = append(hosts, host)
		if bare, ok := strings.CutSuffix(host, ":80"); ok {
			hosts = append(hosts, bare)
		}
	}
	return append(hosts, g.Hosts...)
}

// URL is the base URL that people and clients use.
func (g Gateway) URL() string {
	return "http://" + net.JoinHostPort(g.Bind, strconv.Itoa(g.Port))
}
