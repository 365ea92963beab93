package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
)

// containerSpec is one container to make, in the engine's own words.
//
// config.StopTimeout is its grace: how long every stop of it waits before
// SIGKILL, whoever asks. config.Labels must name the project.
type containerSpec struct {
	name     string
	config   container.Config
	host     container.HostConfig
	networks []attachment // all joined before it starts; with none, host.NetworkMode decides
}

// attachment is a network with the names that a container has on it.
type attachment struct {
	network string
	aliases []string
}

// defaultGrace is the engine's own, for a container that was made without one.
const defaultGrace = 10 * time.Second

// endlessGrace stands for a grace without an end.
const endlessGrace = 24 * time.Hour

// stopMargin is what a stop may take beyond the grace: the engine's SIGKILL and
// its bookkeeping.
const stopMargin = 10 * time.Second

// createContainer makes a container, joined to all its networks, and does not
// start it. When it fails there is none. The warnings are the engine's.
func (e *engine) createContainer(ctx context.Context, s containerSpec) (id string, warnings []string, err error) {
	what := fmt.Sprintf("create the container %q", s.name)
	if s.config.Labels[labelProject] == "" {
		return "", nil, fmt.Errorf("cannot %s: it has no label %s", what, labelProject)
	}
	s.config = marked(s.config)
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return "", nil, err
	}
	defer cancel()
	now, later := s.networks, []attachment(nil)
	if !e.speaks("1.44") {
		s.config.Healthcheck = withoutStartInterval(s.config.Healthcheck)
		if len(now) > 1 { // older engines join one network at create
			now, later = now[:1], now[1:]
		}
	}
	if len(s.networks) > 0 && s.host.NetworkMode == "" {
		s.host.NetworkMode = container.NetworkMode(s.networks[0].network) // else it joins "bridge" as well
	}
	endpoints := make(map[string]*network.EndpointSettings, len(now))
	for _, a := range now {
		endpoints[a.network] = &network.EndpointSettings{Aliases: a.aliases}
	}
	made, err := e.api.ContainerCreate(ctx, &s.config, &s.host, &network.NetworkingConfig{EndpointsConfig: endpoints}, nil, s.name)
	if err != nil {
		fails := e.failed(what, err)
		if broke(err) { // it may be there
			fails = errors.Join(fails, e.removeUnheard(ctx, s))
		}
		return "", nil, fails
	}
	e.names.Store(made.ID, s.name)
	for _, a := range later {
		if err := e.connectNetwork(ctx, a, made.ID); err != nil {
			_ = e.removeContainer(ctx, made.ID) // the error before it says more
			return "", nil, err
		}
	}
	return made.ID, made.Warnings, nil
}

// removeUnheard removes a container of which only its name is known, because the
// answer to its create got lost.
func (e *engine) removeUnheard(ctx context.Context, s containerSpec) error {
	c, err := e.inspectContainer(ctx, s.name)
	switch {
	case errors.Is(err, errNotFound):
		return nil
	case err != nil:
		return err
	case c.Config.Labels[labelContainer] != s.config.Labels[labelContainer]: // it had the name before
		return nil
	}
	return e.removeContainer(ctx, c.ID)
}

// minFallbackInterval bounds how often an old engine asks for health: it asks
// that often for as long as the container lives.
const minFallbackInterval = 5 * time.Second

// withoutStartInterval is a health check for an engine that knows no start
// interval: a short interval for good, and failures do not count in the start
// period.
func withoutStartInterval(h *container.HealthConfig) *container.HealthConfig {
	if h == nil || h.StartInterval == 0 {
		return h
	}
	short := *h
	short.StartInterval = 0
	if often := max(h.StartInterval, minFallbackInterval); short.Interval == 0 || often < short.Interval {
		short.Interval = often
	}
	return &short
}

// startContainer starts it; one that runs is left alone. A port that is in use
// is [errPortTaken].
func (e *engine) startContainer(ctx context.Context, id string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return e.failed("start the container "+e.called(id), err)
	}
	return nil
}

// stopContainer sends the stop signal and waits for the exit: as long as the
// container's own grace, after which the engine sends SIGKILL. Only force, once
// closed, sends it earlier: the end of ctx does not, because some engines turn a
// stop whose client left into a SIGKILL, and a turn would be cut. It returns the
// exit code. One that does not run is left alone; one that was started again
// meanwhile is [errRuns].
func (e *engine) stopContainer(ctx context.Context, id string, force <-chan struct{}) (code int, err error) {
	what := "stop the container " + e.called(id)
	before, err := e.inspectContainer(context.WithoutCancel(ctx), id)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceOf(before)+stopMargin)
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		// No timeout of the call's own: the container has one.
		stopped <- e.api.ContainerStop(ctx, id, container.StopOptions{})
	}()
	select {
	case err = <-stopped:
	case <-force:
		kill := e.api.ContainerKill(ctx, id, "SIGKILL")
		if err = <-stopped; err != nil && kill != nil {
			err = fmt.Errorf("%w; SIGKILL: %w", err, kill)
		}
	}
	if err != nil {
		return 0, e.failed(what, err)
	}
	after, err := e.inspectContainer(ctx, id)
	if err != nil {
		return 0, err
	}
	if after.State.Running {
		return 0, e.failed(what, errRuns)
	}
	return after.State.ExitCode, nil
}

