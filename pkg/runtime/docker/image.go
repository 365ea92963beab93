package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// The user of an agent that runs in an image made here: no other one has a name
// in it, and its volume belongs to it.
const runUser = 65532

// Places in an image made here.
const (
	programInImage = "agent"
	rootsInImage   = "etc/ssl/certs/ca-certificates.crt"
	dataInImage    = "data"
)

// agentImage is an image made of one static program: no base, no shell, nothing
// to pull.
type agentImage struct {
	tag     string            // "flisk-shop-9f2c41d07a3e/bot:latest"
	program string            // path of a static program for the engine's machine
	arch    string            // of the program, as in GOARCH
	roots   []byte            // CA certificates, PEM
	labels  map[string]string // no secret: everybody who has the image reads them
}

// loadAgentImage makes the image unless the tag has one of exactly these inputs.
// It returns its id, which is the same for the same inputs on one engine.
//
// The image is written as the engine itself saves one, and loaded: measured, that
// takes a fraction of what the builder takes, and the builder puts the time into
// the image, so that the same program would get another id each time.
func (e *engine) loadAgentImage(ctx context.Context, a agentImage) (id string, made bool, err error) {
	what := fmt.Sprintf("make the image %q", a.tag)
	program, err := os.ReadFile(a.program)
	if err != nil {
		return "", false, fmt.Errorf("cannot %s: %w", what, err)
	}
	saved, inputs, err := a.archive(program)
	if err != nil {
		return "", false, fmt.Errorf("cannot %s: %w", what, err)
	}
	if present, ok, err := e.inspectImage(ctx, a.tag); err != nil {
		return "", false, err
	} else if ok && present.Config != nil && present.Config.Labels[labelInputs] == inputs {
		return present.ID, false, nil
	}
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return "", false, err
	}
	defer cancel()
	answer, err := e.api.ImageLoad(ctx, saved, client.ImageLoadWithQuiet(true))
	if err != nil {
		return "", false, e.failed(what, err)
	}
	defer func() { _ = answer.Body.Close() }() // it is only read
	if err := readMessages(answer.Body, io.Discard); err != nil {
		return "", false, e.failed(what, err)
	}
	loaded, ok, err := e.inspectImage(ctx, a.tag)
	switch {
	case err != nil:
		return "", false, err
	case !ok || loaded.Config == nil || loaded.Config.Labels[labelInputs] != inputs:
		return "", false, e.failed(what, fmt.Errorf("the engine took it, and has another one under its name"))
	}
	return loaded.ID, true, nil
}

// inspectImage takes an id or a reference.
func (e *engine) inspectImage(ctx context.Context, ref string) (image.InspectResponse, bool, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	found, err := e.api.ImageInspect(ctx, ref)
	switch {
	case errdefs.IsNotFound(err):
		return found, false, nil
	case err != nil:
		return found, false, e.failed(fmt.Sprintf("inspect the image %q", ref), err)
	}
	return found, true, nil
}

// imageConfig is an image's configuration, in the fields that are used here and
// in the order that fixes its bytes.
type imageConfig struct {
	Architecture string    `json:"architecture"`
	Config       runConfig `json:"config"`
	Created      time.Time `json:"created"`
	History      []history `json:"history"`
	OS           string    `json:"os"`
	RootFS       rootFS    `json:"rootfs"`
}

type runConfig struct {
	User       string
	Env        []string
	Entrypoint []string
	WorkingDir string
	Labels     map[string]string
}

