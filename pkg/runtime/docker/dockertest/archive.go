package dockertest

import (
	"archive/tar"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	api "github.com/docker/docker/api/types/container"
)

// within is where a container's path is on this machine: in a mount, or in the
// files of its image.
func (e *Engine) within(ref, inside string) (host string, readOnly bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(ref)
	if err != nil {
		return "", false, err
	}
	inside = path.Clean("/" + inside)
	for _, p := range e.places(c) {
		if rest, ok := strings.CutPrefix(inside, p.inside); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(p.host, filepath.FromSlash(rest)), p.readOnly, nil
		}
	}
	if c.image.root == "" {
		return "", false, notPlayed("the file system of this image")
	}
	return filepath.Join(c.image.root, filepath.FromSlash(inside)), true, nil
}

func (e *Engine) archiveGet(w http.ResponseWriter, r *http.Request) error {
	inside := r.URL.Query().Get("path")
	host, _, err := e.within(r.PathValue("id"), inside)
	if err != nil {
		return err
	}
	info, err := os.Stat(host)
	if err != nil {
		return refuse(http.StatusNotFound, "Could not find the file %s in container %s", inside, r.PathValue("id"))
	}
	stat, err := json.Marshal(api.PathStat{Name: path.Base(inside), Size: info.Size(), Mode: info.Mode(), Mtime: info.ModTime()})
	if err != nil {
		return err
	}
	w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(stat))
	w.Header().Set("Content-Type", "application/x-tar")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if pack(w, host, path.Base(inside)) != nil {
		panic(http.ErrAbortHandler) // the status is sent: a broken stream is all that can say it
	}
	return nil
}

// pack writes a file or a directory under a name.
func pack(out io.Writer, host, name string) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(host, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			return nil
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(host, file)
		if err != nil {
			return err
		}
		h.Name = path.Join(name, filepath.ToSlash(rel))
		if info.IsDir() {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil || info.IsDir() {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it is only read
		_, err = io.CopyN(w, f, h.Size)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// archivePut unpacks into a container that does not run. What writes into one that
// does changes code under an agent's feet: that fails the test, whoever did it.
func (e *Engine) archivePut(w http.ResponseWriter, r *http.Request) error {
	inside := r.URL.Query().Get("path")
	if err := e.refuseRunning(r.PathValue("id"), inside); err != nil {
		return err
	}
	host, readOnly, err := e.within(r.PathValue("id"), inside)
	if err != nil {
		return err
	}
	if readOnly {
		return notPlayed("writing outside the writable mounts")
	}
	if info, err := os.Stat(host); err != nil || !info.IsDir() {
		return refuse(http.StatusNotFound, "Could not find the directory %s in container %s", inside, r.PathValue("id"))
	}
	if err := unpack(r.Body, host); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (e *Engine) refuseRunning(ref, inside string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(ref)
	if err != nil || c.play == nil && !c.restarting {
		return err
	}
	e.t.Errorf("dockertest: %q in the container %s, which runs, was to be written", inside, c.name)
	return notPlayed("writing into a container that runs")
}
