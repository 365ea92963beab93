package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// bodySlack is what a body may have beyond its route's limit before the gateway
// refuses it: near the limit the agent's own answer is the more precise one.
const bodySlack = 4 << 10

// Options are the limits of a gateway. A field that is zero takes its default.
type Options struct {
	HoldTime time.Duration // how long a request waits for a replica that takes it; 30 s
	HoldMax  int           // how many requests of one agent wait at once; 256
	Redial   time.Duration // pause before replicas that refused a held request are dialled again; 50 ms
	DialTime time.Duration // how long one dial may take; 1 s
	BodyTime time.Duration // how long a client may take to send its body; 30 s
	Grace    time.Duration // how long a stopping gateway lets requests in flight go on; 150 s
	Log      *slog.Logger  // hears of lost agents and broken connections; nobody
}

func (o Options) withDefaults() Options {
	o.HoldTime = cmp.Or(o.HoldTime, 30*time.Second)
	o.HoldMax = cmp.Or(o.HoldMax, 256)
	o.Redial = cmp.Or(o.Redial, 50*time.Millisecond)
	o.DialTime = cmp.Or(o.DialTime, time.Second)
	o.BodyTime = cmp.Or(o.BodyTime, 30*time.Second)
	o.Grace = cmp.Or(o.Grace, 150*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// dialFunc is net.Dialer.DialContext.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Gateway is a proxy with a route table. It is an [http.Handler]; as such it
// serves requests, but only [Gateway.Serve] bounds connections and stops.
type Gateway struct {
	opts    Options
	proxy   *httputil.ReverseProxy
	dial    dialFunc
	stopped context.Context // done once held requests are given up
	stop    context.CancelFunc

	mu       sync.Mutex
	table    *table
	draining map[*replica]bool // no longer listed, with requests in flight
	lines    map[string]*line  // by agent
	keyless  uint64            // requests without a session so far
}

// New makes a gateway with an empty table: it refuses every request until
// SetRoutes was called.
func New(opts Options) *Gateway {
	opts = opts.withDefaults()
	g := &Gateway{
		opts:     opts,
		dial:     (&net.Dialer{Timeout: opts.DialTime}).DialContext,
		table:    newTable(stack.Routes{}),
		draining: make(map[*replica]bool),
		lines:    make(map[string]*line),
	}
	g.stopped, g.stop = context.WithCancel(context.Background())
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      roundTripper(g.forward),
		FlushInterval:  -1, // streams pass as they come
		BufferPool:     &buffers{},
		ModifyResponse: stamp,
		ErrorHandler:   g.fail,
		ErrorLog:       slog.NewLogLogger(opts.Log.Handler(), slog.LevelWarn),
	}
	return g
}

// call is what the gateway knows about one request on its way through. One
// goroutine uses it, the request's.
type call struct {
	agent   string
	session string // as the client sent it
	key     string // decides the order in which replicas are tried
	body    []byte
	hold    bool // may wait for a replica

	routes  string   // hash of the table that it was last looked up in
	replica *replica // who has it; released when the answer is copied
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// ServeHTTP refuses the request or passes it on to a replica, and returns when
// the answer is copied. It panics with [http.ErrAbortHandler] when the client is
// gone or the answer breaks off.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	t := g.table
	g.mu.Unlock()

	route, problem := t.admit(r)
	if problem != nil {
		answer(w, t.hash, problem)
		return
	}
	body, problem := readBody(w, r, route.maxBody+bodySlack, g.opts.BodyTime)
	if problem != nil {
		answer(w, t.hash, problem)
		return
	}

	c := &call{
		agent:   route.agent,
		session: r.Header.Get(turn.HeaderSession),
		body:    body,
		hold:    r.URL.Path != turn.AgentReadyPath(route.agent),
	}
	if c.key = c.session; c.key == "" {
		c.key = g.spread()
	}
	defer g.release(c)

	in := r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	in.Body, in.ContentLength = http.NoBody, int64(len(body)) // forward sends c.body
	in.TransferEncoding, in.Trailer = nil, nil
	g.proxy.ServeHTTP(w, in)
}

// admit names the route of a request, or says why there is none.
func (t *table) admit(r *http.Request) (*route, *turn.Problem) {
	if !t.hosts[strings.ToLower(r.Host)] {
		return nil, turn.Problemf(turn.HostRefused, "the Host header names none of this gateway's hosts")
	}
	// The agent is read from the path as it was sent, where an escape is no
	// part of a name, and a path that means another one than it says is not
	// passed on: an agent must not see what was routed by a different reading.
	agent, ok := turn.AgentOf(r.URL.EscapedPath())
	if !ok || !cleanPath(r.URL.Path) {
		return nil, turn.Problemf(turn.NotFound, "paths here begin with /api/<agent>/")
	}
	route, ok := t.routes[agent]
	if !ok {
		return nil, turn.Problemf(turn.NotFound, "there is no agent %q", agent)
	}
	if len(r.Header["Upgrade"]) > 0 {
		return nil, turn.Problemf(turn.BadRequest, "connections are not upgraded to another protocol here")
	}
	return route, nil
}

// cleanPath reports whether p has no empty, "." or ".." segment; a slash at the
// end is allowed.
func cleanPath(p string) bool {
	clean := path.Clean(p)
	return p == clean || p == clean+"/"
}

// spread returns a key of its own for each request that belongs to no session.
func (g *Gateway) spread() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keyless++
	return strconv.FormatUint(g.keyless, 10)
}

// fail answers a request that no replica answered.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody is left to be answered
	}
	c := callOf(r.Context())
	problem, ok := errors.AsType[*turn.Problem](err)
	if !ok {
		problem = turn.Problemf(turn.AgentLost, "agent %q had the request and gave no answer", c.agent)
		g.opts.Log.Warn("agent lost", "agent", c.agent, "replica", c.replica.endpoint.Replica, "error", err)
	}
	if turn.CheckSessionID(c.session) == nil {
		problem.SessionID = c.session
	}
	answer(w, c.routes, problem)
}

// answer writes a problem of the gateway's own.
func answer(w http.ResponseWriter, routes string, p *turn.Problem) {
	w.Header().Set(turn.HeaderRoutes, routes)
	p.Write(w)
}

// buffers recycles the memory that answers are copied through.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buf []byte) { b.pool.Put(&buf) }
