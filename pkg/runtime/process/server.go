package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/stack"
)

// handler is the control API.
func (s *supervisor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathObserve, func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, s.observe(), nil)
	})
	handle(mux, pathStart, s.start)
	handle(mux, pathAwait, s.await)
	handle(mux, pathSwitch, s.switchRoutes)
	handle(mux, pathStop, s.stop)
	handle(mux, pathSignal, s.signal)
	handle(mux, pathShutdown, func(_ context.Context, r stopRequest) (struct{}, error) {
		s.shutdown(r.Force)
		return struct{}{}, nil
	})
	return mux
}

// handle serves one call: a request decoded, an answer or a fault encoded.
func handle[Request, Reply any](mux *http.ServeMux, path string, do func(context.Context, Request) (Reply, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var request Request
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			answerJSON(w, nil, err)
			return
		}
		reply, err := do(r.Context(), request)
		answerJSON(w, reply, err)
	})
}

func answerJSON(w http.ResponseWriter, reply any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		reply = toWire(err)
	}
	_ = json.NewEncoder(w).Encode(reply) // the driver may be gone
}

func (s *supervisor) observe() observeReply {
	s.mu.Lock()
	reply := observeReply{
		Gateway: claim.Address(s.settings.Gateway),
		URL:     s.settings.Gateway.URL(),
		Routes:  s.routes,
		Serve:   s.serve,
		Ending:  s.isEnding(),
	}
	serving := map[runtime.Ref]bool{}
	for _, a := range s.serve.Agents {
		for _, ref := range a.Serve {
			serving[ref] = true
		}
	}
	s.mu.Unlock()
	for _, k := range s.all() {
		r := k.observe()
		if r.Serving = serving[k.Ref]; r.State == runtime.Ready && !r.Serving {
			r.State = runtime.Waiting
			r.Detail = "it is ready, and gets no requests: an up goes on right now, or was killed; flisk up finishes it"
		}
		reply.Replicas = append(reply.Replicas, r)
		if k.isStopping() {
			reply.Stopping = append(reply.Stopping, k.Ref)
		}
		reply.Grace = max(reply.Grace, k.Grace)
	}
	slices.SortFunc(reply.Replicas, byName)
	return reply
}

func (s *supervisor) start(_ context.Context, r startRequest) (struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isEnding() {
		return struct{}{}, errEnding()
	}
	if slices.ContainsFunc(s.keepers, func(k *keeper) bool { return k.Ref == r.Ref }) {
		return struct{}{}, fault.New(fault.Failed, "", "replica %s is there already", r.Ref)
	}
	log, err := s.logOf(r.Agent)
	if err != nil {
		return struct{}{}, err
	}
	k := newKeeper(r, s.dir, log, s.say, s)
	s.keepers = append(s.keepers, k)
	s.keeping.Go(func() {
		k.run()
		s.forget(k)
		close(k.done)
	})
	return struct{}{}, nil
}

func (s *supervisor) isEnding() bool {
	select {
	case <-s.ending:
		return true
	default:
		return false
	}
}

func errEnding() error {
	return fault.New(fault.Failed, "try again when it has stopped", "the gateway's process is shutting down")
}

// logOf returns the log of an agent. The caller holds mu.
func (s *supervisor) logOf(agent string) (*logFile, error) {
	if l, ok := s.logs[agent]; ok {
		return l, nil
	}
	l, err := openLog(s.place.agentLog(agent), maxLogFile)
	if err == nil {
		s.logs[agent] = l
	}
	return l, err
}

func (s *supervisor) forget(k *keeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepers = slices.DeleteFunc(s.keepers, func(other *keeper) bool { return other == k })
}

func (s *supervisor) await(ctx context.Context, r awaitRequest) (awaitReply, error) {
	k, ok := s.find(r.Ref)
	if !ok {
		return awaitReply{}, errNoReplica(r.Ref)
	}
	return k.await(ctx, r.Within, r.Again)
}

// switchRoutes makes exactly these generations serve. On its return the gateway
// gives no request to any other.
func (s *supervisor) switchRoutes(_ context.Context, r switchRequest) (struct{}, error) {
	for _, a := range r.Agents {
		for _, ref := range a.Serve {
			if _, ok := s.find(ref); !ok {
				return struct{}{}, errNoReplica(ref)
			}
		}
	}
	s.mu.Lock()
	s.serve = r
	s.mu.Unlock()
	s.changed()
	return struct{}{}, nil
}

// changed works out the table from what shall serve and is ready, and gives it
// to the gateway. An agent without a ready replica stays in it: its requests
// are held, not refused.
func (s *supervisor) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	routes := stack.Routes{Hosts: s.serve.Hosts}
	for _, a := range s.serve.Agents {
		route := stack.Route{Agent: a.Agent, MaxBody: a.MaxBody}
		for _, ref := range a.Serve {
			for _, k := range s.keepers {
				if e, ok := k.serving(); ok && k.Ref == ref {
					route.Endpoints = append(route.Endpoints, e)
				}
			}
		}
		routes.Agents = append(routes.Agents, route)
	}
	if hash := routes.Hash(); hash != s.routes {
		s.gateway.SetRoutes(routes)
		s.routes = hash
	}
}

func (s *supervisor) letGo(e stack.Endpoint) (gone bool) {
	ctx, cancel := context.WithTimeout(context.Background(), letGoTime)
	defer cancel()
	return s.gateway.Drained(ctx, e.Replica) == nil // what is in flight after that is the drain's
}

// stop ends a replica for good. That there is none is what was asked for: a
// second call, which forces the first, may come when it is done.
func (s *supervisor) stop(ctx context.Context, r stopRequest) (stopReply, error) {
	k, ok := s.find(r.Ref)
	if !ok {
		return stopReply{Exit: "had ended"}, nil
	}
	k.stop(r.Grace)
	if r.Force {
		k.force()
	}
	select {
	case <-ctx.Done():
		return stopReply{}, context.Cause(ctx)
	case <-k.done:
		return k.stopped(), nil
	}
}

// signal sends a signal to every process of an agent at once. What happened to
// some of them is told even when the answer for another is an error.
func (s *supervisor) signal(ctx context.Context, r signalRequest) ([]runtime.Change, error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var changes []runtime.Change
	var errs []error
	for _, k := range s.all() {
		if k.Agent != r.Agent || k.isStopping() { // nothing takes the place of that one
			continue
		}
		all.Go(func() {
			change, ok, err := k.signal(ctx, r.Signal)
			mu.Lock()
			defer mu.Unlock()
			if errs = append(errs, err); ok && err == nil {
				changes = append(changes, change)
			}
		})
	}
	all.Wait()
	slices.SortFunc(changes, func(a, b runtime.Change) int {
		return cmp.Or(len(a.Replica)-len(b.Replica), cmp.Compare(a.Replica, b.Replica))
	})
	return changes, errors.Join(errs...)
}

func (s *supervisor) all() []*keeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.keepers)
}

func (s *supervisor) find(r runtime.Ref) (*keeper, bool) {
	for _, k := range s.all() {
		if k.Ref == r {
			return k, true
		}
	}
	return nil, false
}

func errNoReplica(r runtime.Ref) error {
	return fault.New(fault.Failed, "", "there is no replica %s", r)
}

func byName(a, b runtime.Replica) int {
	return cmp.Or(cmp.Compare(a.Agent, b.Agent), len(a.Name)-len(b.Name), cmp.Compare(a.Name, b.Name), a.Generation-b.Generation)
}
