package dockertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	api "github.com/docker/docker/api/types/container"
	images "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"
)

// Image is one that is there without having been loaded, built or pulled. Its
// containers idle, or are a gateway when it is "traefik".
type Image struct {
	Ref     string
	Env     []string
	Labels  map[string]string
	Volumes []string // places that it declares as volumes
}

// Pullable is what a registry has under a reference.
type Pullable struct {
	Image  Image  // its Ref is that of the pull
	Layers int    // of progress in the stream
	Error  string // in the stream, at the end

	// Login, unless it is zero, is who may pull it.
	Login registry.AuthConfig
}

// image is one in the engine's store.
type image struct {
	id      string // "sha256:…"
	tags    []string
	config  api.Config
	arch    string
	created string
	size    int64
	layers  []string
	root    string // the directory of its files; "" when it has none
	program string // in root; "" when it holds none
	parent  string // the id of the image that it was built on, as far as this plays them
}

func (i *image) gateway() bool {
	return slices.ContainsFunc(i.tags, func(tag string) bool { return strings.HasPrefix(tag, "traefik:") })
}

func (i Image) image() *image {
	sum := sha256.Sum256([]byte(i.Ref + strings.Join(i.Env, "\x00")))
	volumes := map[string]struct{}{}
	for _, at := range i.Volumes {
		volumes[at] = struct{}{}
	}
	return &image{
		id: "sha256:" + hex.EncodeToString(sum[:]), config: api.Config{Env: i.Env, Labels: i.Labels, Volumes: volumes},
		created: "2025-01-01T00:00:00Z",
	}
}

// normal is a reference with a tag, without what "docker.io" adds.
func normal(ref string) string {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "library/")
	if !strings.HasPrefix(ref, "sha256:") && !strings.Contains(ref[strings.LastIndex(ref, "/")+1:], ":") {
		ref += ":latest"
	}
	return ref
}

// findImage takes a reference or an id. e.mu is held.
func (e *Engine) findImage(ref string) *image {
	for _, i := range e.images {
		if slices.Contains(i.tags, normal(ref)) || i.id == ref || i.id == "sha256:"+ref ||
			len(ref) >= 12 && strings.HasPrefix(i.id, "sha256:"+ref) {
			return i
		}
	}
	return nil
}

// tag gives an image a name, which another one loses. e.mu is held.
func (e *Engine) tag(img *image, ref string) *image {
	ref = normal(ref)
	for _, i := range e.images {
		i.tags = slices.DeleteFunc(i.tags, func(t string) bool { return t == ref })
	}
	known := e.findImage(img.id)
	if known == nil {
		e.images = append(e.images, img)
		known = img
	}
	known.tags = append(known.tags, ref)
	return known
}

