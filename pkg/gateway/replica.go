package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
)

// replica is one endpoint with connections of its own, so that they can be
// closed when it goes.
type replica struct {
	endpoint  stack.Endpoint
	transport *http.Transport
	inFlight  int           // guarded by Gateway.mu
	retired   chan struct{} // closed when nothing uses it any more
}

// dialError is a failed dial: the one failure after which a request can be sent
// elsewhere, since nothing of it was sent. Nothing else makes one.
type dialError struct{ err error }

func (e *dialError) Error() string { return fmt.Sprintf("dial: %v", e.err) }
func (e *dialError) Unwrap() error { return e.err }

func newReplica(endpoint stack.Endpoint, dial dialFunc) *replica {
	return &replica{
		endpoint: endpoint,
		retired:  make(chan struct{}),
		transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := dial(ctx, endpoint.Network, endpoint.Address)
				if err != nil {
					return nil, &dialError{err}
				}
				return conn, nil
			},
			// No limit on waiting for an answer: a turn may take minutes.
			DisableCompression:  true, // bytes pass as they are
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     30 * time.Second, // below any agent's own, which would race with a request
		},
	}
}

// retire closes the connections of a replica that has no request and gets none
// any more.
func (r *replica) retire() {
	r.transport.CloseIdleConnections()
	close(r.retired)
}

// first returns the replica with the highest score for key that is not among
// tried, or nil: rendezvous hashing. Each key has its own order of replicas, so
// when one goes only its own keys move, and they spread over all others.
func first(replicas []*replica, key string, tried []*replica) *replica {
	var best *replica
	var top uint64
	for _, r := range replicas {
		if slices.Contains(tried, r) {
			continue
		}
		if s := score(r.endpoint.Replica, key); best == nil || s > top {
			best, top = r, s
		}
	}
	return best
}

// score mixes FNV-1a once more: its high bits, which decide the order, hardly
// depend on the last characters.
func score(name, key string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, s := range []string{name, "\x00", key} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
