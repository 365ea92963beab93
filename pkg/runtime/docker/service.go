package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/registry"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack/composefile"
)

// pull gets a service's image, or the gateway's.
func (a *apply) pull(ctx context.Context, s composefile.Service) error {
	if s.PullPolicy == "never" {
		return fault.New(fault.Environment, "docker pull "+s.Image, "service %q may not pull its image %q, and the engine has none", s.Name, s.Image)
	}
	end := a.p.Begin("pull " + s.Image)
	began := time.Now()
	var who registry.AuthConfig
	l, err := a.d.logins(ctx)
	if err == nil {
		who, err = l.at(ctx, s.Image)
		err = a.d.warnLogin(ctx, err)
	}
	if err == nil {
		_, err = a.e.pullMissing(ctx, s.Image, who, a.p.Output())
	}
	end(runtime.Span(time.Since(began)), err)
	return err
}

// dockerfile is a build as the Compose file says.
func (a *apply) dockerfile(s composefile.Service) dockerfileBuild {
	return dockerfileBuild{
		tag: s.Image, dir: s.Build.Context, dockerfile: s.Build.Dockerfile, target: s.Build.Target,
		args: s.Build.Args, labels: a.d.ourLabels(),
	}
}

// startService starts a service that people added, and waits until it runs, or is
// healthy where it can say so.
func (a *apply) startService(ctx context.Context, w wanted) error {
	end := a.p.Begin("start service " + w.Name)
	began := time.Now()
	err := a.makeService(ctx, w)
	if err == nil {
		err = a.runService(ctx, w, a.made[w.Name])
	}
	end(runtime.Span(time.Since(began)), err)
	return err
}

// makeService makes a service's container, unless that is done. One that has
// stopped keeps its own until the plan has come to its end.
func (a *apply) makeService(ctx context.Context, w wanted) error {
	if a.made[w.Name] != "" {
		return nil
	}
	if err := a.lay(ctx); err != nil {
		return err
	}
	spec, err := a.d.serviceContainer(a.target, w, a.freeName(a.d.serviceName(w.Name)))
	if err != nil {
		return err
	}
	if err := a.mountImageVolumes(ctx, w, &spec); err != nil {
		return err
	}
	a.made[w.Name], err = a.create(ctx, spec)
	return err
}

// serviceName is what a service's container is called.
func (d *Driver) serviceName(service string) string { return d.baseName(service) + "-1" }

func (a *apply) runService(ctx context.Context, w wanted, id string) error {
	if err := a.e.startContainer(ctx, id); err != nil {
		err, hint := explained(err), "see compose.override.yaml"
		if f, ok := errors.AsType[*fault.Fault](err); ok {
			hint = cmp.Or(f.Hint, hint)
		}
		return fault.New(fault.KindOf(err), hint, "service %s does not start: %w", w.Name, err)
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
			return a.serviceFailed(ctx, w, id, "is not healthy", lastCheck(c.State.Health)...)
		case time.Now().After(within):
			return a.serviceFailed(ctx, w, id, "was not healthy within "+a.d.o.ReadyTimeout.String(), lastCheck(c.State.Health)...)
		}
		if err := pause(ctx, readyPoll); err != nil {
			return err
		}
	}
}

// serviceFailed is the fault of a service that does not come up, with what it wrote
// last, and behind that what else is known.
func (a *apply) serviceFailed(ctx context.Context, w wanted, id, what string, more ...string) error {
	f := fault.New(fault.Failed, "see compose.override.yaml", "service %s %s", w.Name, what)
	f.Detail = strings.Join(append(lastLines(context.WithoutCancel(ctx), a.e, id, lastLog), more...), "\n")
	return f
}

// lastCheck is what the newest health check came to: its words are in no log.
func lastCheck(h *container.Health) []string {
	if h == nil || len(h.Log) == 0 {
		return nil
	}
	last := h.Log[len(h.Log)-1]
	text := fmt.Sprintf("its health check: exit code %d", last.ExitCode)
	if said := strings.TrimSpace(last.Output); said != "" {
		text += ", " + said
	}
	return strings.Split(text, "\n")
}

// stopService stops a service. One that the project has no more is removed; its
// volumes stay. Where another one takes its place, that one is made first, and
// the old one is kept until the plan has come to its end.
func (a *apply) stopService(ctx context.Context, name string) error {
	i := slices.IndexFunc(a.target.services, func(w wanted) bool { return w.Name == name })
	if i >= 0 {
		if err := a.makeService(ctx, a.target.services[i]); err != nil {
			return err
		}
	}
	end := a.p.Begin("stop service " + name)
	var errs []error
	var how ending
	for _, c := range a.course.look.services {
		if c.service() != name {
			continue
		}
		var err error
		switch {
		case c.runs() && i >= 0:
			a.paused = append(a.paused, c)
			how, err = a.d.stopped(ctx, a.e, c)
		case c.runs():
			how, err = a.d.halt(ctx, a.e, c)
		case i < 0:
			err = a.e.removeContainer(context.WithoutCancel(ctx), c.ID)
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	end(how.String(), err)
	return err
}

// restoreServices starts again what was stopped for others.
func (a *apply) restoreServices(ctx context.Context) error {
	var errs []error
	for _, c := range slices.Backward(a.paused) {
		end := a.p.Begin("start service " + c.service() + " again, as it was")
		err := a.e.startContainer(ctx, c.ID)
		end("", err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// finishServices removes what others took the place of, and gives those their
// names.
func (a *apply) finishServices(ctx context.Context, l look) error {
	for _, c := range l.services {
		if now := l.serviceOf(c.service()); now.ID != c.ID && !c.runs() {
			if err := l.e.removeContainer(ctx, c.ID); err != nil {
				return err
			}
		}
	}
	for _, c := range l.services {
		if l.serviceOf(c.service()).ID == c.ID {
			if err := l.rename(ctx, c, a.d.serviceName(c.service())); err != nil {
				return err
			}
		}
	}
	return nil
}

// serviceOf is the container of a service: of several, the one that runs, else
// the newest that ever did. Others were made and not started, or are there for
// the way back.
func (l look) serviceOf(name string) seen {
	var found seen
	rank := -1
	for _, c := range l.services { // in the order in which they were made
		r := 1
		switch {
		case c.service() != name:
			continue
		case c.runs():
			r = 2
		case c.State.Status == container.StateCreated:
			r = 0
		}
		if r >= rank {
			found, rank = c, r
		}
	}
	return found
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