type history struct {
	Created   time.Time `json:"created"`
	CreatedBy string    `json:"created_by"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// tarRoom is more than the headers and the padding of a few entries take.
const tarRoom = 16 << 10

// epoch is the time of everything in an image: it has to come out the same each
// time.
var epoch = time.Unix(0, 0).UTC()

// archive is the image as `docker save` writes one, and the hash of all that it
// was made from.
func (a agentImage) archive(program []byte) (saved io.Reader, inputs string, err error) {
	var layer bytes.Buffer
	layer.Grow(len(program) + len(a.roots) + tarRoom) // it is not copied as it grows
	if err := a.layer(&layer, program); err != nil {
		return nil, "", err
	}
	diff := digest(layer.Bytes())
	config := imageConfig{
		Architecture: a.arch,
		Config: runConfig{
			User:       fmt.Sprintf("%d:%d", runUser, runUser),
			Env:        []string{"PATH=/"},
			Entrypoint: []string{"/" + programInImage},
			WorkingDir: "/",
			Labels:     maps.Clone(a.labels),
		},
		Created: epoch,
		History: []history{{epoch, "flisk: a static program"}},
		OS:      "linux",
		RootFS:  rootFS{"layers", []string{"sha256:" + diff}},
	}
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	bare, err := json.Marshal(config)
	if err != nil {
		return nil, "", err
	}
	inputs = digest(bare) // of the configuration, which names the layer
	config.Config.Labels[labelInputs] = inputs
	configured, err := json.Marshal(config)
	if err != nil {
		return nil, "", err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": digest(configured) + ".json", "RepoTags": []string{a.tag}, "Layers": []string{diff + "/layer.tar"},
	}})
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	out.Grow(layer.Len() + len(configured) + len(manifest) + tarRoom)
	w := tar.NewWriter(&out)
	put(w, tar.Header{Name: digest(configured) + ".json", Mode: 0o644}, configured)
	put(w, tar.Header{Name: diff + "/", Mode: 0o755, Typeflag: tar.TypeDir}, nil)
	put(w, tar.Header{Name: diff + "/layer.tar", Mode: 0o644}, layer.Bytes())
	put(w, tar.Header{Name: "manifest.json", Mode: 0o644}, manifest)
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return &out, inputs, nil
}

// layer is the file system.
func (a agentImage) layer(out io.Writer, program []byte) error {
	w := tar.NewWriter(out)
	dir := func(name string, mode int64, owner int) {
		put(w, tar.Header{Name: name + "/", Mode: mode, Typeflag: tar.TypeDir, Uid: owner, Gid: owner}, nil)
	}
	put(w, tar.Header{Name: programInImage, Mode: 0o755}, program)
	dir(dataInImage, 0o755, runUser) // a new volume takes its owner from here
	dir("etc", 0o755, 0)
	dir("etc/ssl", 0o755, 0)
	dir("etc/ssl/certs", 0o755, 0)
	put(w, tar.Header{Name: rootsInImage, Mode: 0o644}, a.roots)
	dir("tmp", 0o1777, 0)
	return w.Close()
}

// put adds one entry. An error of a tar writer stays, and Close returns it.
func put(w *tar.Writer, h tar.Header, data []byte) {
	if h.Typeflag == 0 {
		h.Typeflag = tar.TypeReg
	}
	h.Size, h.ModTime, h.Format = int64(len(data)), epoch, tar.FormatUSTAR
	if w.WriteHeader(&h) == nil {
		_, _ = w.Write(data)
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// listImages lists a project's images, the newest first.
func (e *engine) listImages(ctx context.Context, project string) ([]image.Summary, error) {
	ctx, cancel := lookContext(ctx)
	defer cancel()
	list, err := e.api.ImageList(ctx, image.ListOptions{Filters: ofProject(project)})
	if err != nil {
		return nil, e.failed("list the images", err)
	}
	return list, nil
}

// removeImageAlone removes an image without a name by its id, or takes a name away,
// and the image with its last one; and none of its parents. One that is gone is no
// error; one that another image or a container is made of is [errConflict].
func (e *engine) removeImageAlone(ctx context.Context, ref string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	_, err = e.api.ImageRemove(ctx, ref, image.RemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		return e.failed(fmt.Sprintf("remove the image %q", ref), err)
	}
	return nil
}

// tagImage gives an image a name, which another one loses.
func (e *engine) tagImage(ctx context.Context, id, tag string) error {
	ctx, cancel, err := change(ctx, changeBudget)
	if err != nil {
		return err
	}
	defer cancel()
	if err := e.api.ImageTag(ctx, id, tag); err != nil {
		return e.failed(fmt.Sprintf("name an image %q", tag), err)
	}
	return nil
}
