package dockertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/api/types/volume"
)

// Options of an engine. The zero value is an engine of API 1.44 without images.
type Options struct {
	API  string // "1.41", "1.44" or "1.52"; "" is "1.44"
	ID   string // of the engine; "" is one of its own
	Arch string // as in GOARCH; "" is this machine's

	// Images are there from the start.
	Images []Image

	// Registry is what can be pulled, by reference.
	Registry map[string]Pullable

	// Build makes the program of an image that is built from a context. Without
	// it a build is not played.
	Build func(BuildRequest) (BuildResult, error)

	// CancelKills plays the engines 23.0 to 24.0 (moby/moby#45731): a stop whose
	// client leaves becomes a SIGKILL at once.
	CancelKills bool
}

// announced are the versions of the real engines that are played.
var announced = map[string]struct{ engine, oldest string }{
	"1.41": {"20.10.24", "1.12"},
	"1.44": {"25.0.5", "1.24"},
	"1.52": {"29.0.0", "1.44"},
}

// Engine is one that runs. It ends with its test, and so does all that it
// started.
type Engine struct {
	t      testing.TB
	o      Options
	dir    string // holds the socket, volumes, programs
	ctx    context.Context
	server *http.Server
	wg     sync.WaitGroup // everything that runs: requests, containers

	mu         sync.Mutex
	calls      []*Call
	failures   []*Failure
	ignored    []string
	containers map[string]*container // by id
	images     []*image
	networks   []*network.Inspect
	volumes    map[string]*volume.Volume
	execs      map[string]*execution
	changed    chan struct{} // closed and replaced at each change of a container's state
	events     []events.Message
}

// Start starts an engine.
func Start(t testing.TB, o Options) *Engine {
	t.Helper()
	if o.API == "" {
		o.API = "1.44"
	}
	if _, ok := announced[o.API]; !ok {
		t.Fatalf("dockertest plays no API %q", o.API)
	}
	if o.ID == "" {
		o.ID = newID()[:24]
	}
	// Sockets have short names, and t.TempDir has the test's name in it.
	dir, err := os.MkdirTemp("/tmp", "dt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{
		t: t, o: o, dir: dir, ctx: ctx,
		containers: map[string]*container{}, volumes: map[string]*volume.Volume{},
		execs: map[string]*execution{}, changed: make(chan struct{}),
	}
	for _, name := range []string{"bridge", "host", "none"} {
		e.networks = append(e.networks, &network.Inspect{ID: newID(), Name: name, Driver: name, Scope: "local", Created: time.Now()})
	}
	for _, i := range o.Images {
		e.AddImage(i)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	e.server = &http.Server{Handler: e.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = e.server.Serve(listener) // ends with Close
	}()
	t.Cleanup(func() {
		e.endAll(cancel)
		_ = e.server.Close() // the listener with it; what is left of the requests ends with ctx
		<-served
		e.wg.Wait()
	})
	return e
}

// Host is the engine's address, for DOCKER_HOST.
func (e *Engine) Host() string { return "unix://" + filepath.Join(e.dir, "s") }

// ID is the engine's id.
func (e *Engine) ID() string { return e.o.ID }

// AddImage makes an image that nobody loaded.
func (e *Engine) AddImage(i Image) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tag(i.image(), i.Ref)
}

// AddVolume makes a volume that nobody asked for by the API, of somebody else
// when it has no label of the project.
func (e *Engine) AddVolume(name string, labels map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.makeVolume(name, labels); err != nil {
		e.t.Error(err)
	}
}

// VolumeDir is where a volume's data is on this machine; "" when there is no
// such volume.
func (e *Engine) VolumeDir(name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.volumes[name]; v != nil {
		return v.Mountpoint
	}
	return ""
}

// Volumes are the names of all volumes, sorted.
func (e *Engine) Volumes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for name := range e.volumes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Networks are the names of all networks but the engine's own, sorted.
func (e *Engine) Networks() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for _, n := range e.networks[3:] {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// ContainerState is a container as a test wants to see it.
type ContainerState struct {
	ID, Name, Image string
	Status          string // "created", "running", "restarting", "exited"
	ExitCode        int
	Restarts        int
	PID             int
	Labels          map[string]string
	Env             []string // as it was created
}

// Containers are all containers, by name.
func (e *Engine) Containers() []ContainerState {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []ContainerState
	for _, c := range e.containers {
		out = append(out, ContainerState{
			ID: c.id, Name: c.name, Image: c.request.Image, Status: string(c.status()), ExitCode: c.exitCode,
			Restarts: c.restarts, PID: c.pid(), Labels: c.request.Labels, Env: c.request.Env,
		})
	}
	slices.SortFunc(out, func(a, b ContainerState) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// Ignored are the fields of requests that an engine of this version would have
// ignored without a word: "Healthcheck.StartInterval".
func (e *Engine) Ignored() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ignored)
}

// knows reports whether an engine of this version has what came with another.
func (e *Engine) knows(version string) bool {
	return versions.GreaterThanOrEqualTo(e.o.API, version)
}

// announce tells everybody who waits that a container changed. e.mu is held.
func (e *Engine) announce() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// until waits for a condition on the engine's state, which it checks under the
// lock. It is false when a context ended first.
func (e *Engine) until(ctx context.Context, ok func() bool) bool {
	for {
		e.mu.Lock()
		met, changed := ok(), e.changed
		e.mu.Unlock()
		if met {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-e.ctx.Done():
			return false
		}
	}
}

func newID() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
