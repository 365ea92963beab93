package docker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
)

// pull makes sure of a service's image: it is pulled when the engine has none of
// its name, or built where the service says how.
func (a *apply) pull(ctx context.Context, s composefile.Service) (changed bool, err error) {
	if _, ok, err := a.e.inspectImage(ctx, s.Image); err != nil || ok {
		return false, err
	}
	switch {
	case s.PullPolicy == "never":
		return false, fault.New(fault.Environment, "docker pull "+s.Image, "service %q may not pull its image %q, and the engine has none", s.Name, s.Image)
	case s.Build != nil:
		end := a.p.Begin("build " + s.Name)
		_, err := a.e.buildDockerfile(ctx, a.dockerfile(s), a.p.Output())
		end("", err)
		return err == nil, err
	}
	end := a.p.Begin("pull " + s.Image)
	began := time.Now()
	changed, err = a.e.pullMissing(ctx, s.Image, a.p.Output())
	end(span(time.Since(began)), err)
	return changed, err
}

// dockerfile is a build of a service's own.
func (a *apply) dockerfile(s composefile.Service) dockerfileBuild {
	return dockerfileBuild{
		tag: s.Image, dir: s.Build.Context, dockerfile: s.Build.Dockerfile, target: s.Build.Target,
		args: s.Build.Args, labels: a.d.ourLabels(),
	}
}

// startService starts a service that people added, and waits until it runs, or is
// healthy where it can say so.
func (a *apply) startService(ctx context.Context, w wanted) error {
	if _, err := a.pull(ctx, w.Service); err != nil {
		return err
	}
	end := a.p.Begin("start service " + w.Name)
	began := time.Now()
	err := a.lay(ctx)
	for _, c := range a.course.look.services { // one that has stopped
		if err == nil && c.service() == w.Name && !c.runs() {
			err = a.e.removeContainer(ctx, c.ID)
		}
	}
	if err == nil {
		err = a.runService(ctx, w)
	}
	end(span(time.Since(began)), err)
	return err
}

func (a *apply) runService(ctx context.Context, w wanted) error {
	spec, err := a.d.serviceContainer(a.target, w, a.d.baseName(w.Name)+"-1")
	if err != nil {
		return err
	}
	id, err := a.create(ctx, spec)
	if err == nil {
		err = a.e.startContainer(ctx, id)
	}
	if err != nil {
		return err
	}
	for within := time.Now().Add(a.d.o.ReadyTimeout); ; {
		c, err := a.e.inspectContainer(ctx, id)
		switch {
		case err != nil:
			return err
		case !c.State.Running || c.RestartCount > 0:
			if c.State.ExitCode == 0 && !c.State.Restarting && c.RestartCount == 0 {
				return nil // it had something to do, and did it
			}
			return a.serviceFailed(ctx, w, id, "ended ("+exitOf(c.State.ExitCode).String()+")")
		case c.State.Health == nil || c.State.Health.Status == container.Healthy || c.State.Health.Status == container.NoHealthcheck:
			return nil
		case c.State.Health.Status == container.Unhealthy:
			return a.serviceFailed(ctx, w, id, "is not healthy")
		case time.Now().After(within):
			return a.serviceFailed(ctx, w, id, "was not healthy within "+a.d.o.ReadyTimeout.String())
		}
		if err := pause(ctx, readyPoll); err != nil {
			return err
		}
	}
}

func (a *apply) serviceFailed(ctx context.Context, w wanted, id, what string) error {
	f := fault.New(fault.Failed, "see compose.override.yaml", "service %s %s", w.Name, what)
	f.Detail = strings.Join(lastLines(context.WithoutCancel(ctx), a.e, id, lastLog), "\n")
	return f
}

// stopService stops a service and removes what it ran in; its volumes stay.
func (a *apply) stopService(ctx context.Context, name string) error {
	end := a.p.Begin("stop service " + name)
	var errs []error
	detail := ""
	for _, c := range a.course.look.services {
		if c.service() != name {
			continue
		}
		var err error
		if c.runs() {
			_, detail, err = a.d.halt(ctx, a.e, c.ID)
		} else {
			err = a.e.removeContainer(context.WithoutCancel(ctx), c.ID)
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	end(detail, err)
	return err
}

// unusedNetworks are the names of networks that no container is on.
func (e *engine) unusedNetworks(ctx context.Context) ([]string, error) {
	all, err := e.everyNetwork(ctx)
	if err != nil {
		return nil, err
	}
	var unused []string
	for _, n := range all {
		if slices.Contains([]string{"bridge", "host", "none"}, n.Name) {
			continue
		}
		if shown, err := e.inspectNetwork(ctx, n.ID); err == nil && len(shown.Containers) == 0 {
			unused = append(unused, n.Name)
		}
	}
	return unused, nil
}