func (e *Engine) imageInspect(w http.ResponseWriter, r *http.Request) error {
	ref, past := strings.CutSuffix(r.PathValue("ref"), "/history")
	ref, shown := strings.CutSuffix(ref, "/json")
	if !past && !shown {
		return notPlayed(r.Method + " " + r.URL.Path)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	i := e.findImage(ref)
	if i == nil {
		return refuse(http.StatusNotFound, "No such image: %s", ref)
	}
	if past {
		var items []images.HistoryResponseItem
		for ; i != nil; i = e.findImage(i.parent) {
			items = append(items, images.HistoryResponseItem{ID: i.id, Tags: i.tags})
		}
		return answer(w, http.StatusOK, items)
	}
	arch := i.arch
	if arch == "" {
		arch = e.arch()
	}
	return answer(w, http.StatusOK, map[string]any{
		"Id": i.id, "RepoTags": nonNil(i.tags), "RepoDigests": []string{}, "Created": i.created, "Config": i.config,
		"Architecture": arch, "Os": "linux", "Size": i.size, "RootFS": images.RootFS{Type: "layers", Layers: i.layers},
	})
}

func nonNil(list []string) []string { return append([]string{}, list...) }

func (e *Engine) imageList(w http.ResponseWriter, r *http.Request) error {
	args, err := filtersOf(r, "label", "reference")
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []images.Summary{}
	for _, i := range e.images {
		if !args.MatchKVList("label", i.config.Labels) {
			continue
		}
		if args.Contains("reference") && !slices.ContainsFunc(args.Get("reference"), func(pattern string) bool {
			return slices.ContainsFunc(i.tags, func(tag string) bool {
				full, _ := path.Match(pattern, tag) // a bad pattern matches nothing
				bare, _ := path.Match(pattern, tag[:strings.LastIndex(tag, ":")])
				return full || bare
			})
		}) {
			continue
		}
		out = append(out, images.Summary{ID: i.id, RepoTags: nonNil(i.tags), Labels: i.config.Labels, Size: i.size})
	}
	return answer(w, http.StatusOK, out)
}

func (e *Engine) imageRemove(w http.ResponseWriter, r *http.Request) error {
	ref := r.PathValue("ref")
	if r.URL.Query().Get("force") == "1" {
		return notPlayed("removal of an image by force")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	i := e.findImage(ref)
	if i == nil {
		return refuse(http.StatusNotFound, "No such image: %s", ref)
	}
	var out []images.DeleteResponse
	byTag := slices.Contains(i.tags, normal(ref))
	if byTag && len(i.tags) > 1 {
		i.tags = slices.DeleteFunc(i.tags, func(t string) bool { return t == normal(ref) })
		return answer(w, http.StatusOK, append(out, images.DeleteResponse{Untagged: normal(ref)}))
	}
	if slices.ContainsFunc(e.images, func(other *image) bool { return other.parent == i.id }) {
		return refuse(http.StatusConflict, "conflict: unable to delete %s (cannot be forced) - image has dependent child images", i.id[7:19])
	}
	for _, c := range e.containers {
		if c.image == i {
			return refuse(http.StatusConflict, "conflict: unable to remove repository reference %q (must force) - container %s is using its referenced image %s", ref, c.id[:12], i.id[7:19])
		}
	}
	for _, tag := range i.tags {
		out = append(out, images.DeleteResponse{Untagged: tag})
	}
	for pruned := r.URL.Query().Get("noprune") != "1"; i != nil; {
		e.images = slices.DeleteFunc(e.images, func(other *image) bool { return other == i })
		out = append(out, images.DeleteResponse{Deleted: i.id})
		parent := e.findImage(i.parent)
		if !pruned || parent == nil || len(parent.tags) > 0 || slices.ContainsFunc(e.images, func(other *image) bool { return other.parent == parent.id }) {
			break
		}
		i = parent
	}
	return answer(w, http.StatusOK, out)
}

func (e *Engine) imageTag(w http.ResponseWriter, r *http.Request) error {
	ref, ok := strings.CutSuffix(r.PathValue("ref"), "/tag")
	if !ok {
		return notPlayed(r.Method + " " + r.URL.Path)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	i := e.findImage(ref)
	if i == nil {
		return refuse(http.StatusNotFound, "No such image: %s", ref)
	}
	name := r.URL.Query().Get("repo")
	if tag := r.URL.Query().Get("tag"); tag != "" {
		name += ":" + tag
	}
	e.tag(i, name)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// savedImage is an entry of a saved image's manifest.
type savedImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (e *Engine) imageLoad(w http.ResponseWriter, r *http.Request) error {
	files, err := readTar(r.Body)
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	var manifest []savedImage
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		return refuse(http.StatusInternalServerError, "open manifest.json: %v", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	stream := startStream(w)
	for _, m := range manifest {
		if err := e.load(m, files); err != nil {
			return stream.fail(err)
		}
		for _, tag := range m.RepoTags {
			stream.line(map[string]string{"stream": "Loaded image: " + tag + "\n"})
		}
	}
	return nil
}

// load takes one image out of an archive. e.mu is held.
func (e *Engine) load(m savedImage, files map[string][]byte) error {
	raw, ok := files[m.Config]
	if !ok {
		return errors.New("the manifest names a configuration that is not there")
	}
	var config struct {
		Architecture string
		Created      string
		Config       api.Config
		RootFS       struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	if len(config.RootFS.DiffIDs) != len(m.Layers) {
		return errors.New("invalid manifest, layers length mismatch")
	}
	sum := sha256.Sum256(raw)
	img := &image{
		id: "sha256:" + hex.EncodeToString(sum[:]), config: config.Config, arch: config.Architecture, created: config.Created,
		layers: config.RootFS.DiffIDs, root: e.newDir(),
	}
	for n, name := range m.Layers {
		layer, ok := files[name]
		if !ok {
			return errors.New("the manifest names a layer that is not there")
		}
		if sum := sha256.Sum256(layer); "sha256:"+hex.EncodeToString(sum[:]) != config.RootFS.DiffIDs[n] {
			return errors.New("invalid diffID for a layer")
		}
		img.size += int64(len(layer))
		if err := unpack(bytes.NewReader(layer), img.root); err != nil {
			return err
		}
	}
	img.findProgram()
	for _, tag := range m.RepoTags {
		e.tag(img, tag)
	}
	return nil
}

// findProgram notes the program that the image starts, if it holds it.
func (i *image) findProgram() {
	if argv := append(slices.Clone(i.config.Entrypoint), i.config.Cmd...); len(argv) > 0 {
		if info, err := os.Stat(filepath.Join(i.root, filepath.Clean("/"+argv[0]))); err == nil && info.Mode().IsRegular() {
			i.program = argv[0]
		}
	}
}

func (e *Engine) imagePull(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if q.Get("fromImage") == "" {
		return notPlayed("imports")
	}
	ref := q.Get("fromImage")
	if tag := q.Get("tag"); tag != "" {
		ref += ":" + tag
	}
	ref = normal(ref)
	found, ok := e.o.Registry[ref]
	who := &registry.AuthConfig{}
	if header := r.Header.Get(registry.AuthHeader); header != "" {
		var err error
		if who, err = registry.DecodeAuthConfig(header); err != nil {
			return refuse(http.StatusBadRequest, "%s: %v", registry.AuthHeader, err)
		}
	}
	if private := found.Login != (registry.AuthConfig{}); !ok || private && *who != found.Login {
		return refuse(http.StatusNotFound, "pull access denied for %s, repository does not exist or may require 'docker login': denied: requested access to the resource is denied", ref)
	}
	stream := startStream(w)
	stream.line(map[string]string{"status": "Pulling from " + ref})
	for n := range found.Layers {
		id := newID()[:12] + string(rune('a'+n%26))
		stream.line(map[string]string{"id": id, "status": "Pulling fs layer"})
		for part := range 5 {
			stream.line(map[string]any{"id": id, "status": "Downloading", "progressDetail": map[string]int{"current": (part + 1) << 20, "total": 5 << 20}})
		}
		stream.line(map[string]string{"id": id, "status": "Pull complete"})
	}
	if found.Error != "" {
		return stream.fail(errors.New(found.Error))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	found.Image.Ref = ref
	e.tag(found.Image.image(), ref)
	stream.line(map[string]string{"status": "Status: Downloaded newer image for " + ref})
	return nil
}

// stream is an answer of JSON lines, whose status was sent already.
type stream struct{ w http.ResponseWriter }

func startStream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	return stream{w}
}

func (s stream) line(v any) {
	_ = json.NewEncoder(s.w).Encode(v) // the client left
}

func (s stream) fail(err error) error {
	s.line(map[string]any{"error": err.Error(), "errorDetail": map[string]string{"message": err.Error()}})
	return nil
}
