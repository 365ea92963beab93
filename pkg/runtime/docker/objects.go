package docker

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/flisk-go/flisk/pkg/fault"
)

// createNetwork makes a bridge network; a name that is taken is
// [errConflict], and no free subnet is [errNoSubnet].
func (e *engine) createNetwork(ctx context.Context, name string, labels map[string]string) (id string, err error) {
	what := fmt.Sprintf("create the network %q", name)
	if labels[labelProject] == "" {
		return "", fmt.Errorf("cannot %s: it has no label %s", what, labelProject)
	}
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return "", err
	}
	defer cancel()
	made, err := e.api.NetworkCreate(ctx, name, network.CreateOptions{Driver: "bridge", Labels: labels})
	if err != nil {
		return "", e.failed(what, err)
	}
	return made.ID, nil
}

// listNetworks lists a project's networks.
func (e *engine) listNetworks(ctx context.Context, project string) ([]network.Summary, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	list, err := e.api.NetworkList(ctx, network.ListOptions{Filters: ofProject(project)})
	if err != nil {
		return nil, e.failed("list the networks", err)
	}
	return list, nil
}

// inspectNetwork takes an id or a name, and says who is on it. One that does not
// exist is [errNotFound].
func (e *engine) inspectNetwork(ctx context.Context, id string) (network.Inspect, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	n, err := e.api.NetworkInspect(ctx, id, network.InspectOptions{})
	if err != nil {
		return n, e.failed("inspect the network "+short(id), err)
	}
	return n, nil
}

// removeNetwork removes a network that no running container is on. One that is
// gone is no error.
func (e *engine) removeNetwork(ctx context.Context, id string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.api.NetworkRemove(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return e.failed("remove the network "+short(id), err)
	}
	return nil
}

// networkUsers are the names of the containers that are on a network, or will be
// when they are started again.
func (e *engine) networkUsers(ctx context.Context, id, name string) (users []string, err error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	// By both: one that was never started knows the network by its name only.
	on := filters.NewArgs(filters.Arg("network", id), filters.Arg("network", name))
	list, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: on})
	if err != nil {
		return nil, e.failed("list the containers on the network "+name, err)
	}
	for _, c := range list {
		if len(c.Names) > 0 {
			users = append(users, strings.TrimPrefix(c.Names[0], "/"))
		}
	}
	return users, nil
}

// connectNetwork joins a container to a network.
func (e *engine) connectNetwork(ctx context.Context, a attachment, container string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.api.NetworkConnect(ctx, a.network, container, &network.EndpointSettings{Aliases: a.aliases}); err != nil {
		return e.failed(fmt.Sprintf("join the container %s to the network %s", short(container), short(a.network)), err)
	}
	return nil
}

// disconnectNetwork takes a container off a network.
func (e *engine) disconnectNetwork(ctx context.Context, network, container string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.api.NetworkDisconnect(ctx, network, container, false); err != nil {
		return e.failed(fmt.Sprintf("take the container %s off the network %s", short(container), short(network)), err)
	}
	return nil
}

// inspectVolume takes a name. One that does not exist is [errNotFound].
func (e *engine) inspectVolume(ctx context.Context, name string) (volume.Volume, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	v, err := e.api.VolumeInspect(ctx, name)
	if err != nil {
		return v, e.failed(fmt.Sprintf("inspect the volume %q", name), err)
	}
	return v, nil
}

// listVolumes lists a project's volumes.
func (e *engine) listVolumes(ctx context.Context, project string) ([]*volume.Volume, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	list, err := e.api.VolumeList(ctx, volume.ListOptions{Filters: ofProject(project)})
	if err != nil {
		return nil, e.failed("list the volumes", err)
	}
	return list.Volumes, nil
}

// createVolume makes a volume. The engine returns one of that name that exists
// instead; that is an error unless it carries the same project's label.
func (e *engine) createVolume(ctx context.Context, name string, labels map[string]string) (volume.Volume, error) {
	what := fmt.Sprintf("create the volume %q", name)
	project := labels[labelProject]
	if project == "" {
		return volume.Volume{}, fmt.Errorf("cannot %s: it has no label %s", what, labelProject)
	}
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return volume.Volume{}, err
	}
	defer cancel()
	v, err := e.api.VolumeCreate(ctx, volume.CreateOptions{Name: name, Labels: labels})
	if err != nil {
		return v, e.failed(what, err)
	}
	if v.Labels[labelProject] != project {
		return v, notOurs(name)
	}
	return v, nil
}

// volumeRef names a volume as a Compose file does.
type volumeRef struct {
	name     string
	project  string // whose volume it must be
	external bool   // declared as made elsewhere
	nameless bool   // the engine named it, for a container of the project: it has no label
}

// removeVolume removes a volume with all its data: a volume of the project, by
// its label, and never one that was declared external. Any other one is a fault
// of kind Usage, and untouched. One that is gone is no error.
func (e *engine) removeVolume(ctx context.Context, ref volumeRef) error {
	if ref.external {
		return fault.New(fault.Usage, "remove it with `docker volume rm` if you mean it", "the volume %q is declared external, and flisk does not remove it", ref.name)
	}
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	// By its label in a list, not by inspect: an empty id must match nothing.
	list, err := e.api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("name", ref.name))})
	if err != nil {
		return e.failed("list the volumes", err)
	}
	for _, v := range list.Volumes {
		if v.Name != ref.name {
			continue // the filter takes parts of names
		}
		mine := v.Labels[labelProject] == ref.project || ref.nameless && isNameless(ref.name) && v.Labels[labelProject] == ""
		if ref.project == "" || !mine {
			return notOurs(ref.name)
		}
		if err := e.api.VolumeRemove(ctx, ref.name, false); err != nil && !errdefs.IsNotFound(err) {
			return e.failed(fmt.Sprintf("remove the volume %q", ref.name), err)
		}
	}
	return nil
}

func notOurs(name string) error {
	return fault.New(fault.Usage, "see its labels with `docker volume inspect`",
		"the volume %q is not of this project (it has no label %s of it), and flisk does not touch it", name, labelProject)
}

// everyNetwork lists the networks of everybody, to say which could be removed by
// hand.
func (e *engine) everyNetwork(ctx context.Context) ([]network.Summary, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	list, err := e.api.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return nil, e.failed("list the networks", err)
	}
	return list, nil
}
