package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/registry"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// tree writes files; a name that ends in "/" is a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestC23_WhatABuildMaySee(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files      map[string]string
		dockerfile string
		want       string
	}{
		"everything": {map[string]string{"Dockerfile": "", "a/b.go": "", "empty/": ""}, "", "Dockerfile a a/b.go empty"},
		"never": {map[string]string{
			"Dockerfile": "", ".env": "SECRET=1", "x/.env": "", ".git/config": "", "x/.git": "gitdir: elsewhere", ".venv/bin/python": "",
			"x/node_modules/y/z.js": "", "main.go": "", ".env.example": "",
		}, "", ".env.example Dockerfile main.go x"},
		"never, whatever the file says": {map[string]string{
			"Dockerfile": "", ".env": "", "node_modules/a": "", ".git/HEAD": "", ".dockerignore": "!.env\n!node_modules\n!**/HEAD\n",
		}, "", ".dockerignore Dockerfile"},
		"a directory": {map[string]string{"Dockerfile": "", "data/a": "", "data/b/c": "", "x/data/a": "", ".dockerignore": "data/\n"},
			"", ".dockerignore Dockerfile x x/data x/data/a"},
		"at any depth": {map[string]string{"Dockerfile": "", "a.log": "", "x/b.log": "", "x/y/c.log": "", "x/c.go": "", ".dockerignore": "**/*.log\n"},
			"", ".dockerignore Dockerfile x x/c.go x/y"},
		"an exception": {map[string]string{"Dockerfile": "", "data/a": "", "data/keep/b": "", ".dockerignore": "# all but one\ndata\n!data/keep\n"},
			"", ".dockerignore Dockerfile data/keep data/keep/b"},
		"an exception at any depth": {map[string]string{"Dockerfile": "", "a/b/c.md": "", "a/b/README.md": "", "a/x.go": "", ".dockerignore": "a\n!**/README.md\n"},
			"", ".dockerignore Dockerfile a/b/README.md"},
		"all but a few": {map[string]string{"Dockerfile": "", "go.mod": "", "x": "", "cmd/main.go": "", "cmd/x.txt": "", ".dockerignore": "*\n!go.mod\n!cmd/*.go\n"},
			"", "Dockerfile cmd/main.go go.mod"},
		"the Dockerfile is always sent": {map[string]string{"build/Dockerfile": "", "build/x": "", "y": "", ".dockerignore": "build\n"},
			"build/Dockerfile", ".dockerignore build/Dockerfile y"},
		"a Dockerfile's own file": {map[string]string{"d": "", "x": "", "y": "", ".dockerignore": "x\n", "d.dockerignore": "y\n"},
			"d", ".dockerignore d d.dockerignore x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.dockerfile == "" {
				c.dockerfile = "Dockerfile"
			}
			got, err := collectContext(tree(t, c.files), c.dockerfile)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range got.files {
				names = append(names, f.name)
			}
			slices.Sort(names)
			if s := strings.Join(names, " "); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
}

func TestC23_IgnoredDirectoryCostsNothing(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"Dockerfile": "FROM scratch\n", ".dockerignore": "big\n!keep/**\n", "keep/x": "", "big/huge": ""})
	if err := os.Truncate(filepath.Join(dir, "big", "huge"), 1<<30); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c, err := collectContext(dir, "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	body, stop := c.stream()
	n, err := io.Copy(io.Discard, body)
	stop()
	if err != nil || n > 1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestC23_LargeContextIsNamed(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"Dockerfile": "", "big": ""})
	for bytesIn, warned := range map[int64]bool{40e6: false, 60e6: true} {
		if err := os.Truncate(filepath.Join(dir, "big"), bytesIn); err != nil {
			t.Fatal(err)
		}
		c, err := collectContext(dir, "Dockerfile")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := c.announce(&out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), size(bytesIn)) || strings.Contains(out.String(), "warning: that is more than 50.0 MB") != warned {
			t.Errorf("%d bytes: %q", bytesIn, &out)
		}
	}
}

// builds makes an image of the program, where the fake engine builds.
func builds(t *testing.T, result dockertest.BuildResult, seen *dockertest.BuildRequest) dockertest.Options {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	result.Program = data
	return dockertest.Options{Build: func(b dockertest.BuildRequest) (dockertest.BuildResult, error) {
		if seen != nil {
			*seen = b
		}
		return result, nil
	}}
}

func (r *rig) build(dockerfile string, more map[string]string) (id, output string, err error) {
	r.t.Helper()
	files := map[string]string{"Dockerfile": dockerfile, ".env": "SECRET=hunter2"}
	for k, v := range more {
		files[k] = v
	}
	var out strings.Builder
	id, _, err = r.e.buildDockerfile(r.t.Context(), dockerfileBuild{
		tag: r.name("built") + ":latest", dir: tree(r.t, files), labels: r.labels(),
	}, &out)
	return id, out.String(), err
}

