package dockertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
)

// Call is one request that the engine got.
type Call struct {
	Op     string // "ContainerCreate", as the client's method is called
	Method string
	Path   string // without the version
	Query  url.Values
	Body   []byte // when it is JSON
	Status int    // of the answer; 0 while there is none
}

// Calls are all requests so far, in the order in which they came.
func (e *Engine) Calls() []Call {
	e.mu.Lock()
	defer e.mu.Unlock()
	var calls []Call
	for _, c := range e.calls {
		calls = append(calls, *c)
	}
	return calls
}

// Ops are the names of all requests so far that can change something.
func (e *Engine) Ops() []string {
	var ops []string
	for _, c := range e.Calls() {
		if c.Method != http.MethodGet && c.Method != http.MethodHead {
			ops = append(ops, c.Op)
		}
	}
	return ops
}

// ResetCalls forgets the requests so far.
func (e *Engine) ResetCalls() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = nil
}

// Failure is a request that fails though it need not.
type Failure struct {
	Op    string // of which operation; "" is any that can change something
	N     int    // which of them, from now on: 0 and 1 are the next
	After bool   // after it had its effect
	Drop  bool   // the connection breaks instead of an answer
	Cut   bool   // it has its effect, and the connection breaks in the middle of the answer
	// The answer otherwise; 0 is 500, "" says that the failure is injected.
	Status  int
	Message string
}

// Fail lets one request fail. Several failures are independent.
func (e *Engine) Fail(f Failure) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.N == 0 {
		f.N = 1
	}
	if f.After && f.Op == "ContainerExecStart" {
		e.t.Errorf("dockertest: %s cannot fail after its effect", f.Op)
	}
	e.failures = append(e.failures, &f)
}

// Forgive takes back the failures that hit nothing so far.
func (e *Engine) Forgive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures = nil
}

// failure is the one that hits this request, if there is one. e.mu is held.
func (e *Engine) failure(c Call) *Failure {
	var hit *Failure
	for _, f := range e.failures {
		if f.N > 0 && (f.Op == c.Op || f.Op == "" && c.Method != http.MethodGet && c.Method != http.MethodHead) {
			if f.N--; f.N == 0 && hit == nil {
				hit = f
			}
		}
	}
	return hit
}

// refusal is an answer that is not success.
type refusal struct {
	status  int
	message string
}

func (r refusal) Error() string { return r.message }

func refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Sprintf(format, args...)}
}

func notPlayed(what string) error {
	return refuse(http.StatusNotImplemented, "dockertest does not play %s", what)
}

// route is one operation.
type route struct {
	op     string
	method string
	path   string // as a pattern of http.ServeMux
	serve  func(w http.ResponseWriter, r *http.Request) error
}

func (e *Engine) routes() []route {
	return []route{
		{"Ping", "GET", "/_ping", e.ping},
		{"ServerVersion", "GET", "/version", e.version},
		{"Info", "GET", "/info", e.info},
		{"Events", "GET", "/events", e.systemEvents},

		{"ContainerCreate", "POST", "/containers/create", e.containerCreate},
		{"ContainerList", "GET", "/containers/json", e.containerList},
		{"ContainerInspect", "GET", "/containers/{id}/json", e.containerInspect},
		{"ContainerStart", "POST", "/containers/{id}/start", e.containerStart},
		{"ContainerStop", "POST", "/containers/{id}/stop", e.containerStop},
		{"ContainerKill", "POST", "/containers/{id}/kill", e.containerKill},
		{"ContainerPause", "POST", "/containers/{id}/pause", e.containerPause},
		{"ContainerUnpause", "POST", "/containers/{id}/unpause", e.containerUnpause},
		{"ContainerWait", "POST", "/containers/{id}/wait", e.containerWait},
		{"ContainerRename", "POST", "/containers/{id}/rename", e.containerRename},
		{"ContainerRemove", "DELETE", "/containers/{id}", e.containerRemove},
		{"ContainerLogs", "GET", "/containers/{id}/logs", e.containerLogs},
		{"CopyFromContainer", "GET", "/containers/{id}/archive", e.archiveGet},
		{"CopyToContainer", "PUT", "/containers/{id}/archive", e.archivePut},
		{"ContainerExecCreate", "POST", "/containers/{id}/exec", e.execCreate},
		{"ContainerExecStart", "POST", "/exec/{id}/start", e.execStart},
		{"ContainerExecInspect", "GET", "/exec/{id}/json", e.execInspect},

		{"ImageList", "GET", "/images/json", e.imageList},
		{"ImageInspect", "GET", "/images/{ref...}", e.imageInspect},
		{"ImageRemove", "DELETE", "/images/{ref...}", e.imageRemove},
		{"ImageTag", "POST", "/images/{ref...}", e.imageTag},
		{"ImageLoad", "POST", "/images/load", e.imageLoad},
		{"ImagePull", "POST", "/images/create", e.imagePull},
		{"ImageBuild", "POST", "/build", e.imageBuild},

		{"NetworkList", "GET", "/networks", e.networkList},
		{"NetworkInspect", "GET", "/networks/{id}", e.networkInspect},
		{"NetworkCreate", "POST", "/networks/create", e.networkCreate},
		{"NetworkRemove", "DELETE", "/networks/{id}", e.networkRemove},
		{"NetworkConnect", "POST", "/networks/{id}/connect", e.networkConnect},
		{"NetworkDisconnect", "POST", "/networks/{id}/disconnect", e.networkDisconnect},

		{"VolumeList", "GET", "/volumes", e.volumeList},
		{"VolumeInspect", "GET", "/volumes/{name}", e.volumeInspect},
		{"VolumeCreate", "POST", "/volumes/create", e.volumeCreate},
		{"VolumeRemove", "DELETE", "/volumes/{name}", e.volumeRemove},

		{"ContainersPrune", "POST", "/containers/prune", nil},
		{"ImagesPrune", "POST", "/images/prune", nil},
		{"NetworksPrune", "POST", "/networks/prune", nil},
		{"VolumesPrune", "POST", "/volumes/prune", nil},
		{"BuildCachePrune", "POST", "/build/prune", nil},
		{"Unknown", "", "/", nil},
	}
}

