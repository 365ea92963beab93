package agent

import (
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Server answers an agent's HTTP endpoints. Give it a listener with
// [Server.Serve], or use it as an http.Handler in a server of your own and end
// it with [Server.Close].
type Server struct {
	env      turn.Env
	store    checkpoint.Store
	engine   *engine
	log      *slog.Logger
	hosts    map[string]bool
	origin   *http.CrossOriginProtection
	bodies   bodies
	draining atomic.Bool // not ready any more
	closing  atomic.Bool // no connection is kept any more
}

// NewServer makes a server that runs run on the sessions of store. Of env it
// uses Agent, Hosts, Code, Verify, Drain, Linger, TurnTimeout, OnBusy,
// RequireSession and MaxBody; begin with [turn.DefaultEnv]. The store stays the
// caller's to close, after the server.
func NewServer[S any](run Func[S], store checkpoint.Store, env turn.Env, log *slog.Logger) *Server {
	s := &Server{
		env:    env,
		store:  store,
		engine: newEngine(store, newProgram(run), env, log),
		log:    log,
		hosts:  map[string]bool{},
		origin: http.NewCrossOriginProtection(),
		bodies: bodies{arriving: map[*body]struct{}{}},
	}
	for _, h := range env.Hosts {
		s.hosts[strings.ToLower(strings.TrimSpace(h))] = true
	}
	return s
}

// Close ends the server without a drain: turns that wait are sent away with
// 503, running ones have their context cancelled. It returns when the last
// runTurn has.
func (s *Server) Close() {
	s.draining.Store(true)
	s.engine.stop()
	s.engine.flights.join()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		defer s.bodies.begin(w, r)()
	}
	if s.env.Code != "" {
		w.Header().Set(turn.HeaderCode, s.env.Code)
	}
	if !s.hostAllowed(r) {
		s.fail(w, turn.Problemf(turn.HostRefused, "use a loopback name with the port, or list the host in gateway.hosts"))
		return
	}
	if err := s.origin.Check(r); err != nil {
		s.fail(w, turn.Problemf(turn.HostRefused, "a page of another origin asked for this"))
		return
	}
	rt, ok := s.route(r.URL.EscapedPath())
	if !ok {
		s.fail(w, &turn.Problem{Code: turn.NotFound})
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http leaves the body out
	}
	handle := rt.methods[method]
	if handle == nil {
		w.Header().Set("Allow", rt.allow())
		s.fail(w, turn.Problemf(turn.BadMethod, "use %s", rt.allow()))
		return
	}
	handle(w, r, rt.id)
}

// route is what is served at one path.
type route struct {
	id      string // the last segment, where it names something
	methods map[string]func(w http.ResponseWriter, r *http.Request, id string)
}

func (rt route) allow() string {
	var allow []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if rt.methods[m] != nil {
			allow = append(allow, m)
			if m == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
		}
	}
	return strings.Join(allow, ", ")
}

// route reads a path by hand: http.ServeMux answers unclean paths with a
// redirect, and here every path that is not served is a problem.
func (s *Server) route(path string) (route, bool) {
	type methods = map[string]func(http.ResponseWriter, *http.Request, string)
	switch path {
	case turn.HealthPath:
		return route{methods: methods{http.MethodGet: s.getHealth}}, true
	case turn.ReadyPath, turn.AgentReadyPath(s.env.Agent):
		return route{methods: methods{http.MethodGet: s.getReady}}, true
	case turn.TurnPath(s.env.Agent):
		return route{methods: methods{http.MethodPost: s.postTurn}}, true
	case turn.SessionsPath(s.env.Agent):
		return route{methods: methods{http.MethodGet: s.getSessions}}, true
	}
	rest, ok := strings.CutPrefix(path, turn.AgentPath(s.env.Agent))
	if !ok {
		return route{}, false
	}
	kind, last, _ := strings.Cut(rest, "/")
	id, err := url.PathUnescape(last)
	if err != nil || last == "" || strings.Contains(last, "/") {
		return route{}, false
	}
	switch kind {
	case "turns":
		return route{id, methods{http.MethodGet: s.getTurn}}, true
	case "sessions":
		return route{id, methods{http.MethodGet: s.getSession, http.MethodDelete: s.deleteSession}}, true
	}
	return route{}, false
}

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request, _ string) {
	s.send(w, http.StatusOK, turn.Health{
		Agent:    s.env.Agent,
		Contract: turn.Contract,
		Code:     s.env.Code,
		Replica:  s.store.Info().Replica,
		PID:      os.Getpid(),
		Draining: s.draining.Load(),
		InFlight: s.engine.flights.count(),
	})
}

// getReady does no I/O. The store was probed before the server was made, so
// only a drain makes an agent unready.
func (s *Server) getReady(w http.ResponseWriter, _ *http.Request, _ string) {
	ready := turn.Ready{Ready: true, Store: "read-write"}
	if !s.store.Info().Writable {
		ready.Store = "read-only"
	}
	status := http.StatusOK
	if s.draining.Load() {
		ready.Ready, ready.Reason = false, "draining"
		status = http.StatusServiceUnavailable
	}
	s.send(w, status, ready)
}
