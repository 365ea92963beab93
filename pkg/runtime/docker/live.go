package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/traefik"
	"github.com/flisk-go/flisk/pkg/turn"
)

// live is what the gateway that flisk started serves. The file that Traefik reads
// says it in its first line, so that what serves and what is known to serve
// cannot differ, whatever was killed between two steps.
type live struct {
	Dir    string       `json:"dir"` // of the project
	Routes stack.Routes `json:"routes"`

	// Ending is from before the first stop of a down until nothing is left, or
	// until an up: what the table names and is not there was removed by flisk.
	Ending bool `json:"ending,omitempty"`
}

// liveLine begins the first line of the file. It is a comment to Traefik.
const liveLine = "# flisk: "

// readLive returns nil when there is no such file.
func (p place) readLive() (*live, error) {
	data, err := os.ReadFile(p.routes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	encoded, ok := strings.CutPrefix(first, liveLine)
	var l live
	if !ok || json.Unmarshal([]byte(encoded), &l) != nil {
		return nil, fault.New(fault.Environment, "flisk up writes them anew", "the live routes %q are not as flisk wrote them", p.routes())
	}
	return &l, nil
}

// Modes of what the gateway mounts. Its user is nobody of this machine; nothing
// in there is a secret.
const (
	sharedFile = 0o644
	sharedDir  = 0o755
)

// writeLive replaces the routes in one step.
func (p place) writeLive(l live) error {
	encoded, err := json.Marshal(l)
	if err != nil {
		return err
	}
	routes, err := traefik.Dynamic(l.Routes)
	if err != nil {
		return err
	}
	if err := p.makeShared(); err != nil {
		return err
	}
	return p.replace(p.routes(), slices.Concat([]byte(liveLine), encoded, []byte("\n"), routes))
}

// makeShared makes the directories that are mounted. One that is as it should be
// is left alone: see replace.
func (p place) makeShared() error {
	if err := os.MkdirAll(filepath.Dir(p.traefik), userOnly); err != nil {
		return err
	}
	for _, dir := range []string{p.traefik, p.dynamic()} {
		if err := os.MkdirAll(dir, sharedDir); err != nil {
			return err
		}
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm() != sharedDir {
			err = os.Chmod(dir, sharedDir) // whatever the umask
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replace puts a file into its place in one step. What it is written to before that
// is outside of the directory of the routes: Traefik takes any event there for a
// change, and waits for a while after each.
func (p place) replace(path string, content []byte) error { return replaceBy(p.traefik, path, content) }

// replaceBy puts a file into its place in one step, by way of another directory of
// the same file system.
func replaceBy(dir, path string, content []byte) error {
	f, err := os.CreateTemp(dir, ".next-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(sharedFile), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// alias is the one name that a generation is found by: no other container ever
// has it, so a route to it is a route to that generation.
func alias(ref runtime.Ref) string { return fmt.Sprintf("%s-g%03d", ref.Replica, ref.Generation) }

// routesTo is the table that makes exactly these generations serve.
func routesTo(s stack.Stack, serve []runtime.Ref) stack.Routes {
	r := stack.Routes{Hosts: s.InsideHosts()}
	for _, a := range s.Agents {
		route := stack.Route{Agent: a.Name, MaxBody: a.MaxBody}
		for _, ref := range serve {
			if ref.Agent == a.Name {
				route.Endpoints = append(route.Endpoints, stack.Endpoint{
					Replica: ref.String(), Network: "tcp", Address: net.JoinHostPort(alias(ref), strconv.Itoa(stack.AgentPort)),
				})
			}
		}
		r.Agents = append(r.Agents, route)
	}
	return r
}

// refs are the generations that a table has.
func (l *live) refs() (refs []runtime.Ref) {
	for _, route := range l.Routes.Agents {
		for _, e := range route.Endpoints {
			name, generation, _ := strings.Cut(e.Replica, ".")
			if n, err := strconv.Atoi(generation); err == nil {
				refs = append(refs, runtime.Ref{Agent: route.Agent, Replica: name, Generation: n})
			}
		}
	}
	return refs
}

// serves reports whether a table has a generation.
func (l *live) serves(ref runtime.Ref) bool {
	return l != nil && slices.ContainsFunc(l.Routes.Agents, func(route stack.Route) bool {
		return route.Agent == ref.Agent && slices.ContainsFunc(route.Endpoints, func(e stack.Endpoint) bool { return e.Replica == ref.String() })
	})
}

// alone reports whether a generation is the only one of its agent that serves.
func (l *live) alone(ref runtime.Ref) bool {
	return l.serves(ref) && slices.ContainsFunc(l.Routes.Agents, func(route stack.Route) bool {
		return route.Agent == ref.Agent && len(route.Endpoints) == 1
	})
}

// askTime bounds one question to the gateway: an answer that is late is asked for
// again, by the routes of then.
const askTime = time.Second

// ask asks for an agent's readiness as a client does. host is what a client has
// in its Host header, address where the gateway listens.
func ask(ctx context.Context, address, agent string) (status int, routes string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	// No connection is kept, and no proxy: it is this machine.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+turn.AgentReadyPath(agent), nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	_ = resp.Body.Close() // the status and a header are all that is wanted
	return resp.StatusCode, resp.Header.Get(turn.HeaderRoutes), nil
}
