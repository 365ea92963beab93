package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"go.uber.org/goleak"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// program is the static program of testdata/program. On a real engine all tests
// share one image of it, which carries the run's own label.
var (
	program string
	thisRun = "run-" + newName()
)

func newName() string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "program")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	if err := moreAtOnce(); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := suiteProgram.Remove(); err != nil {
		panic(err)
	}
	if err := removeSharedImage(); err != nil {
		panic(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			panic(err)
		}
	}
	os.Exit(code)
}

// moreAtOnce lets twice as many tests run at once, unless the command says how many:
// most of the time they wait for an engine, or for an agent.
func moreAtOnce() error {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() != parallel.DefValue {
		return nil
	}
	return flag.Set(parallel.Name, strconv.Itoa(2*runtime.GOMAXPROCS(0)))
}

func removeSharedImage() error {
	endpoint, err := Resolve(Surroundings{os.Getenv, os.Getenv("HOME")})
	if err != nil {
		return nil // then no test made one
	}
	e, err := connect(context.Background(), endpoint, "")
	if err != nil {
		return nil
	}
	return errors.Join(removeImages(e, thisRun), e.close())
}

func removeImages(e *engine, project string) error {
	images, err := e.api.ImageList(context.Background(), image.ListOptions{All: true, Filters: ofProject(project)})
	for _, i := range images {
		_, gone := e.api.ImageRemove(context.Background(), i.ID, image.RemoveOptions{Force: true, PruneChildren: true})
		if !errdefs.IsNotFound(gone) { // else it went with one that was made of it
			err = errors.Join(err, gone)
		}
	}
	return err
}

// apis are the versions that the fake engine plays for what is tried on each. The one
// in between makes no difference that one of these does not make, and is what all
// other tests run on; FLISK_TEST_LONG=1 has it, too.
var apis = playedAPIs()

func playedAPIs() []string {
	if os.Getenv("FLISK_TEST_LONG") == "1" {
		return []string{"1.41", "1.44", "1.52"}
	}
	return []string{"1.41", "1.52"}
}

// rig is an engine with a project of the test's own on it.
type rig struct {
	t       *testing.T
	fake    *dockertest.Engine // nil on a real engine
	e       *engine
	project string
}

// everywhere runs a test on the real engine and on the fake one, in each of its
// versions.
func everywhere(t *testing.T, test func(r *rig)) {
	for _, api := range apis {
		t.Run("fake "+api, func(t *testing.T) {
			t.Parallel()
			test(newFake(t, dockertest.Options{API: api}))
		})
	}
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(newReal(t))
	})
}

func newFake(t *testing.T, o dockertest.Options) *rig {
	t.Helper()
	fake := dockertest.Start(t, o)
	return newRig(t, fake, Endpoint{Host: fake.Host(), Why: "the test"})
}

// newReal needs an engine, and on it the image of the gateway.
func newReal(t *testing.T) *rig {
	t.Helper()
	endpoint, err := Resolve(Surroundings{os.Getenv, os.Getenv("HOME")})
	if err != nil {
		dockertest.Missing(t, err)
	}
	e, err := connect(t.Context(), endpoint, "")
	if err != nil {
		dockertest.Missing(t, err)
	}
	_, ok, err := e.inspectImage(t.Context(), stack.GatewayImage)
	if err = errors.Join(err, e.close()); err == nil && !ok { // it was only a question
		err = fmt.Errorf("the Docker engine has no image %s", stack.GatewayImage)
	}
	if err != nil {
		dockertest.Missing(t, err)
	}
	return newRig(t, nil, endpoint)
}

func newRig(t *testing.T, fake *dockertest.Engine, endpoint Endpoint) *rig {
	t.Helper()
	e, err := connect(t.Context(), endpoint, "")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, fake, e, newName()}
	t.Cleanup(r.tearDown)
	return r
}

// name makes a name of the test's own.
func (r *rig) name(base string) string { return "flisk-test-" + r.project + "-" + base }

func (r *rig) labels() map[string]string { return map[string]string{labelProject: r.project} }

// tearDown removes what the test made, by its own label only.
func (r *rig) tearDown() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			r.t.Errorf("tear down: %v", err)
		}
	}
	containers, err := r.e.listContainers(ctx, r.project)
	check(err)
	for _, c := range containers {
		if c.State == container.StateRunning || c.State == container.StateRestarting {
			force := make(chan struct{})
			close(force)
			_, err := r.e.stopContainer(ctx, c.ID, force)
			check(err)
		}
		check(r.e.removeContainer(ctx, c.ID))
	}
	networks, err := r.e.listNetworks(ctx, r.project)
	check(err)
	for _, n := range networks {
		check(r.e.removeNetwork(ctx, n.ID))
	}
	volumes, err := r.e.listVolumes(ctx, r.project)
	check(err)
	for _, v := range volumes {
		check(r.e.removeVolume(ctx, volumeRef{name: v.Name, project: r.project}))
	}
	if r.fake == nil {
		check(removeImages(r.e, r.project))
	}
	check(r.e.close())
}

// image is the program as an image of the test's own.
func (r *rig) image() agentImage {
	return agentImage{
		tag: r.name("bot") + ":latest", program: program, arch: r.e.facts.Arch,
		roots: []byte("-----BEGIN CERTIFICATE-----\n"), labels: r.labels(),
	}
}

// spec is a container of the program, without networks.
func (r *rig) spec(name string, args ...string) containerSpec {
	r.t.Helper()
	img := r.image()
	if r.fake == nil {
		img.tag, img.labels = "flisk-test-"+thisRun+":latest", map[string]string{labelProject: thisRun}
	}
	if _, _, err := r.e.loadAgentImage(r.t.Context(), img); err != nil {
		r.t.Fatal(err)
	}
	return containerSpec{
		name: r.name(name),
		config: container.Config{
			Image: img.tag, Cmd: args, Labels: r.labels(), StopTimeout: new(60),
			Env: []string{"FLISK_LISTEN=0.0.0.0:4001", "NAME=" + name},
		},
		host: container.HostConfig{ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, NetworkMode: "none"},
	}
}

func (r *rig) create(s containerSpec) string {
	r.t.Helper()
	id, _, err := r.e.createContainer(r.t.Context(), s)
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// start starts a container that serves and returns when it is ready.
func (r *rig) start(s containerSpec) string {
	r.t.Helper()
	id := r.create(s)
	if err := r.e.startContainer(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	errReady := fault.New(fault.Failed, "", "ready")
	err := r.e.logs(ctx, id, logOptions{tail: -1, follow: true}, func(l logLine) error {
		if l.text == "ready" {
			return errReady
		}
		return nil
	})
	if err != errReady {
		r.t.Fatalf("the container did not get ready: %v", err)
	}
	return id
}

// run runs a container to its end.
func (r *rig) run(s containerSpec) (id string, code int) {
	r.t.Helper()
	id = r.create(s)
	if err := r.e.startContainer(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	code, err := r.e.waitContainer(ctx, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return id, code
}

func (r *rig) lines(id string, o logOptions) []logLine {
	r.t.Helper()
	var out []logLine
	if err := r.e.logs(r.t.Context(), id, o, func(l logLine) error { out = append(out, l); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// ops are what the fake engine was asked to change since.
func (r *rig) ops() string { return strings.Join(r.fake.Ops(), " ") }

func mustFault(t *testing.T, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there is no error")
	}
	if got := fault.KindOf(err); got != kind {
		t.Errorf("the fault %q is of kind %d, want %d", err, got, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error %q does not say %q", err, p)
		}
	}
}
