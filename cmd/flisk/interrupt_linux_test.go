package main_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
)

// slowGo is a go command whose builds take for ever, as one with children.
const slowGo = `#!/bin/sh
if [ "$1" = build ]; then
	sleep 1000 &
	echo building >&2
	echo >"$INTERRUPT_BUILDING"
	wait
fi
exec "$INTERRUPT_GO" "$@"
`

// neverReady is an agent that says where it is, starts a process of its own, and
// does not get ready.
const neverReady = `package main

import (
	"os"
	"os/exec"
	"time"
)

func init() {
	if path := os.Getenv("INTERRUPT_STARTING"); path != "" {
		_ = exec.Command("sleep", "1000").Start()
		_ = os.WriteFile(path, nil, 0o600)
		time.Sleep(time.Hour)
	}
}
`

// TestC13_InterruptLeavesNothing: Ctrl-C, which a terminal sends to everything in
// front, or the end of the terminal. Whatever the moment, when the command has
// ended no process that it or its children started is left, no port that they
// listened on, and no directory.
func TestC13_InterruptLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		args   string
		moment string // a line of the command; or BUILDING, STARTING: the file is there
		signal syscall.Signal
	}{
		{"up in the build", "up", "BUILDING", syscall.SIGINT},
		{"up before it is ready", "up", "STARTING", syscall.SIGINT},
		{"up and the terminal closes", "up", "STARTING", syscall.SIGHUP},
		{"dev before it is ready and the terminal closes", "dev", "STARTING", syscall.SIGHUP},
		{"dev and the terminal closes", "dev", `^watching `, syscall.SIGHUP},
		{"verify at its start", "verify", `^flisk verify · bot`, syscall.SIGINT},
		{"verify in the build", "verify", "BUILDING", syscall.SIGINT},
		{"verify before it is ready", "verify", "STARTING", syscall.SIGINT},
		{"verify in its checks", "verify", `^continuity +held`, syscall.SIGINT},
		{"verify between kills", "verify", `^drain +held`, syscall.SIGINT},
		{"verify and the terminal closes", "verify", `^isolation +held`, syscall.SIGHUP},
		{"demo at its start", "demo", `^1  A new project`, syscall.SIGINT},
		{"demo in the build", "demo", "BUILDING", syscall.SIGINT},
		{"demo while it talks", "demo", `^3  Talk`, syscall.SIGINT},
		{"demo behind its kill", "demo", `^5  Go on`, syscall.SIGINT},
		{"demo in its proof", "demo", `^7  Prove it`, syscall.SIGINT},
		{"demo and the terminal closes", "demo", `^4  Kill it`, syscall.SIGHUP},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tmp, err := os.MkdirTemp("", "fi")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(tmp) })
			dir := filepath.Join(t.TempDir(), "bot")
			port := porttest.Free(t)
			w.flisk(filepath.Dir(dir), "init", "bot", "--port", strconv.Itoa(port))
			mark := "INTERRUPT_MARK=" + filepath.Base(tmp)
			w.env = append(w.env, "TMPDIR="+tmp, mark)
			t.Cleanup(func() { // of a test that failed
				for pid := range marked(t, mark) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			happened := filepath.Join(t.TempDir(), c.moment)
			switch c.moment {
			case "BUILDING":
				w.slowGo(t.TempDir(), happened)
			case "STARTING":
				w.env = append(w.env, "INTERRUPT_STARTING="+happened)
				if err := os.WriteFile(filepath.Join(dir, "never.go"), []byte(neverReady), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			cmd := w.command(dir, c.args)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			said := &output{pattern: c.moment, matched: make(chan struct{})}
			end := said.of(t, cmd)
			if strings.HasPrefix(c.moment, "^") {
				select {
				case <-said.matched:
				case <-end:
				case <-time.After(2 * time.Minute):
				}
			} else {
				eventually(t, 2*time.Minute, c.moment, func() bool { _, err := os.Stat(happened); return err == nil })
			}
			ports := listening(t, marked(t, mark))
			if err := syscall.Kill(-cmd.Process.Pid, c.signal); err != nil {
				t.Fatalf("%v: it ended before its moment\n%s", err, said)
			}
			select {
			case <-end:
			case <-time.After(time.Minute):
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				t.Fatalf("a minute after the signal it still runs\n%s", said)
			}
			want := 130
			if c.args == "dev" {
				want = 0 // that is how it ends
			}
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			for pid, command := range marked(t, mark) {
				t.Errorf("process %d is left: %s", pid, command)
			}
			for _, port := range append(ports, port) {
				l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
				if err != nil {
					t.Errorf("a port is left: %v", err)
					continue
				}
				_ = l.Close()
			}
			for _, place := range []string{tmp, w.run} {
				for _, left := range everything(t, place) {
					t.Errorf("%s is left", left)
				}
			}
			for _, left := range files(t, w.home) { // up and dev have made a volume, and keep it
				if name, _ := filepath.Rel(w.home, left); !strings.HasPrefix(name, "modcache/") && c.args != "up" && c.args != "dev" {
					t.Errorf("%s is left", left)
				}
			}
			if t.Failed() {
				t.Logf("it said\n%s", said)
			}
		})
	}
}

// slowGo puts a go command in front of the PATH whose builds do not end.
func (w *world) slowGo(dir, building string) {
	w.t.Helper()
	real, err := exec.LookPath("go")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(slowGo), 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.env = append(w.env, "INTERRUPT_BUILDING="+building, "INTERRUPT_GO="+real, "PATH="+dir+":"+os.Getenv("PATH"))
}

// output collects what a command says and tells of the first line that matches.
type output struct {
	pattern string
	matched chan struct{}

	mu    sync.Mutex
	text  bytes.Buffer
	found bool
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// of starts a command and returns a channel that is closed when it has ended and
// all that it said was read.
func (o *output) of(t *testing.T, cmd *exec.Cmd) (end <-chan struct{}) {
	t.Helper()
	pattern := regexp.MustCompile(o.pattern)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			o.mu.Lock()
			fmt.Fprintln(&o.text, lines.Text())
			if !o.found && pattern.MatchString(lines.Text()) {
				o.found = true
				close(o.matched)
			}
			o.mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, r)
		_ = r.Close()
		_ = cmd.Wait()
	}()
	return done
}

// marked are the living processes that have a variable in their environment: a
// command's children have it, and theirs, whoever their parent is by now.
func marked(t testing.TB, mark string) map[int]string {
	t.Helper()
	found := map[int]string{}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range processes {
		environ, err := os.ReadFile(process + "/environ")
		if err != nil || !bytes.Contains(environ, []byte(mark)) {
			continue // somebody else's, or gone
		}
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			t.Fatal(err)
		}
		command, _ := os.ReadFile(process + "/cmdline") // gone since
		found[pid] = string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
	}
	return found
}

// listening are the TCP ports that processes listen on.
func listening(t *testing.T, pids map[int]string) (ports []int) {
	t.Helper()
	sockets := map[string]bool{}
	for pid := range pids {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is valid
		for _, fd := range fds {
			if target, err := os.Readlink(fd); err == nil {
				sockets[target] = true
			}
		}
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line) // number, local address, remote address, state (0A listens), …, inode
		if len(f) < 10 || f[3] != "0A" || !sockets["socket:["+f[9]+"]"] {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, int(port))
	}
	return ports
}

// everything lists all that is below a directory.
func everything(t testing.TB, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != dir {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
