package traefik

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/gateway/routetest"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// program is Traefik itself: the file that FLISK_TEST_TRAEFIK names, or the one
// in the image that stacks use, when an engine here has it.
func program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("FLISK_TEST_TRAEFIK"); path != "" {
		return path
	}
	path, err := extracted()
	if err != nil {
		dockertest.Missing(t, fmt.Errorf("%w; FLISK_TEST_TRAEFIK may name a Traefik, too", err))
	}
	return path
}

// extracted is the program out of the image, copied once for all tests.
var extracted = sync.OnceValues(func() (string, error) {
	docker := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
		text := strings.TrimSpace(string(out))
		if err != nil {
			err = fmt.Errorf("docker %s: %w: %s", args[0], err, text)
		}
		return text, err
	}
	id, err := docker("create", "--pull", "never", stack.GatewayImage)
	if err != nil {
		return "", fmt.Errorf("there is no image %s here: %w", stack.GatewayImage, err)
	}
	defer docker("rm", id)
	to := filepath.Join(scratch, "traefik")
	for _, from := range []string{"/usr/local/bin/traefik", "/traefik"} {
		if _, err = docker("cp", id+":"+from, to); err == nil {
			return to, nil
		}
	}
	return "", err
})

// scratch is a directory for all tests.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "flisk-traefik-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// real is a Traefik that runs.
type real struct {
	addr    string
	routes  string // the file that it reads its routes from
	log     *bytes.Buffer
	process *os.Process
}

// serve runs Traefik with the generated files, at a free port instead of the one
// in a container and with a directory of the test's own.
func serve(t *testing.T, s stack.Stack, routes func(host string) stack.Routes) (real, stack.Routes) {
	t.Helper()
	path := program(t)
	dir := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := real{addr: ln.Addr().String(), routes: filepath.Join(dir, "dynamic", "routes.yaml"), log: &bytes.Buffer{}}
	table := routes(r.addr)
	if err := os.Mkdir(filepath.Dir(r.routes), 0o777); err != nil {
		t.Fatal(err)
	}
	r.replace(t, table)
	config, err := staticAt(s, r.addr, filepath.Dir(r.routes))
	if err != nil {
		t.Fatal(err)
	}
	static := filepath.Join(dir, "static.yaml")
	if err := os.WriteFile(static, config, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--configFile="+static)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.WaitDelay = r.log, r.log, []string{}, time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.process = cmd.Process
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Traefik said:\n%s", r.log)
		}
	})
	r.await(t, table.Hash())
	return r, table
}

// replace writes the routes as they are written while Traefik runs.
func (r real) replace(t *testing.T, table stack.Routes) {
	t.Helper()
	data, err := Dynamic(table)
	if err != nil {
		t.Fatal(err)
	}
	temporary := r.routes + ".tmp"
	if err := os.WriteFile(temporary, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, r.routes); err != nil {
		t.Fatal(err)
	}
}

// await returns when answers carry the hash of a table.
func (r real) await(t *testing.T, hash string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if res, err := http.Get("http://" + r.addr + "/"); err == nil {
			_ = res.Body.Close()
			if res.Header.Get(turn.HeaderRoutes) == hash {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no answer with the routes %s", hash)
		case <-tick.C:
		}
	}
}

// backend is one agent's stand-in, and the endpoint of it.
func backend(t *testing.T, name string, h http.Handler) stack.Endpoint {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return stack.Endpoint{Replica: name, Network: "tcp", Address: s.Listener.Addr().String()}
}

// TestC27_RealRoutes holds Traefik with the generated files against the table
// that the built-in gateway is held against.
func TestC27_RealRoutes(t *testing.T) {
	t.Parallel()
	r, table := serve(t, sample(), func(host string) stack.Routes {
		table := stack.Routes{Hosts: []string{"localhost:8080", "[::1]:8080", host}}
		for _, agent := range routetest.Agents() {
			e := backend(t, agent+"-1", routetest.Backend(agent))
			table.Agents = append(table.Agents, stack.Route{Agent: agent, MaxBody: 1 << 10, Endpoints: []stack.Endpoint{e}})
		}
		return table
	})
	refused := func(t *testing.T, c routetest.Case, res *http.Response) {
		if got := res.Header.Get(turn.HeaderRoutes); got != table.Hash() && (c.Traefik == nil || !c.Traefik.Unstamped) {
			t.Errorf("%s %q, want %q", turn.HeaderRoutes, got, table.Hash())
		}
	}
	for _, name := range append(table.Hosts, "LocalHost:8080") { // a host name has no case
		routetest.Run(t, r.addr, name, routetest.Traefik(), refused)
	}
}
