package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Times of one call to the engine. A busy machine needs seconds for what takes
// milliseconds otherwise, and an engine that hangs must not hang flisk.
const (
	pingBudget   = 10 * time.Second
	lookBudget   = 30 * time.Second
	changeBudget = 2 * time.Minute
)

// minAPI is the oldest version of the API that flisk speaks: Docker 20.10.
const minAPI = "1.41"

// engine is a connection to a Docker engine. Its methods may be called at once.
// Their errors are faults: of kind Environment when the engine does not answer,
// of kind Failed when it refuses.
type engine struct {
	api      *client.Client
	endpoint Endpoint
	facts    facts
	warnings []string // for people, once a command
	names    sync.Map // of containers by their ids, as last heard; for errors only
	labels   sync.Map // of images by their ids: map[string]string
}

// facts are what an engine tells of itself.
type facts struct {
	ID       string // of the engine: another one has other volumes
	Name     string // of its host
	Version  string // "20.10.24"
	API      string // the version that is spoken: the older of the engine's and the client's
	MaxAPI   string // the newest that the engine speaks
	MinAPI   string // the oldest; "" when it does not say
	OS       string // "linux"
	Arch     string // as in GOARCH
	System   string // of its host, for people: "Debian GNU/Linux 12"
	Root     string // the directory of its data, on its host
	CPUs     int
	Memory   int64    // bytes
	Security []string // "seccomp", "rootless", "userns" …
}

// connect asks the engine who it is. DOCKER_API_VERSION, when set, is the
// version to speak, and turns negotiation off.
func connect(ctx context.Context, endpoint Endpoint, apiVersion string) (*engine, error) {
	e := &engine{endpoint: endpoint}
	tlsConfig, err := endpoint.tls.config(endpoint.Host)
	if err != nil {
		return nil, fault.New(fault.Environment, "", "cannot read the certificates for the Docker engine at %q (%s): %w", endpoint.Host, endpoint.Why, err)
	}
	// No timeout of the client: it would cut stops, logs and builds.
	opts := []client.Opt{
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig}, CheckRedirect: client.CheckRedirect}),
		client.WithHost(endpoint.Host),
		client.WithUserAgent("flisk"),
	}
	if apiVersion != "" {
		opts = append(opts, client.WithVersion(apiVersion))
		e.warnings = append(e.warnings, fmt.Sprintf("DOCKER_API_VERSION=%s turns the negotiation of the API version off", apiVersion))
	} else {
		opts = append(opts, client.WithAPIVersionNegotiation())
	}
	if e.api, err = client.NewClientWithOpts(opts...); err != nil {
		return nil, fault.New(fault.Usage, "", "cannot use the Docker engine at %q (%s): %w", endpoint.Host, endpoint.Why, err)
	}
	if err := e.meet(ctx); err != nil {
		_ = e.close() // the error before it says more
		return nil, err
	}
	return e, nil
}

// meet is the first conversation: one ping, and the engine's facts.
func (e *engine) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingBudget)
	defer cancel()
	ping, err := e.api.Ping(ctx)
	if err != nil {
		return e.unreachable(err)
	}
	e.api.NegotiateAPIVersionPing(ping)
	if ping.APIVersion != "" && versions.LessThan(ping.APIVersion, minAPI) {
		return fault.New(fault.Environment, "update Docker to 20.10 or newer, or "+OtherRuntime,
			"the Docker engine at %q speaks API %s, and flisk needs %s", e.endpoint.Host, ping.APIVersion, minAPI)
	}
	version, err := e.api.ServerVersion(ctx)
	if err != nil {
		return e.unreachable(err)
	}
	info, err := e.api.Info(ctx)
	if err != nil {
		return e.unreachable(err)
	}
	e.facts = facts{
		ID: info.ID, Name: info.Name, Version: version.Version,
		API: e.api.ClientVersion(), MaxAPI: version.APIVersion, MinAPI: version.MinAPIVersion,
		OS: version.Os, Arch: version.Arch, System: info.OperatingSystem, Root: info.DockerRootDir,
		CPUs: info.NCPU, Memory: info.MemTotal, Security: securityNames(info.SecurityOptions),
	}
	if e.facts.OS != "linux" {
		return fault.New(fault.Environment, "switch it to Linux containers, or "+OtherRuntime,
			"the Docker engine at %q runs %s containers, and flisk needs linux ones", e.endpoint.Host, e.facts.OS)
	}
	return nil
}

