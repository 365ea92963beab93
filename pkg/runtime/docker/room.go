package docker

import (
	"context"
	"os"
	"slices"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
)

// LeftRoom is a stack on the engine that was made to be thrown away.
type LeftRoom struct {
	ID   string // of its project
	Name string // that its containers begin with
	Room string // the directory that says whose it is
	Dir  string // of its project; "" when no container says
}

// roomView names the file systems that this process sees: one that is in a
// container beside it, and uses the same engine, has other directories of the
// same names. It is "" where there is only one view.
func roomView() string {
	view, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return ""
	}
	return view
}

// LeftRooms lists the stacks on the engine that were made with [Options.Room] by
// somebody who sees the same directories, whether their owners are there or not.
// It changes nothing.
func LeftRooms(ctx context.Context, s Surroundings) ([]LeftRoom, error) {
	endpoint, err := Resolve(s)
	if err != nil {
		return nil, err
	}
	e, err := connect(ctx, endpoint, s.Getenv("DOCKER_API_VERSION"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = e.close() }() // only idle connections
	ctx, cancel := lookContext(ctx)
	defer cancel()
	var found []LeftRoom
	add := func(labels map[string]string) {
		l := LeftRoom{labels[labelProject], labels[composeProject], labels[labelRoom], labels[composeDir]}
		known := slices.ContainsFunc(found, func(other LeftRoom) bool { return other.ID == l.ID })
		if l.ID != "" && l.Room != "" && labels[labelRoomView] == roomView() && !known {
			found = append(found, l)
		}
	}
	labelled := filters.NewArgs(filters.Arg("label", labelRoom))
	containers, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: labelled})
	if err != nil {
		return nil, e.failed("list the containers", err)
	}
	for _, c := range containers {
		if c.Labels[labelContainer] != "" { // else it has them of its image
			add(c.Labels)
		}
	}
	volumes, err := e.api.VolumeList(ctx, volume.ListOptions{Filters: labelled})
	if err != nil {
		return nil, e.failed("list the volumes", err)
	}
	for _, v := range volumes.Volumes {
		add(v.Labels)
	}
	return found, nil
}
