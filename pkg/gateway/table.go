package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// table is a [stack.Routes] in use. Its maps do not change once it serves.
type table struct {
	hash     string
	hosts    map[string]bool
	routes   map[string]*route // by agent
	replicas map[stack.Endpoint]*replica
	replaced chan struct{} // closed when another table serves
}

// route is where one agent's requests go.
type route struct {
	agent    string
	maxBody  int64
	replicas []*replica
}

func newTable(routes stack.Routes) *table {
	t := &table{
		hash:     routes.Hash(),
		hosts:    make(map[string]bool),
		routes:   make(map[string]*route),
		replicas: make(map[stack.Endpoint]*replica),
		replaced: make(chan struct{}),
	}
	for _, host := range routes.Hosts {
		t.hosts[strings.ToLower(host)] = true // names of hosts have no case
	}
	return t
}

// SetRoutes puts a table in the place of the current one. When it returns, no
// request is given any more to an endpoint that the new table leaves out;
// requests that such an endpoint has are left to finish, and held requests are
// tried at once. An endpoint that stays keeps its connections. The caller may
// change routes afterwards.
func (g *Gateway) SetRoutes(routes stack.Routes) {
	t := newTable(routes)

	g.mu.Lock()
	old := g.table
	for _, r := range routes.Agents {
		to := &route{agent: r.Agent, maxBody: r.MaxBody}
		for _, endpoint := range r.Endpoints {
			rep, ok := old.replicas[endpoint]
			if !ok {
				rep = newReplica(endpoint, g.dial)
			}
			t.replicas[endpoint] = rep
			to.replicas = append(to.replicas, rep)
		}
		t.routes[r.Agent] = to
	}
	var unused []*replica
	for endpoint, rep := range old.replicas {
		switch {
		case t.replicas[endpoint] != nil:
		case rep.inFlight == 0:
			unused = append(unused, rep)
		default:
			g.draining[rep] = true
		}
	}
	g.table = t
	g.mu.Unlock()

	close(old.replaced)
	for _, rep := range unused {
		rep.retire()
	}
}

// errNobody means that no listed replica took the request, and that nothing of
// it was sent to any.
var errNobody = errors.New("no replica takes connections")

// acquire gives the call to the first replica in its order that is listed now
// and not among tried. The error is errNobody, or a problem when the agent has
// left the table.
func (g *Gateway) acquire(c *call, tried []*replica) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.routes = g.table.hash
	r, ok := g.table.routes[c.agent]
	if !ok {
		return turn.Problemf(turn.NotFound, "there is no agent %q any more", c.agent)
	}
	rep := first(r.replicas, c.key, tried)
	if rep == nil {
		return errNobody
	}
	rep.inFlight++
	c.replica = rep
	return nil
}

// release takes the call from its replica, if it has one.
func (g *Gateway) release(c *call) {
	rep := c.replica
	if rep == nil {
		return
	}
	c.replica = nil

	g.mu.Lock()
	rep.inFlight--
	last := rep.inFlight == 0 && g.draining[rep]
	if last {
		delete(g.draining, rep)
	}
	g.mu.Unlock()
	if last {
		rep.retire()
	}
}

// Drained waits until the gateway uses no endpoint of the replica any more:
// every answer is copied to its client, and idle connections are closed. A
// replica that the gateway never had is drained. It is an error to ask for one
// that the table lists; when ctx ends first the error wraps its cause.
func (g *Gateway) Drained(ctx context.Context, name string) error {
	g.mu.Lock()
	listed := false
	for endpoint := range g.table.replicas {
		listed = listed || endpoint.Replica == name
	}
	var busy []*replica
	for rep := range g.draining {
		if rep.endpoint.Replica == name {
			busy = append(busy, rep)
		}
	}
	g.mu.Unlock()

	if listed {
		return fmt.Errorf("replica %q is in the route table and gets requests", name)
	}
	for _, rep := range busy {
		select {
		case <-rep.retired:
		case <-ctx.Done():
			return fmt.Errorf("replica %q still has requests in flight: %w", name, context.Cause(ctx))
		}
	}
	return nil
}
