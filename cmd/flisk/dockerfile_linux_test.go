package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// TestC23_ScaffoldedDockerfile: where there is no Go, the engine builds the image
// by the Dockerfile that init wrote, and what a build leaves goes with the next.
// Only the name of the image with Go in it is changed: this one is made of this
// machine's own, because nothing is pulled.
func TestC23_ScaffoldedDockerfile(t *testing.T) {
	t.Parallel()
	if os.Getenv("FLISK_TEST_LONG") != "1" {
		t.Skip("compiles in a container, from nothing, twice (FLISK_TEST_LONG=1)")
	}
	w := newDockerWorld(t)
	golang := goImage(t)
	p := w.dockerProject(filepath.Join(t.TempDir(), "bot"))
	p.edit("Dockerfile", regexp.MustCompile(`(?m)^FROM golang:\S+ AS build$`), "FROM "+golang+" AS build")
	i := slices.IndexFunc(w.env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	w.env[i] = "PATH=" + t.TempDir() // the binary is there already

	if _, errOut, code := p.try(p.dir, "up"); code != 0 || !strings.Contains(errOut, "go build -trimpath") {
		t.Fatalf("up: exit code %d\n%s", code, errOut)
	}
	p.say("s1", "hi")
	first := p.stages()
	if len(first) != 1 {
		t.Fatalf("the build left %q", first)
	}
	p.do("restart") // the image is there, and nothing is built
	p.edit("main.go", regexp.MustCompile(`(?s)$`), "\n// edited\n")
	p.do("up")
	if reply := p.say("s1", "more"); !strings.Contains(reply, `"hi"`) {
		t.Errorf("after the second build, the reply does not reflect the turns before: %s", reply)
	}
	second := p.stages()
	if len(second) != 1 || second[0] == first[0] {
		t.Errorf("the second build left %q, the first one %q", second, first)
	}
	if exec.Command("docker", "image", "inspect", first[0]).Run() == nil {
		t.Errorf("what the first build left is there: %s", first[0])
	}
	p.do("down")
	docker(t, append([]string{"image", "rm"}, second...)...)
}

// stages are what builds by a Dockerfile left, as flisk has written it down.
func (p *project) stages() (ids []string) {
	p.t.Helper()
	content, err := os.ReadFile(filepath.Join(p.home, "projects", p.id()+".stages"))
	var stages []struct{ ID string }
	if err == nil {
		err = json.Unmarshal(content, &stages)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range stages {
		ids = append(ids, s.ID)
	}
	return ids
}

// goImage makes an image of this machine's Go, and of what else the Dockerfile
// runs, and removes it when the test ends.
func goImage(t *testing.T) string {
	t.Helper()
	root := strings.TrimSpace(said(t, "go", "env", "GOROOT"))
	const certificates = "/etc/ssl/certs/ca-certificates.crt"
	files := []string{root + "/bin", root + "/pkg", root + "/src", root + "/go.env", root + "/VERSION", certificates}
	for _, name := range []string{"/bin/sh", "cp", "mkdir", "chmod"} { // RUN takes the shell by its path
		path, err := exec.LookPath(name)
		if err != nil {
			dockertest.Missing(t, err)
		}
		files = append(files, path)
		for _, field := range strings.Fields(said(t, "ldd", path)) {
			if strings.HasPrefix(field, "/") {
				files = append(files, field)
			}
		}
	}
	if _, err := os.Stat(certificates); err != nil {
		dockertest.Missing(t, err)
	}
	empty := t.TempDir()
	if err := os.Mkdir(filepath.Join(empty, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	pack := exec.Command("tar", append([]string{"--create", "--dereference", "--absolute-names", "--transform=s,^/,,", "--file=-"},
		append(slices.Compact(files), "--directory="+empty, "tmp")...)...)
	name := fmt.Sprintf("flisk-test-golang-%s", filepath.Base(empty)+fmt.Sprint(os.Getpid()))
	load := exec.Command("docker", "import",
		"--change", "ENV PATH="+root+"/bin:/usr/bin:/bin", "--change", "ENV GOTOOLCHAIN=local", "--change", "ENV GOPROXY=off", "--change", "ENV HOME=/tmp", "-", name)
	var err error
	if load.Stdin, err = pack.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := pack.Start(); err != nil {
		t.Fatal(err)
	}
	out, err := load.CombinedOutput()
	if packing := pack.Wait(); err != nil || packing != nil {
		t.Fatalf("no image with Go: %v, %v\n%s", err, packing, out)
	}
	t.Cleanup(func() { docker(t, "image", "rm", name) })
	return name
}

// said is what a program says, which must succeed.
func said(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}
