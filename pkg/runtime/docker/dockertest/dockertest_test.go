package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/nat"
	"go.uber.org/goleak"

	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/stack/traefik"
)

// program is the static program of the driver's tests.
var program []byte

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "program")
	if err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-o", file, "../testdata/program").CombinedOutput(); err != nil {
		panic(string(out))
	}
	if program, err = os.ReadFile(file); err != nil {
		panic(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func connect(t *testing.T, e *Engine) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(e.Host()), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// load makes an image of the program.
func load(t *testing.T, c *client.Client, tag string) {
	t.Helper()
	archive := func(files map[string][]byte) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for name, data := range files {
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(data); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	layer := archive(map[string][]byte{"agent": program})
	sum := sha256.Sum256(layer)
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/agent"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}`, hex.EncodeToString(sum[:]))
	manifest := fmt.Sprintf(`[{"Config":"c.json","RepoTags":[%q],"Layers":["l.tar"]}]`, tag)
	resp, err := c.ImageLoad(t.Context(), bytes.NewReader(archive(map[string][]byte{
		"c.json": []byte(config), "l.tar": layer, "manifest.json": []byte(manifest),
	})))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // an image that is missing is noticed next
	_ = resp.Body.Close()
}

func run(t *testing.T, c *client.Client, name string, config api.Config, host api.HostConfig, aliases ...string) string {
	t.Helper()
	networks := &network.NetworkingConfig{}
	if len(aliases) > 0 {
		host.NetworkMode = "n"
		networks.EndpointsConfig = map[string]*network.EndpointSettings{"n": {Aliases: aliases}}
	}
	made, err := c.ContainerCreate(t.Context(), &config, &host, networks, nil, name)
	if err == nil {
		err = c.ContainerStart(t.Context(), made.ID, api.StartOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.Tick(10 * time.Millisecond); !ok(); <-tick {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for announced, cases := range map[string]map[string]string{
		"1.41": {"1.42": "too new. Maximum supported API version is 1.41", "1.41": "", "1.24": ""},
		"1.52": {"1.43": "too old. Minimum supported API version is 1.44", "1.44": "", "1.52": "", "1.53": "too new"},
	} {
		e := Start(t, Options{API: announced})
		for asked, refused := range cases {
			c, err := client.NewClientWithOpts(client.WithHost(e.Host()), client.WithVersion(asked))
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.ContainerList(t.Context(), api.ListOptions{})
			_ = c.Close()
			if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
				t.Errorf("API %s asked for %s: %v", announced, asked, err)
			}
		}
	}
}

func TestWhatIsNotPlayedIsRefused(t *testing.T) {
	t.Parallel()
	e := Start(t, Options{Images: []Image{{Ref: "redis:7"}}})
	c := connect(t, e)
	for name, ask := range map[string]func() error{
		"prune":  func() error { _, err := c.VolumesPrune(t.Context(), filters.Args{}); return err },
		"update": func() error { _, err := c.ContainerUpdate(t.Context(), "x", api.UpdateConfig{}); return err },
		"swarm":  func() error { _, err := c.SwarmInspect(t.Context()); return err },
		"usage":  func() error { _, err := c.ContainerStatsOneShot(t.Context(), "x"); return err },
		"driver": func() error {
			_, err := c.VolumeCreate(t.Context(), volume.CreateOptions{Name: "v", Driver: "nfs"})
			return err
		},
		"privileged": func() error {
			_, err := c.ContainerCreate(t.Context(), &api.Config{Image: "redis:7"}, &api.HostConfig{Privileged: true}, nil, nil, "x")
			return err
		},
	} {
		if err := ask(); !errdefs.IsNotImplemented(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e.Calls()[1].Status != http.StatusNotImplemented {
		t.Errorf("the calls are %+v", e.Calls())
	}
}

// complaints is a test that is told of errors, and does not fail.
type complaints struct {
	testing.TB
	told atomic.Int32
}

func (c *complaints) Errorf(string, ...any) { c.told.Add(1) }

// TestNothingIsWrittenIntoWhatRuns: whoever tries has failed its test.
func TestNothingIsWrittenIntoWhatRuns(t *testing.T) {
	t.Parallel()
	told := &complaints{TB: t}
	e := Start(told, Options{Images: []Image{{Ref: "redis:7"}}})
	c := connect(t, e)
	made, err := c.ContainerCreate(t.Context(), &api.Config{Image: "redis:7"}, &api.HostConfig{Binds: []string{t.TempDir() + ":/data"}}, nil, nil, "x")
	if err != nil {
		t.Fatal(err)
	}
	put := func() error {
		var archive bytes.Buffer
		if err := tar.NewWriter(&archive).Close(); err != nil {
			t.Fatal(err)
		}
		return c.CopyToContainer(t.Context(), made.ID, "/data", &archive, api.CopyToContainerOptions{})
	}
	if err := put(); err != nil || told.told.Load() > 0 {
		t.Errorf("before it runs: %v", err)
	}
	if err := c.ContainerStart(t.Context(), made.ID, api.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := put(); !errdefs.IsNotImplemented(err) || told.told.Load() != 1 {
		t.Errorf("while it runs: %v, and the test was told of %d errors", err, told.told.Load())
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	e := Start(t, Options{})
	c := connect(t, e)
	create := func(name string) error {
		_, err := c.VolumeCreate(t.Context(), volume.CreateOptions{Name: name})
		return err
	}
	e.Fail(Failure{Op: "VolumeCreate", N: 2, Status: http.StatusTeapot, Message: "before"})
	e.Fail(Failure{Op: "VolumeCreate", N: 3, After: true, Message: "after"})
	e.Fail(Failure{N: 4, Drop: true}) // of any change
	for n, want := range []string{"", "before", "after", "EOF", ""} {
		err := create(fmt.Sprint("v", n))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("call %d: %v", n, err)
		}
		if _, err := c.VolumeList(t.Context(), volume.ListOptions{}); err != nil { // counts for none of them
			t.Error(err)
		}
	}
	if got := strings.Join(e.Volumes(), " "); got != "v0 v2 v4" {
		t.Errorf("the volumes are %s", got)
	}
	if ops := e.Ops(); len(ops) != 5 {
		t.Errorf("the changes are %q", ops)
	}
}

func TestRestartPolicy(t *testing.T) {
	t.Parallel()
	e := Start(t, Options{})
	c := connect(t, e)
	load(t, c, "bot")
	crash := api.Config{Image: "bot", Env: []string{"CRASH=3"}}
	again := run(t, c, "again", crash, api.HostConfig{RestartPolicy: api.RestartPolicy{Name: api.RestartPolicyUnlessStopped}})
	run(t, c, "once", crash, api.HostConfig{})
	state := func(name string) ContainerState {
		for _, s := range e.Containers() {
			if s.Name == name {
				return s
			}
		}
		return ContainerState{}
	}
	eventually(t, "two restarts", func() bool { return state("again").Restarts >= 2 })
	eventually(t, "an exit", func() bool { return state("once").Status == "exited" })
	if s := state("once"); s.ExitCode != 3 || s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
	if err := c.ContainerStop(t.Context(), again, api.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if s := state("again"); s.Status != "exited" {
		t.Errorf("after a stop: %+v", s)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	e := Start(t, Options{})
	c := connect(t, e)
	load(t, c, "bot")
	check := &api.HealthConfig{Test: []string{"CMD", "/agent", "health"}, Interval: 20 * time.Millisecond}
	id := run(t, c, "bot", api.Config{Image: "bot", Env: []string{"FLISK_LISTEN=0.0.0.0:4001"}, Healthcheck: check}, api.HostConfig{})
	eventually(t, "health", func() bool {
		got, err := c.ContainerInspect(t.Context(), id)
		return err == nil && got.State.Health.Status == api.Healthy
	})
}

// The gateway is asked with what flisk generates for the real one.
func TestGateway(t *testing.T) {
	t.Parallel()
	e := Start(t, Options{Images: []Image{{Ref: "traefik:v3.7.13"}}})
	c := connect(t, e)
	load(t, c, "bot")
	if _, err := c.NetworkCreate(t.Context(), "n", network.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	port := porttest.Free(t)
	s := stack.Stack{Name: "shop", ID: "0123456789ab", Gateway: stack.Gateway{Bind: "127.0.0.1", Port: port}}
	dir := t.TempDir()
	static, err := traefik.Static(s)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(routes stack.Routes) {
		t.Helper()
		data, err := traefik.Dynamic(routes)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "new"), data, 0o600)
		}
		if err == nil {
			err = os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "dynamic", "routes.yaml"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	routes := func(alias string) stack.Routes {
		return stack.Routes{Hosts: s.Gateway.HostNames(), Agents: []stack.Route{
			{Agent: "bot", Endpoints: []stack.Endpoint{{Replica: "bot-1", Network: "tcp", Address: alias + ":4001"}}},
		}}
	}
	if err := os.WriteFile(filepath.Join(dir, "static.yaml"), static, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dynamic"), 0o700); err != nil {
		t.Fatal(err)
	}
	publish(routes("bot-1-g001"))
	gateway := run(t, c, "gateway", api.Config{Image: "traefik:v3.7.13", Cmd: []string{"--configFile=/etc/traefik/static.yaml"}}, api.HostConfig{
		PortBindings: nat.PortMap{"8080/tcp": {{HostIP: "127.0.0.1", HostPort: fmt.Sprint(port)}}},
		Mounts: []mount.Mount{
			{Type: mount.TypeBind, Source: filepath.Join(dir, "static.yaml"), Target: "/etc/traefik/static.yaml", ReadOnly: true},
			{Type: mount.TypeBind, Source: filepath.Join(dir, "dynamic"), Target: "/etc/traefik/dynamic", ReadOnly: true},
		},
	}, "gateway")
	env := func(name string) []string { return []string{"FLISK_LISTEN=0.0.0.0:4001", "NAME=" + name} }

	transport := &http.Transport{DisableKeepAlives: true}
	get := func(path, host string, ctx ...context.Context) (int, string, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(append(ctx, t.Context())[0], http.MethodPost, s.Gateway.URL()+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, strings.TrimSpace(string(body)), resp.Header.Get("flisk-routes")
	}

	// A request that comes before the agent is held, and then answered once.
	held, sent := make(chan string, 1), make(chan struct{})
	go func() {
		status, body, _ := get("/api/bot/turns", "", httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) },
		}))
		held <- fmt.Sprint(status, " ", body)
	}()
	<-sent
	old := run(t, c, "old", api.Config{Image: "bot", Env: env("old")}, api.HostConfig{}, "bot", "bot-1-g001")
	if got, want := <-held, fmt.Sprintf("200 old 127.0.0.1:%d /api/bot/turns", port); got != want {
		t.Errorf("held: %q, want %q", got, want)
	}
	for path, want := range map[string]int{"/api/bot/ready": 200, "/api/bot-2/turns": 404, "/": 404, "/api/bot": 404} {
		if status, _, hash := get(path, ""); status != want || hash != routes("bot-1-g001").Hash() {
			t.Errorf("%s: %d, %s", path, status, hash)
		}
	}
	if status, _, _ := get("/api/bot/ready", "evil.test"); status != http.StatusForbidden {
		t.Errorf("another host: %d", status)
	}

	// Replaced by name: the new one is there before the table names it.
	run(t, c, "new", api.Config{Image: "bot", Env: env("new")}, api.HostConfig{}, "bot", "bot-1-g002")
	if _, body, _ := get("/api/bot/turns", ""); !strings.HasPrefix(body, "old") {
		t.Errorf("before the switch: %q", body)
	}
	publish(routes("bot-1-g002"))
	if _, body, hash := get("/api/bot/turns", ""); hash != routes("bot-1-g002").Hash() {
		t.Errorf("after the switch: %q, %s", body, hash)
	}
	eventually(t, "the new one", func() bool { _, body, _ := get("/api/bot/turns", ""); return strings.HasPrefix(body, "new") })
	if err := c.ContainerStop(t.Context(), old, api.StopOptions{}); err != nil {
		t.Fatal(err)
	}

	// What is no table leaves the last one.
	if err := os.WriteFile(filepath.Join(dir, "dynamic", "routes.yaml"), []byte("http:\n  routers:\n    x:\n      rule: Nonsense(`y`)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, body, _ := get("/api/bot/turns", ""); status != 200 || !strings.HasPrefix(body, "new") {
		t.Errorf("with a broken file: %d %q", status, body)
	}
	logs, err := c.ContainerLogs(t.Context(), gateway, api.LogsOptions{ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	if text, err := io.ReadAll(logs); err != nil || !strings.Contains(string(text), "Nonsense") {
		t.Errorf("the gateway's log is %q, %v", text, err)
	}
	if err := c.ContainerStop(t.Context(), gateway, api.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if c, err := c.ContainerInspect(t.Context(), gateway); err != nil || c.State.ExitCode != 0 {
		t.Errorf("the gateway ended with %+v, %v", c.State, err)
	}
}

func TestGatewayRefusesWhatItDoesNotPlay(t *testing.T) {
	t.Parallel()
	e := Start(t, Options{Images: []Image{{Ref: "traefik:v3.7.13"}}})
	c := connect(t, e)
	dir := t.TempDir()
	for text, want := range map[string]string{
		"providers: {docker: {}}":                         "docker",
		"providers: {file: {directory: /elsewhere}}":      "not mounted",
		"api: {insecure: true}":                           "api",
		"entryPoints: {web: {address: ':80', http3: {}}}": "http3",
	} {
		if err := os.WriteFile(filepath.Join(dir, "traefik.yml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		made, err := c.ContainerCreate(t.Context(), &api.Config{Image: "traefik:v3.7.13"}, &api.HostConfig{Binds: []string{dir + ":/etc/traefik:ro"}}, nil, nil, "g")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ContainerStart(t.Context(), made.ID, api.StartOptions{}); !errdefs.IsNotImplemented(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if err := c.ContainerRemove(t.Context(), made.ID, api.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	request := func(target, header string) *http.Request {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Session-Id", header)
		return r
	}
	for rule, want := range map[string]bool{
		"Host(`shop.test`)":                                          true,
		"Host(`other.test`)":                                         false,
		"Host(`shop.test`) && PathPrefix(`/api/bot/`)":               true,
		"PathPrefix(`/api/bot-2/`)":                                  false,
		"!(Path(`/x`) || Method(`GET`))":                             true,
		"Path(`/x`) || Method(`POST`) && Header(`X-Session-Id`,`a`)": false,
		"HeaderRegexp(`X-Session-Id`, `[5-9]$`)":                     true,
		"PathRegexp(`^/api/[a-z]+/turns$`)":                          true,
	} {
		match, err := parseRule(rule)
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		if got := match(request("http://shop.test:8080/api/bot/turns", "s5")); got != want {
			t.Errorf("%s: %v", rule, got)
		}
	}
	for _, rule := range []string{"", "Host(`a`", "Host(a)", "Host(`a`) &&", "ClientIP(`10.0.0.1`)", "Host(`a`) x", "(Host(`a`)", "Host(`a`, `b`)"} {
		if _, err := parseRule(rule); err == nil {
			t.Errorf("%q is a rule", rule)
		}
	}
}
