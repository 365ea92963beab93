package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"flisk": func() {
		environ := os.Environ()
		os.Exit(Run(context.Background(), os.Args[1:], console.System(environ), environ))
	}})
}

// goEnv asks the go command once for what scripts share, so that agents are not
// built from nothing in each.
var goEnv = sync.OnceValues(func() (map[string]string, error) {
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	v := map[string]string{}
	return v, json.Unmarshal(out, &v)
})

// TestScripts runs the specification of the command line, testdata/script. Each
// script has a FLISK_HOME, a run directory and a TMPDIR of its own, no network
// and an empty module cache; $FLISK is the command's file. Whatever it leaves running is stopped.
//
// Beside testscript's own commands there are
//
//	code N COMMAND …         run, and expect the exit code N
//	pid AGENT NAME           put the agent's process id into the variable NAME
//	sigkill PID              and wait until the process is gone
//	gone PID                 the process is not there
//	port NAME                put a free port into NAME
//	hold NAME                listen on a free port, put it into NAME
//	free PORT                nobody listens on the port
//	await PATTERN            wait until a file matches
//	vanish PATTERN           wait until no file does
//	none PATTERN             no file matches
func TestScripts(t *testing.T) {
	t.Parallel()
	goEnv, err := goEnv()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "../../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			// Short, because sockets will be below it.
			short, err := os.MkdirTemp("/tmp", "fs-")
			if err != nil {
				return err
			}
			bin, _, _ := strings.Cut(env.Getenv("PATH"), string(os.PathListSeparator))
			env.Setenv("FLISK", filepath.Join(bin, "flisk"))
			env.Setenv("TMPDIR", short)
			env.Setenv("FLISK_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("FLISK_RUNTIME", "process") // also where a Docker engine answers
			env.Setenv("FLISK_RUN_DIR", filepath.Join(short, "run"))
			env.Setenv("GOCACHE", goEnv["GOCACHE"])
			env.Setenv("GOMODCACHE", filepath.Join(short, "mod"))
			env.Setenv("GOPROXY", "off")
			env.Setenv("GOTOOLCHAIN", "local")
			env.Setenv("GOFLAGS", "")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // with -race every command would take a second more
			env.Defer(func() {
				stopAll(t, env)
				if err := os.RemoveAll(short); err != nil {
					t.Error(err)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": scriptCode, "pid": scriptPID, "sigkill": scriptKill, "gone": scriptGone,
			"port": scriptPort, "hold": scriptHold, "free": scriptFree, "await": scriptAwait, "vanish": scriptVanish, "none": scriptNone,
		},
	})
}

// stopAll stops every project below a script's directory, and says when there
// was something to stop only if that fails: a script that failed in the middle
// leaves its stack.
func stopAll(t *testing.T, env *testscript.Env) {
	projects, _ := filepath.Glob(filepath.Join(env.WorkDir, "*", "flisk.yaml")) // the pattern is valid
	for _, p := range projects {
		for _, instance := range []string{"", "two"} { // the instance that scripts have
			cmd := exec.Command(env.Getenv("FLISK"), "down", "-C", filepath.Dir(p), "--instance", instance)
			cmd.Env = env.Vars
			if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "flisk.yaml") {
				t.Errorf("cannot stop %s: %v\n%s", p, err, out)
			}
		}
	}
}

func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND [ARGUMENT …]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func scriptPID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pid AGENT NAME")
	}
	ts.Check(ts.Exec("flisk", "status", "--json"))
	var v StatusJSON
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
	for _, r := range v.Replicas {
		if r.Agent == args[0] && r.PID > 0 {
			ts.Setenv(args[1], strconv.Itoa(r.PID))
			return
		}
	}
	ts.Fatalf("agent %q has no process", args[0])
}

// within waits for a condition.
func within(ts *testscript.TestScript, limit time.Duration, what string, holds func() bool) {
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			ts.Fatalf("not within %s: %s", limit, what)
		case <-tick.C:
		}
	}
}

func scriptKill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sigkill PID")
	}
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	if pid <= 1 {
		ts.Fatalf("%d is not a process of a script", pid)
	}
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	within(ts, 10*time.Second, "the process is gone", func() bool { return gone(pid) })
}

func scriptGone(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] gone PID")
	}
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	if gone(pid) == neg {
		ts.Fatalf("process %d: gone is %v", pid, !neg)
	}
}

func scriptPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: port NAME")
	}
	port, release, err := porttest.Take()
	ts.Check(err)
	ts.Defer(release)
	ts.Setenv(args[0], strconv.Itoa(port))
}

func scriptHold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hold NAME")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
}

func scriptFree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: free PORT")
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", args[0]))
	ts.Check(err)
	ts.Check(l.Close())
}

func matches(ts *testscript.TestScript, args []string) []string {
	if len(args) != 1 {
		ts.Fatalf("one pattern is needed")
	}
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	return found
}

func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("await cannot be negated")
	}
	within(ts, time.Minute, args[0], func() bool { return len(matches(ts, args)) > 0 })
}

// scriptVanish is await for the opposite: what ends by itself takes its time.
func scriptVanish(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("vanish cannot be negated")
	}
	within(ts, time.Minute, "no "+args[0], func() bool { return len(matches(ts, args)) == 0 })
}

func scriptNone(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("none cannot be negated")
	}
	if found := matches(ts, args); len(found) > 0 {
		ts.Fatalf("there is %q", found)
	}
}