// graceOf is how long a stop of a container waits before SIGKILL.
func graceOf(c container.InspectResponse) time.Duration {
	t := c.Config.StopTimeout
	switch {
	case t == nil:
		return defaultGrace
	case *t < 0: // the engine waits for ever
		return endlessGrace
	}
	return time.Duration(*t) * time.Second
}

// killedCode is the exit code of a process that SIGKILL ended.
const killedCode = 137

// signalContainer sends a signal and returns when the container is down, as late
// as a stop would, with its exit code. It stays down: a restart policy does not
// bring back what was killed by hand. One that did not run is an error. sent is
// false only when it is certain that no signal was sent.
func (e *engine) signalContainer(ctx context.Context, id string, sig syscall.Signal) (code int, sent bool, err error) {
	what := fmt.Sprintf("send signal %d to the container %s", int(sig), e.called(id))
	before, err := e.inspectContainer(ctx, id)
	if err != nil {
		return 0, false, err
	}
	ctx, cancel, err := change(ctx, graceOf(before)+stopMargin)
	if err != nil {
		return 0, false, err
	}
	defer cancel()
	if err := e.api.ContainerKill(ctx, id, strconv.Itoa(int(sig))); err != nil {
		refused := !broke(err) && !client.IsErrConnectionFailed(err) && ctx.Err() == nil
		return 0, !refused, e.failed(what, err)
	}
	code, err = e.waitContainer(ctx, id)
	return code, true, err
}

// waitContainer waits until it does not run, and returns its exit code. One that
// never ran counts as not running, with code 0.
func (e *engine) waitContainer(ctx context.Context, id string) (code int, err error) {
	// Both channels are read to the end: a context that ends closes the stream,
	// and that is an error of the call.
	results, errs := e.api.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case r := <-results:
		if r.Error != nil {
			err = fmt.Errorf("%s", r.Error.Message)
		}
		code = int(r.StatusCode)
	case err = <-errs:
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return 0, e.failed("wait for the container "+e.called(id), err)
	}
	return code, nil
}

// removeContainer removes a container that does not run, and none of its
// volumes. One that is gone is no error; one that runs is [errConflict].
func (e *engine) removeContainer(ctx context.Context, id string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	err = e.api.ContainerRemove(ctx, id, container.RemoveOptions{RemoveVolumes: false})
	inProgress := errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress") // by somebody else
	if err != nil && !errdefs.IsNotFound(err) && !inProgress {
		return e.failed("remove the container "+e.called(id), err)
	}
	return nil
}

// discard removes a container that nothing of the plan knows of, and that nobody
// would remove soon if this did not: it tries twice. ctx does not end it.
func (e *engine) discard(ctx context.Context, id string) error {
	ctx = context.WithoutCancel(ctx)
	if e.removeContainer(ctx, id) == nil {
		return nil
	}
	return e.removeContainer(ctx, id)
}

// unpauseContainer lets a container go on.
func (e *engine) unpauseContainer(ctx context.Context, id string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.api.ContainerUnpause(ctx, id); err != nil {
		return e.failed("unpause the container "+e.called(id), err)
	}
	return nil
}

func (e *engine) renameContainer(ctx context.Context, id, name string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.api.ContainerRename(ctx, id, name); err != nil {
		return e.failed(fmt.Sprintf("rename the container %s to %q", e.called(id), name), err)
	}
	return nil
}

// inspectContainer takes an id or a name. One that does not exist is
// [errNotFound].
func (e *engine) inspectContainer(ctx context.Context, id string) (container.InspectResponse, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	c, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return c, e.failed("inspect the container "+e.called(id), err)
	}
	e.names.Store(c.ID, strings.TrimPrefix(c.Name, "/"))
	return c, nil
}

// listContainers lists a project's containers, also those that do not run.
func (e *engine) listContainers(ctx context.Context, project string) ([]container.Summary, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: ofProject(project)})
	if err != nil {
		return nil, e.failed("list the containers", err)
	}
	return list, nil
}

// ofProject is the only way in which this package lists what it may change.
func ofProject(project string) filters.Args {
	return filters.NewArgs(filters.Arg("label", labelProject+"="+project))
}

// short makes an id readable, and leaves a name as it is.
func short(id string) string {
	if len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" {
		return id[:12]
	}
	return fmt.Sprintf("%q", id)
}
