package dockertest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	api "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/registry"
)

// BuildRequest is a build as the engine got it.
type BuildRequest struct {
	Context context.Context // ends when the client leaves
	Query   url.Values
	Files   map[string][]byte // the context: regular files, by name

	// Logins are those that came along for base images, by server.
	Logins map[string]registry.AuthConfig
}

// BuildResult is what a build made.
type BuildResult struct {
	Log     string      // in the stream
	Stage   string      // what a first stage of the build is made from; "" is no such stage
	Error   string      // in the stream, at the end: there is no image then
	Program []byte      // the image's /agent
	Config  *api.Config // nil is ENTRYPOINT ["/agent"]
}

func (e *Engine) imageBuild(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if e.o.Build == nil {
		return notPlayed("builds (Options.Build is not set)")
	}
	if v := q.Get("version"); v != "" && v != "1" {
		return notPlayed("BuildKit")
	}
	files, err := readTar(r.Body)
	if err != nil {
		return refuse(http.StatusBadRequest, "Error processing tar file: %v", err)
	}
	dockerfile := q.Get("dockerfile")
	if _, ok := files[dockerfile]; !ok {
		return refuse(http.StatusInternalServerError, "Cannot locate specified Dockerfile: %s", dockerfile)
	}
	logins := map[string]registry.AuthConfig{}
	if header := r.Header.Get("X-Registry-Config"); header != "" {
		decoder := json.NewDecoder(base64.NewDecoder(base64.URLEncoding, strings.NewReader(header)))
		if err := decoder.Decode(&logins); err != nil {
			return refuse(http.StatusBadRequest, "X-Registry-Config: %v", err)
		}
	}
	built, err := e.o.Build(BuildRequest{r.Context(), q, files, logins})
	if err != nil {
		return err
	}
	stream := startStream(w)
	if built.Stage != "" {
		e.buildStage(stream, built.Stage)
	}
	if built.Log != "" {
		stream.line(map[string]string{"stream": built.Log})
	}
	if built.Error != "" {
		return stream.fail(errors.New(built.Error))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	config := api.Config{Entrypoint: []string{"/agent"}}
	if built.Config != nil {
		config = *built.Config
	}
	var labels map[string]string
	if raw := q.Get("labels"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &labels); err != nil {
			return stream.fail(err)
		}
	}
	config.Labels = labels
	raw, err := json.Marshal(config)
	if err != nil {
		return stream.fail(err)
	}
	sum := sha256.Sum256(append(raw, built.Program...))
	img := &image{id: "sha256:" + hex.EncodeToString(sum[:]), config: config, size: int64(len(built.Program)), created: stamp(time.Now()), root: e.newDir()}
	if built.Program != nil {
		if err := writeProgram(filepath.Join(img.root, "agent"), built.Program); err != nil {
			return stream.fail(err)
		}
	}
	img.findProgram()
	if e.findImage(img.id) == nil { // it may get no name
		e.images = append(e.images, img)
	}
	for _, tag := range q["t"] {
		e.tag(img, tag)
	}
	stream.line(map[string]any{"aux": map[string]string{"ID": img.id}})
	stream.line(map[string]string{"stream": "Successfully built " + img.id[7:19] + "\n"})
	return nil
}

// buildStage makes the image of a stage, which has one step above a base that
// nobody named, or takes it from the cache.
func (e *Engine) buildStage(stream stream, content string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	unnamed := func(content, parent string) (i *image, made bool) {
		sum := sha256.Sum256([]byte(content))
		id := "sha256:" + hex.EncodeToString(sum[:])
		if i = e.findImage(id); i == nil {
			i, made = &image{id: id, parent: parent, created: stamp(time.Now())}, true
			e.images = append(e.images, i)
		}
		return i, made
	}
	say := func(text string) { stream.line(map[string]string{"stream": text}) }
	base, _ := unnamed("base", "")
	say("Step 1/2 : FROM base AS build")
	say("\n")
	say(" ---> " + base.id[7:19] + "\n")
	say("Step 2/2 : RUN build")
	say("\n")
	i, made := unnamed("stage "+content, base.id)
	if !made {
		say(" ---> Using cache\n")
	}
	say(" ---> " + i.id[7:19] + "\n")
	stream.line(map[string]any{"aux": map[string]string{"ID": i.id}})
}