// close gives up the connections that idle.
func (e *engine) close() error { return e.api.Close() }

// speaks reports whether the version of the API that is spoken is at least this
// one.
func (e *engine) speaks(version string) bool {
	return versions.GreaterThanOrEqualTo(e.facts.API, version)
}

// lookContext is the context of a call that changes nothing.
func lookContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, lookBudget)
}

// change is the context of a call that changes something. It does not begin when
// ctx has ended, and is seen through when it has begun: the engine would go on
// with it in any case, and nobody would know what it made.
func change(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), budget)
	return ctx, cancel, nil
}

// OtherRuntime ends the hints of an engine that cannot be used, where something is
// to be started.
const OtherRuntime = "use --runtime process"

// unreachable is the fault of an engine that cannot be spoken with at all.
func (e *engine) unreachable(err error) error {
	err = readable(err)
	where := fmt.Sprintf("%q (%s)", e.endpoint.Host, e.endpoint.Why)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Environment, "restart Docker, or "+OtherRuntime, "the Docker engine at %s does not answer: %w", where, err)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EACCES):
		return fault.New(fault.Environment, "add yourself to the group of the socket (often \"docker\") and log in again, or "+OtherRuntime,
			"you may not use the Docker engine at %s: %w", where, err)
	case errdefs.IsInvalidArgument(err):
		hint := "update flisk, or " + OtherRuntime
		if len(e.warnings) > 0 {
			hint = "unset DOCKER_API_VERSION"
		}
		return fault.New(fault.Environment, hint, "the Docker engine at %s refuses the conversation: %w", where, err)
	}
	if !client.IsErrConnectionFailed(err) {
		return fault.New(fault.Environment, "look at the engine's log, or "+OtherRuntime, "the Docker engine at %s does not answer as it should: %w", where, err)
	}
	hint := "start Docker, or " + OtherRuntime
	if e.endpoint.Why == fromEnvironment {
		hint = "unset DOCKER_HOST, start the engine that it names, or " + OtherRuntime
	}
	return fault.New(fault.Environment, hint, "cannot reach the Docker engine at %s: %w", where, err)
}

// called is a container for people: its name as it was last heard, else its id.
func (e *engine) called(id string) string {
	if name, ok := e.names.Load(id); ok {
		return fmt.Sprintf("%q", name)
	}
	return short(id)
}

// failed is the fault of a call that did not do what it should.
func (e *engine) failed(what string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("cannot %s: %w", what, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Environment, "look at the engine's log", "cannot %s: the Docker engine at %q took too long: %w", what, e.endpoint.Host, err)
	case broke(err):
		return fault.New(fault.Environment, "look at the engine's log; flisk status shows what runs", "cannot %s: the connection to the Docker engine at %q broke: %w", what, e.endpoint.Host, innermost(err))
	case client.IsErrConnectionFailed(err):
		return e.unreachable(err)
	}
	return fault.New(fault.Failed, "", "cannot %s: %w", what, classify(readable(err)))
}

// broke reports whether a connection ended that was there: whether the engine did
// what it was asked is not known then.
func broke(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return client.IsErrConnectionFailed(err) && (ok && dial.Op != "dial" || errors.Is(err, io.EOF))
}

// innermost is an error without the request that it ended: its URL is nothing that
// people know.
func innermost(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	return err
}

// securityNames takes the names out of "name=seccomp,profile=default".
func securityNames(options []string) []string {
	var names []string
	for _, o := range options {
		name, _, _ := strings.Cut(o, ",")
		names = append(names, strings.TrimPrefix(name, "name="))
	}
	return names
}