func TestC23_Dockerfile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	check := func(r *rig) {
		id, output, err := r.build("FROM scratch\nCOPY --chown=65532:65532 agent /agent\nENTRYPOINT [\"/agent\"]\nCMD [\"exit\", \"4\"]\n", map[string]string{"agent": string(data)})
		if err != nil {
			r.t.Fatal(err)
		}
		if !strings.HasPrefix(output, "sending ") || !strings.Contains(output, "Successfully built") || strings.Contains(output, "{") {
			r.t.Errorf("the output is %q", output)
		}
		img, ok, err := r.e.inspectImage(r.t.Context(), r.name("built"))
		if err != nil || !ok || img.ID != id || img.Config.Labels[labelProject] != r.project {
			r.t.Errorf("%s: %v %+v, %v", id, ok, img.Config, err)
		}
	}
	t.Run("real", func(t *testing.T) { check(newReal(t)) })
	t.Run("fake", func(t *testing.T) {
		var seen dockertest.BuildRequest
		r := newFake(t, builds(t, dockertest.BuildResult{Log: "Step 1/4\n"}, &seen))
		check(r)
		if !bytes.Equal(seen.Files["agent"], data) || seen.Query.Get("dockerfile") != "Dockerfile" {
			t.Errorf("the engine got %v", seen.Query)
		}
		for name, text := range seen.Files {
			if name == ".env" || bytes.Contains(text, []byte("hunter2")) {
				t.Errorf("a secret was sent: %s", name)
			}
		}
	})
}

// The status is 200, and the build failed.
func TestC23_ErrorInTheStream(t *testing.T) {
	t.Parallel()
	t.Run("real", func(t *testing.T) {
		r := newReal(t)
		_, _, err := r.build("FROM scratch\nCOPY nothing /\n", nil)
		mustFault(t, err, fault.Failed, "nothing")
	})
	t.Run("fake", func(t *testing.T) {
		r := newFake(t, builds(t, dockertest.BuildResult{Log: "Step 1/2\n", Error: "exit code: 3"}, nil))
		_, output, err := r.build("FROM scratch\n", nil)
		mustFault(t, err, fault.Failed, "exit code: 3")
		if !strings.Contains(output, "Step 1/2") {
			t.Errorf("the output is %q", output)
		}
	})
	t.Run("no end", func(t *testing.T) {
		for _, stream := range []string{`{"stream":"Step`, `{"stream":"a"} junk`, "<html>"} {
			if err := readMessages(strings.NewReader(stream), io.Discard); err == nil {
				t.Errorf("%q is no error", stream)
			}
		}
	})
}

func TestC23_BuildThatIsStopped(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	r := newFake(t, dockertest.Options{Build: func(b dockertest.BuildRequest) (dockertest.BuildResult, error) {
		close(asked)
		<-b.Context.Done() // it is told to the engine
		return dockertest.BuildResult{}, b.Context.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, _, err := r.e.buildDockerfile(ctx, dockerfileBuild{tag: r.name("x"), dir: tree(t, map[string]string{"Dockerfile": ""})}, io.Discard)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestC23_FilesThatChange(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"Dockerfile": "FROM scratch\n", "x": "long enough"})
	c, err := collectContext(dir, "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "x"), 2); err != nil {
		t.Fatal(err)
	}
	body, stop := c.stream()
	_, err = io.Copy(io.Discard, body)
	stop()
	if err == nil || c.err() == nil || !strings.Contains(c.err().Error(), `"x" became shorter`) {
		t.Errorf("%v, %v", err, c.err())
	}
}

func TestNoDockerfile(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	for _, name := range []string{"Dockerfile", "../Dockerfile", "dir"} {
		_, _, err := r.e.buildDockerfile(t.Context(), dockerfileBuild{dir: tree(t, map[string]string{"dir/": ""}), dockerfile: name}, io.Discard)
		mustFault(t, err, fault.Usage, filepath.Base(name))
	}
}

func TestPullWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{
		Images: []dockertest.Image{{Ref: "redis:7"}},
		Registry: map[string]dockertest.Pullable{
			"postgres:17":        {Layers: 3},
			"example.test/x:1.0": {Layers: 1, Error: "toomanyrequests: you have reached your limit"},
		},
	})
	var out strings.Builder
	if pulled, err := r.e.pullMissing(t.Context(), "redis:7", registry.AuthConfig{}, &out); err != nil || pulled || out.Len() > 0 {
		t.Errorf("one that is there: %v, %v, %q", pulled, err, &out)
	}
	if pulled, err := r.e.pullMissing(t.Context(), "postgres:17", registry.AuthConfig{}, &out); err != nil || !pulled {
		t.Errorf("one that is missing: %v, %v", pulled, err)
	}
	if n := strings.Count(out.String(), "Pull complete"); n != 3 || strings.Count(out.String(), "\n") > 25 || !strings.Contains(out.String(), " MB of ") {
		t.Errorf("the progress is\n%s", &out)
	}
	if _, ok, err := r.e.inspectImage(t.Context(), "postgres:17"); err != nil || !ok {
		t.Errorf("it is not there: %v", err)
	}
	_, err := r.e.pullMissing(t.Context(), "example.test/x:1.0", registry.AuthConfig{}, io.Discard)
	mustFault(t, err, fault.Failed, "example.test/x:1.0", "toomanyrequests")
	_, err = r.e.pullMissing(t.Context(), "nobody/knows", registry.AuthConfig{}, io.Discard)
	mustFault(t, err, fault.Failed, "pull access denied")
}
