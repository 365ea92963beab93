package agent

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/turn"
)

func TestByHand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startCommand(t, nil, func(cmd *exec.Cmd) { cmd.Dir = dir })
	p.findAddress(t)
	p.waitLine(t, "serves at http://"+p.addr)
	if line := p.waitLine(t, "curl"); !strings.Contains(line, "http://"+p.addr+"/api/bot/turn") {
		t.Errorf("it says %q", line)
	}
	p.turn(t.Context(), "s", "", script{Say: "a"}).want(t, 200, "")
	if _, err := os.Stat(filepath.Join(dir, ".flisk", "data", "VOLUME")); err != nil {
		t.Error(err)
	}
	p.signal(t, syscall.SIGINT)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestStartFailures(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // after the parallel subtests
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		says []string
	}{
		{"bad variables", []string{"FLISK_DRAIN=soon", "FLISK_ON_BUSY=panic"}, nil, 2, []string{"FLISK_DRAIN", "FLISK_ON_BUSY"}},
		{"bad lifeline", []string{"FLISK_LIFELINE=77"}, nil, 2, []string{"FLISK_LIFELINE"}},
		{"not a directory", []string{"FLISK_DATA=" + file}, nil, 3, []string{file}},
		{"another volume", []string{"FLISK_VOLUME=expected"}, nil, 3, []string{"volume"}},
		{"address in use", []string{"FLISK_LISTEN=" + taken.Addr().String()}, nil, 3, []string{"address already in use"}},
		{"socket path in use by a file", []string{"FLISK_LISTEN=unix:" + file}, nil, 3, []string{"address already in use"}},
		{"long socket path", []string{"FLISK_LISTEN=unix:/tmp/" + strings.Repeat("x", 100)}, nil, 3, []string{"at most 103"}},
		{"bad descriptor", []string{"FLISK_LISTEN=fd:77"}, nil, 3, []string{"descriptor 77"}},
		{"health of nothing", []string{"FLISK_LISTEN=unix:" + file + ".sock"}, []string{"health"}, 1, []string{"health:"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, append([]string{"FLISK_DATA=" + t.TempDir(), "FLISK_LISTEN=127.0.0.1:0"}, c.env...), c.args...)
			for _, text := range c.says {
				p.waitLine(t, text)
			}
			if code := p.exit(t); code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
		})
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "x" {
		t.Errorf("the file in the way is now %q, %v", raw, err)
	}
}

func TestOnlyDockerRefusesAContainersOwnLayer(t *testing.T) {
	t.Parallel()
	for runtime, want := range map[string]bool{"docker": true, "process": false, "": false} {
		got := storeOptions(turn.Env{Agent: "bot", Volume: "v", Runtime: runtime}, nil)
		if got.RefuseOverlay != want || got.Agent != "bot" || got.ExpectVolume != "v" {
			t.Errorf("runtime %q: %+v", runtime, got)
		}
	}
}

// TestOverlay mounts a real overlay in a namespace of its own.
func TestOverlay(t *testing.T) {
	t.Parallel()
	isolate := func(dir, command string) []string {
		// The overlay's work directory cannot be read even by its owner.
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "work", "work"), 0o700) })
		return []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
			`cd "$1" && mkdir -p lower upper work merged && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged && ` + command,
			"sh", dir, os.Args[0]}
	}
	try := isolate(t.TempDir(), "true")
	if out, err := exec.Command(try[0], try[1:]...).CombinedOutput(); err != nil {
		t.Skipf("no overlay can be mounted here: %v: %s", err, out)
	}
	start := func(runtime string) *agentProcess {
		dir := t.TempDir()
		env := []string{"FLISK_DATA=" + filepath.Join(dir, "merged"), "FLISK_LISTEN=127.0.0.1:0", "FLISK_RUNTIME=" + runtime, "PATH=" + os.Getenv("PATH")}
		return startCommand(t, env, func(cmd *exec.Cmd) {
			args := isolate(dir, `exec "$2"`)
			path, err := exec.LookPath(args[0])
			if err != nil {
				t.Fatal(err)
			}
			cmd.Path, cmd.Args = path, args
		})
	}
	p := start("docker")
	p.waitLine(t, "mount a volume there")
	if code := p.exit(t); code != 3 {
		t.Errorf("on Docker: exit %d, want 3", code)
	}
	p = start("process")
	p.waitLine(t, "level=WARN msg=volume")
	p.findAddress(t)
}

func TestWarningsOfTheVolumeAreLogged(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "flisk")
	if err != nil {
		t.Skipf("no tmpfs here: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := startProcess(t, []string{"FLISK_DATA=" + dir, "FLISK_LISTEN=127.0.0.1:0"})
	if line := p.waitLine(t, "msg=volume"); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "tmpfs") {
		t.Errorf("it logs %q", line)
	}
	p.findAddress(t) // a warning stops nothing
}

// shortDir is a directory whose socket paths fit into a socket's address.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "flisk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func unixClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "bot.sock")
	env := []string{"FLISK_LISTEN=unix:" + path, "FLISK_HOSTS=127.0.0.1:8080", "FLISK_DATA=" + t.TempDir()}
	first := startAgent(t, t.TempDir(), env...)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket %v, %v", info, err)
	}
	second := startProcess(t, append([]string{"FLISK_DATA=" + t.TempDir()}, env...))
	second.waitLine(t, "address already in use")
	if code := second.exit(t); code != 3 {
		t.Errorf("a second agent on the socket: exit %d", code)
	}
	first.kill(t) // leaves the socket behind
	p := startAgent(t, t.TempDir(), env...)
	for host, status := range map[string]int{"localhost": 200, "bot": 200, "127.0.0.1:8080": 200, "evil": 403, "127.0.0.1": 403, "localhost:80": 403} {
		got := ask(t.Context(), unixClient(path), http.MethodGet, "http://x/ready", "", "Host", host)
		if got.err != nil || got.status != status {
			t.Errorf("host %q: %d %v, want %d", host, got.status, got.err, status)
		}
	}
	health := startProcess(t, env, "health")
	if code := health.exit(t); code != 0 {
		t.Errorf("health: exit %d", code)
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

func TestInheritedListener(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := startCommand(t, []string{"FLISK_DATA=" + t.TempDir(), "FLISK_LISTEN=fd:3"},
		func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{file} })
	p.findAddress(t)
	if p.addr != ln.Addr().String() {
		t.Errorf("it serves at %s, not %s", p.addr, ln.Addr())
	}
	p.turn(t.Context(), "s", "", script{Say: "a"}).want(t, 200, "")
}

func TestHealthOverTCP(t *testing.T) {
	t.Parallel()
	p := startAgent(t, t.TempDir())
	_, port, _ := net.SplitHostPort(p.addr)
	for _, listen := range []string{p.addr, "0.0.0.0:" + port, ":" + port, "localhost:" + port} {
		if code := startProcess(t, []string{"FLISK_LISTEN=" + listen}, "health").exit(t); code != 0 {
			t.Errorf("health of %q: exit %d", listen, code)
		}
	}
}
