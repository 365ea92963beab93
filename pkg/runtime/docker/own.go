package docker

import (
	"context"
	"crypto/rand"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/stack/composefile"
)

// A container has the labels of its image, too. An agent's image says which
// project it is of; so does every container that somebody starts from it by hand,
// and from every image that is built on it or committed from a container. Whose a
// container is can only be told by labels that its image does not have.

// marked gives a container a label with a value that no other has, and so no image
// that it may be started from: see isOwn.
func marked(config container.Config) container.Config {
	config.Labels = maps.Clone(config.Labels)
	config.Labels[labelContainer] = rand.Text()
	return config
}

// isOwn reports whether a container, which says by its labels that it is of the
// project, was made by flisk, or by plain Compose from the project's own files.
func (d *Driver) isOwn(ctx context.Context, e *engine, c container.InspectResponse) (bool, error) {
	image, err := e.imageLabels(ctx, c.Image)
	if err != nil {
		return false, err
	}
	labels := c.Config.Labels
	its := func(label string) bool { return labels[label] != "" && labels[label] != image[label] }
	return its(labelContainer) || its(composeHash) && d.composed(labels), nil
}

// composed reports whether labels that Compose gave a container are those of a
// service of the project's own Compose file.
func (d *Driver) composed(labels map[string]string) bool {
	file := filepath.Join(d.o.Stack.Dir, composefile.FileName)
	ours := labels[composeProject] == d.o.Stack.ContainerProject() || slices.Contains(strings.Split(labels[composeFiles], ","), file)
	agent := labels[labelAgent] // of a service that somebody added from an agent's image, too
	return ours && (agent == "" || agent == labels[composeService])
}

// imageLabels are the labels of an image, by its id. Of one that is gone none is
// known.
func (e *engine) imageLabels(ctx context.Context, id string) (map[string]string, error) {
	if known, ok := e.labels.Load(id); ok { // an id stands for what is in it
		return known.(map[string]string), nil
	}
	image, ok, err := e.inspectImage(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	var labels map[string]string
	if image.Config != nil {
		labels = image.Config.Labels
	}
	e.labels.Store(id, labels)
	return labels, nil
}