// handler finds the operation, writes the call down, and lets it fail where a
// test asked for that.
func (e *Engine) handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range e.routes() {
		serve := rt.serve
		if serve == nil {
			serve = func(_ http.ResponseWriter, r *http.Request) error { return notPlayed(r.Method + " " + r.URL.Path) }
		}
		mux.HandleFunc(strings.TrimSpace(rt.method+" "+rt.path), func(w http.ResponseWriter, r *http.Request) {
			e.serve(rt.op, serve, w, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !e.enter() {
			panic(http.ErrAbortHandler)
		}
		defer e.wg.Done()
		w.Header().Set("Api-Version", e.o.API)
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Builder-Version", "1")
		if e.knows("1.44") {
			w.Header().Set("Builder-Version", "2")
		}
		w.Header().Set("Server", "Docker/"+announced[e.o.API].engine+" (linux)")
		if rest, ok := strings.CutPrefix(r.URL.Path, "/v1."); ok {
			minor, path, _ := strings.Cut(rest, "/")
			if err := e.checkVersion("1." + minor); err != nil {
				answerError(w, err)
				return
			}
			r.URL.Path, r.URL.RawPath = "/"+path, ""
		}
		mux.ServeHTTP(w, r)
	})
}

// enter counts a request, unless the engine ends.
func (e *Engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return false
	}
	e.wg.Add(1)
	return true
}

func (e *Engine) checkVersion(asked string) error {
	oldest := announced[e.o.API].oldest
	switch {
	case versions.GreaterThan(asked, e.o.API):
		return refuse(http.StatusBadRequest, "client version %s is too new. Maximum supported API version is %s", asked, e.o.API)
	case versions.LessThan(asked, oldest):
		return refuse(http.StatusBadRequest, "client version %s is too old. Minimum supported API version is %s, please upgrade your client to a newer version", asked, oldest)
	}
	return nil
}

// maxBody bounds a JSON request.
const maxBody = 4 << 20

func (e *Engine) serve(op string, serve func(http.ResponseWriter, *http.Request) error, w http.ResponseWriter, r *http.Request) {
	call := Call{Op: op, Method: r.Method, Path: r.URL.Path, Query: r.URL.Query()}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		call.Body, _ = io.ReadAll(io.LimitReader(r.Body, maxBody)) // what is missing is an error of the JSON
		r.Body = io.NopCloser(bytes.NewReader(call.Body))
	}
	e.mu.Lock()
	e.calls = append(e.calls, &call)
	failing := e.failure(call)
	e.mu.Unlock()

	counted := &statusWriter{ResponseWriter: w}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		call.Status = counted.status
	}()
	if failing != nil && failing.Cut {
		if err := serve(cutWriter{counted}, r); err != nil {
			answerError(counted, err)
		}
		return
	}
	if failing != nil {
		if failing.After {
			if err := serve(httptest.NewRecorder(), r); err != nil {
				answerError(counted, err)
				return
			}
		}
		if failing.Drop {
			panic(http.ErrAbortHandler)
		}
		answerError(counted, failing.answer(op))
		return
	}
	if err := serve(counted, r); err != nil {
		answerError(counted, err)
	}
}

func (f Failure) answer(op string) error {
	r := refusal{f.Status, f.Message}
	if r.status == 0 {
		r.status = http.StatusInternalServerError
	}
	if r.message == "" {
		r.message = "injected failure of " + op
	}
	return r
}

// statusWriter remembers the status, and passes on what streams need.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func answerError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if r, ok := errors.AsType[refusal](err); ok {
		status = r.status
	}
	_ = answer(w, status, map[string]string{"message": err.Error()}) // the client left
}

func answer(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(body)
}

func noContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, "invalid JSON: %v", err)
	}
	return nil
}

func (e *Engine) ping(w http.ResponseWriter, _ *http.Request) error {
	_, err := io.WriteString(w, "OK")
	return err
}

func (e *Engine) arch() string {
	if e.o.Arch != "" {
		return e.o.Arch
	}
	return runtime.GOARCH
}

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) error {
	of := announced[e.o.API]
	return answer(w, http.StatusOK, types.Version{
		Version: of.engine, APIVersion: e.o.API, MinAPIVersion: of.oldest, Os: "linux", Arch: e.arch(),
	})
}

func (e *Engine) info(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, system.Info{
		ID: e.o.ID, Name: "dockertest", OperatingSystem: "a test", OSType: "linux", Architecture: e.arch(),
		DockerRootDir: e.dir, NCPU: 2, MemTotal: 1 << 30, ServerVersion: announced[e.o.API].engine,
		SecurityOptions: []string{"name=seccomp,profile=default"},
	})
}
