package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/flisk-go/flisk/pkg/fault"
)

// dockerfileBuild is one build of a directory with a Dockerfile.
type dockerfileBuild struct {
	tag        string
	unnamed    bool   // the image does not get its tag yet
	dir        string // of the context
	dockerfile string // relative to dir; "" is "Dockerfile"
	target     string // stage; "" is the last
	args       map[string]*string
	labels     map[string]string
	logins     map[string]registry.AuthConfig // by server, for base images
}

// buildDockerfile builds with the engine's classic builder, and tags the image
// unless it is to be unnamed.
// The output of the build and the size of the context go to w, line by line.
// Base images that are missing are pulled by the engine. The stages are those that
// came to their end, also when the build failed.
func (e *engine) buildDockerfile(ctx context.Context, b dockerfileBuild, w io.Writer) (id string, stages []stage, err error) {
	what := fmt.Sprintf("build the image %q", b.tag)
	if b.dockerfile == "" {
		b.dockerfile = "Dockerfile"
	}
	files, err := collectContext(b.dir, b.dockerfile)
	if err != nil {
		return "", nil, fault.New(fault.Usage, "", "cannot %s: %w", what, err)
	}
	if err := files.announce(w); err != nil {
		return "", nil, err
	}
	body, stop := files.stream()
	defer stop()
	var tags []string
	if !b.unnamed {
		tags = []string{b.tag}
	}
	answer, err := e.api.ImageBuild(ctx, body, build.ImageBuildOptions{
		Version: build.BuilderV1, Tags: tags, Dockerfile: b.dockerfile, Target: b.target,
		BuildArgs: b.args, Labels: b.labels, AuthConfigs: b.logins, Remove: true, ForceRemove: true,
	})
	if err == nil {
		var seen stageReader
		err = readMessages(answer.Body, w, seen.take)
		_ = answer.Body.Close() // it was only read
		if stages = seen.ended; err == nil && len(stages) > 0 {
			last := len(stages) - 1
			id, stages[last].last = stages[last].ID, true
		}
	}
	if ctx.Err() != nil {
		return "", stages, fmt.Errorf("the build was stopped: %w", context.Cause(ctx))
	}
	if err := files.err(); err != nil { // why the engine saw a broken stream
		return "", stages, fault.New(fault.Failed, "", "cannot %s: %w", what, err)
	}
	if err != nil {
		return "", stages, e.failed(what, err)
	}
	if id == "" {
		return "", stages, e.failed(what, errors.New("the engine ended without an image"))
	}
	return id, stages, nil
}

// pullMissing makes sure of an image: when the engine has none of that name it
// is pulled, as who, with progress to w.
func (e *engine) pullMissing(ctx context.Context, ref string, who registry.AuthConfig, w io.Writer) (pulled bool, err error) {
	if _, ok, err := e.inspectImage(ctx, ref); err != nil || ok {
		return false, err
	}
	what := fmt.Sprintf("pull the image %q", ref)
	auth := ""
	if who != (registry.AuthConfig{}) {
		if auth, err = registry.EncodeAuthConfig(who); err != nil {
			return false, err
		}
	}
	body, err := e.api.ImagePull(ctx, ref, image.PullOptions{RegistryAuth: auth})
	if err == nil {
		err = readMessages(body, w)
		_ = body.Close() // it was only read
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("the pull was stopped: %w", context.Cause(ctx))
	}
	if err != nil {
		return false, advised(e.failed(what, err), ref)
	}
	return true, nil
}

// advised adds to a pull that failed what to look at, and to one that was denied how
// to be let in. Registries say of a
// private image, and of one that is not there, the same.
func advised(err error, ref string) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Hint != "" {
		return err
	}
	if !strings.Contains(err.Error(), "denied") && !strings.Contains(err.Error(), "unauthorized") {
		with := *f
		with.Hint = fmt.Sprintf("look at its name and at the network (docker pull %s); without a network: docker load an image of that name", ref)
		return &with
	}
	login := "docker login"
	if named, err := reference.ParseNormalizedNamed(ref); err == nil && reference.Domain(named) != "docker.io" {
		login += " " + reference.Domain(named)
	}
	with := *f
	with.Hint = "if it is a private image: " + login + "; else look at its name"
	return &with
}
