package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

// machine is a home, a runtime directory and the places of system sockets.
type machine struct {
	t       *testing.T
	dir     string
	env     map[string]string
	sockets sockets
}

func newMachine(t *testing.T) *machine {
	// Sockets have short names, and t.TempDir has the test's name in it.
	dir, err := os.MkdirTemp("/tmp", "ep")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &machine{t, dir, map[string]string{}, sockets{dir + "/sys/docker.sock", dir + "/sys/podman.sock"}}
}

func (m *machine) socket(name string) {
	m.t.Helper()
	path := m.dir + "/" + name
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = l.Close() })
}

func (m *machine) file(name, text string) {
	m.t.Helper()
	path := m.dir + "/" + name
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// context writes a docker context as the docker command does.
func (m *machine) context(name, host string) (id string) {
	m.t.Helper()
	sum := sha256.Sum256([]byte(name))
	id = hex.EncodeToString(sum[:])
	meta, err := json.Marshal(map[string]any{
		"Name": name, "Metadata": map[string]any{},
		"Endpoints": map[string]any{"docker": map[string]any{"Host": host, "SkipTLSVerify": false}},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.file("home/.docker/contexts/meta/"+id+"/meta.json", string(meta))
	return id
}

func (m *machine) resolve() (Endpoint, error) {
	return resolve(Surroundings{func(k string) string { return m.env[k] }, m.dir + "/home"}, m.sockets)
}

func TestC22_WhichEngine(t *testing.T) {
	t.Parallel()
	const current = `{"auths": {}, "currentContext": "colima"}`
	every := func(m *machine) {
		for _, s := range []string{"sys/docker.sock", "run/docker.sock", "home/.docker/run/docker.sock", "run/podman/podman.sock", "sys/podman.sock"} {
			m.socket(s)
		}
		m.env["XDG_RUNTIME_DIR"] = m.dir + "/run"
	}
	for name, c := range map[string]struct {
		prepare func(m *machine)
		host    string // DIR is the machine's directory
		why     string
		context string
	}{
		"DOCKER_HOST before all": {func(m *machine) {
			every(m)
			m.context("colima", "unix:///colima.sock")
			m.file("home/.docker/config.json", current)
			m.env["DOCKER_HOST"], m.env["DOCKER_CONTEXT"] = "unix:///other.sock", "colima"
		}, "unix:///other.sock", "DOCKER_HOST", ""},
		"DOCKER_HOST on loopback": {func(m *machine) { m.env["DOCKER_HOST"] = "tcp://127.0.0.1:2375" }, "tcp://127.0.0.1:2375", "DOCKER_HOST", ""},
		"DOCKER_HOST by name":     {func(m *machine) { m.env["DOCKER_HOST"] = "tcp://localhost:2375" }, "tcp://localhost:2375", "DOCKER_HOST", ""},
		"DOCKER_HOST, IPv6":       {func(m *machine) { m.env["DOCKER_HOST"] = "tcp://[::1]:2375" }, "tcp://[::1]:2375", "DOCKER_HOST", ""},
		"DOCKER_HOST, no scheme":  {func(m *machine) { m.env["DOCKER_HOST"] = "127.0.0.1:2375" }, "tcp://127.0.0.1:2375", "DOCKER_HOST", ""},
		"DOCKER_CONTEXT before the current one": {func(m *machine) {
			every(m)
			m.context("colima", "unix:///colima.sock")
			m.context("desk", "unix:///desk.sock")
			m.file("home/.docker/config.json", current)
			m.env["DOCKER_CONTEXT"] = "desk"
		}, "unix:///desk.sock", `context "desk" (DOCKER_CONTEXT)`, "desk"},
		"the current context, and no socket": {func(m *machine) {
			m.context("colima", "unix:///colima.sock")
			m.file("home/.docker/config.json", current)
		}, "unix:///colima.sock", `context "colima" (current context in DIR/home/.docker/config.json)`, "colima"},
		"DOCKER_CONFIG": {func(m *machine) {
			m.env["DOCKER_CONFIG"] = m.dir + "/home/.docker" // where the contexts are written
			m.context("colima", "unix:///colima.sock")
			m.file("home/.docker/config.json", current)
		}, "unix:///colima.sock", "", "colima"},
		"the default context is no context": {func(m *machine) {
			every(m)
			m.file("home/.docker/config.json", current)
			m.env["DOCKER_CONTEXT"] = "default"
		}, "unix://DIR/sys/docker.sock", "the first socket found", ""},
		"a configuration without a context": {func(m *machine) {
			every(m)
			m.file("home/.docker/config.json", `{"auths": {}}`)
		}, "unix://DIR/sys/docker.sock", "the first socket found", ""},
		"the system's socket": {every, "unix://DIR/sys/docker.sock", "the first socket found", ""},
		"a rootless engine": {func(m *machine) {
			m.env["XDG_RUNTIME_DIR"] = m.dir + "/run"
			for _, s := range []string{"run/docker.sock", "home/.docker/run/docker.sock", "run/podman/podman.sock", "sys/podman.sock"} {
				m.socket(s)
			}
		}, "unix://DIR/run/docker.sock", "", ""},
		"Docker Desktop": {func(m *machine) {
			m.socket("home/.docker/run/docker.sock")
			m.socket("sys/podman.sock")
		}, "unix://DIR/home/.docker/run/docker.sock", "", ""},
		"a user's podman": {func(m *machine) {
			m.env["XDG_RUNTIME_DIR"] = m.dir + "/run"
			m.socket("run/podman/podman.sock")
			m.socket("sys/podman.sock")
		}, "unix://DIR/run/podman/podman.sock", "", ""},
		"the system's podman":      {func(m *machine) { m.socket("sys/podman.sock") }, "unix://DIR/sys/podman.sock", "", ""},
		"a file is not a socket":   {func(m *machine) { m.file("sys/docker.sock", ""); m.socket("sys/podman.sock") }, "unix://DIR/sys/podman.sock", "", ""},
		"a link to a socket is it": {func(m *machine) { m.socket("x"); m.link("x", "sys/docker.sock") }, "unix://DIR/sys/docker.sock", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			c.prepare(m)
			e, err := m.resolve()
			in := func(s string) string { return strings.ReplaceAll(s, "DIR", m.dir) }
			if err != nil || e.Host != in(c.host) || e.Context != c.context || c.why != "" && e.Why != in(c.why) {
				t.Errorf("got %+v, %v", e, err)
			}
		})
	}
}

func (m *machine) link(from, to string) {
	m.t.Helper()
	m.file(to+".d/x", "")
	if err := os.Symlink(m.dir+"/"+from, m.dir+"/"+to); err != nil {
		m.t.Fatal(err)
	}
}

func TestC22_RefusedByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(m *machine)
		kind    fault.Kind
		says    []string
	}{
		"ssh":           {func(m *machine) { m.env["DOCKER_HOST"] = "ssh://me@far.test" }, fault.Usage, []string{"ssh://me@far.test", "DOCKER_HOST", "remote"}},
		"tcp":           {func(m *machine) { m.env["DOCKER_HOST"] = "tcp://10.0.0.7:2376" }, fault.Usage, []string{"tcp://10.0.0.7:2376", "remote"}},
		"a password":    {func(m *machine) { m.env["DOCKER_HOST"] = "tcp://me:secret@far.test:1" }, fault.Usage, []string{"far.test"}},
		"no path":       {func(m *machine) { m.env["DOCKER_HOST"] = "unix://docker.sock" }, fault.Usage, []string{"no absolute path"}},
		"pipe":          {func(m *machine) { m.env["DOCKER_HOST"] = "npipe:////./pipe/docker_engine" }, fault.Usage, []string{"npipe", "none that flisk can use"}},
		"fd":            {func(m *machine) { m.env["DOCKER_HOST"] = "fd://" }, fault.Usage, []string{`"fd://" (DOCKER_HOST`, "none that flisk can use"}},
		"garbage":       {func(m *machine) { m.env["DOCKER_HOST"] = "garbage" }, fault.Usage, []string{`"garbage" (DOCKER_HOST`, "none that flisk can use"}},
		"no host in it": {func(m *machine) { m.env["DOCKER_HOST"] = "tcp://" }, fault.Usage, []string{`"tcp://"`, "none that flisk can use"}},
		"far, bare":     {func(m *machine) { m.env["DOCKER_HOST"] = "far.test:2375" }, fault.Usage, []string{"far.test:2375", "remote"}},
		"no context":    {func(m *machine) { m.env["DOCKER_CONTEXT"] = "gone" }, fault.Usage, []string{`"gone"`, "DOCKER_CONTEXT", "no such context"}},
		"far context":   {func(m *machine) { m.context("far", "ssh://far.test"); m.env["DOCKER_CONTEXT"] = "far" }, fault.Usage, []string{"ssh://far.test", `context "far"`}},
		"no host":       {func(m *machine) { m.context("empty", ""); m.env["DOCKER_CONTEXT"] = "empty" }, fault.Usage, []string{"no host"}},
		"broken config": {func(m *machine) { m.file("home/.docker/config.json", "{") }, fault.Usage, []string{"config.json"}},
		"nothing":       {func(*machine) {}, fault.Environment, []string{"no Docker engine", "sys/docker.sock", "home/.docker/run/docker.sock", "podman.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			c.prepare(m)
			_, err := m.resolve()
			mustFault(t, err, c.kind, c.says...)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error holds a password: %v", err)
			}
		})
	}
}

func TestC22_TLS(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	id := m.context("safe", "tcp://127.0.0.1:2376")
	m.file("home/.docker/contexts/tls/"+id+"/docker/ca.pem", "x")
	m.env["DOCKER_CONTEXT"] = "safe"
	e, err := m.resolve()
	if want := (certificates{m.dir + "/home/.docker/contexts/tls/" + id + "/docker", true}); err != nil || e.tls != want {
		t.Errorf("a context: %+v, %v", e, err)
	}
	for env, want := range map[string]certificates{
		"":                    {},
		"DOCKER_CERT_PATH=/c": {},
		"DOCKER_TLS=1":        {m.dir + "/home/.docker", false},
		"DOCKER_TLS_VERIFY=1": {m.dir + "/home/.docker", true},
		"DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=/c": {"/c", true},
	} {
		m.env = map[string]string{"DOCKER_HOST": "tcp://127.0.0.1:2376"}
		for pair := range strings.FieldsSeq(env) {
			k, v, _ := strings.Cut(pair, "=")
			m.env[k] = v
		}
		if e, err := m.resolve(); err != nil || e.tls != want {
			t.Errorf("%q: %+v, %v", env, e, err)
		}
	}
}
