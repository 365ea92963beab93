package main_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestDevEnds: the first Ctrl-C lets a turn finish, the second does not.
func TestDevEnds(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		p.save("turn.go", holding(slowCode))
		for _, c := range []struct {
			name, turn string
			twice      bool // Ctrl-C
			code       int
			saves      bool
		}{
			{"once", "held one", false, 0, false},
			{"twice", "held two", true, 130, false},
			{"once, after a save", "held three", false, 0, true},
		} {
			d := p.dev()
			d.await("reloaded", 1)
			runs := p.pids()["bot"]
			answers := make(chan answer, 1)
			go func() {
				a, err := p.post(t.Context(), "bot", fmt.Sprintf("%q", c.turn), http.Header{"Session-Id": {"s1"}})
				if err != nil {
					a.status = -1
				}
				answers <- a
			}()
			d.log("turn runs")
			drains := 1
			if c.saves { // the old generation drains already, and will not be alone
				p.save("turn.go", version(1))
				d.await("reloaded", 2)
				d.log("msg=draining")
				drains++
			}
			d.signal(syscall.SIGINT)
			eventually(t, 20*time.Second, "the drain begins", func() bool { return d.times("msg=draining") == drains })
			if c.twice {
				d.signal(syscall.SIGINT)
			} else {
				release(t, runs)
			}
			if code := d.ended(); code != c.code {
				t.Errorf("%s: exit code %d\n%s", c.name, code, d.err.String())
			}
			if a := <-answers; (a.status == http.StatusOK) == c.twice {
				t.Errorf("%s: the turn in flight: %d %v", c.name, a.status, a.problem)
			}
			if out := p.do("status"); !strings.Contains(out, "not running") && !strings.Contains(out, "nothing") {
				t.Errorf("%s: status afterwards:\n%s", c.name, out)
			}
		}
	})
}

// TestDevKeeps: with --keep a Ctrl-C ends the loop, and nothing else: the same
// processes serve, a turn in flight is answered, and "flisk down" stops it all.
func TestDevKeeps(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		d := p.dev("--keep")
		d.await("reloaded", 1)
		before := p.pids()
		p.say("s1", "hi")
		d.signal(syscall.SIGINT)
		if code := d.ended(); code != 0 || d.count("stopping") != 0 {
			t.Errorf("exit code %d, and it said %d times that it stops\n%s", code, d.count("stopping"), d.err.String())
		}
		if reply := p.say("s1", "still there?"); !strings.HasPrefix(reply, `turn 2 after "hi"`) {
			t.Errorf("it says %q", reply)
		}
		if after := p.pids(); !maps.Equal(before, after) || len(after) != 2 {
			t.Errorf("before %v, after %v", before, after)
		}
		p.do("down")
		if out := p.do("status"); !strings.Contains(out, "not running") && !strings.Contains(out, "nothing") {
			t.Errorf("status afterwards:\n%s", out)
		}
	})
}

// TestDevIsKilled: what runs goes on without the loop, and the next one takes it
// from there, with what was saved meanwhile.
func TestDevIsKilled(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		d := p.dev()
		d.await("reloaded", 1)
		p.say("s1", "hi")
		d.signal(syscall.SIGKILL)
		d.ended()
		p.say("s1", "still there?")
		p.save("turn.go", version(1))
		d = p.dev()
		d.await("reloaded", 1)
		if reply := p.say("s1", "and now?"); !strings.HasPrefix(reply, `v1 turn 3 after "hi"`) {
			t.Errorf("it says %q", reply)
		}
		_, errOut, code := p.try(p.dir, "dev")
		if code != 3 || !strings.Contains(errOut, "runs already") {
			t.Errorf("a second loop: exit code %d\n%s", code, errOut)
		}
	})
}

// TestDevSupervisorDies: what keeps the agents alive is killed, and everything is
// brought back, with every conversation, and nothing beside it.
func TestDevSupervisorDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "DEV_MARK=" + filepath.Base(w.run)
	p := w.project(filepath.Join(t.TempDir(), "bot"))
	w.env = append(w.env, mark)
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	p.say("s1", "hi")
	agent := p.pid()
	if err := syscall.Kill(p.gatewayPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := d.await("lost", 1); !strings.Contains(e.Error.Message, "was killed") {
		t.Errorf("it says %+v", e.Error)
	}
	d.await("back", 1)
	if reply := p.say("s1", "still?"); !strings.HasPrefix(reply, `turn 2 after "hi"`) {
		t.Errorf("it says %q", reply)
	}
	eventually(t, 20*time.Second, "the old agent is gone", func() bool { return syscall.Kill(agent, 0) != nil })
	p.save("turn.go", version(1))
	d.await("reloaded", 3)
	d.runsNothingElse(mark)
}

// TestDevSupervisorDiesMidway: the same while a reload waits for the new agent. The
// reload fails, with the reason, and what was saved comes all the same.
func TestDevSupervisorDiesMidway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := "DEV_MARK=" + filepath.Base(w.run)
	p := w.project(filepath.Join(t.TempDir(), "bot"))
	w.env = append(w.env, mark)
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	p.say("s1", "hi")
	supervisor := p.gatewayPID()
	p.save("turn.go", startsSlowly(1))
	d.log("starts slowly")
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := d.await("failed", 1); e.Step != "await" || !strings.Contains(e.Error.Message, "the supervisor") || e.Error.Hint == "" {
		t.Errorf("it says, of %q, %+v", e.Step, e.Error)
	}
	// It is tried again after a second. A look that comes before tells that it is lost.
	d.await("reloaded", 2)
	if reply := p.say("s1", "still?"); !strings.HasPrefix(reply, `v1 turn 2 after "hi"`) {
		t.Errorf("it says %q", reply)
	}
	d.runsNothingElse(mark)
}

// startsSlowly is the code of a version that gets ready after two seconds.
func startsSlowly(n int) string {
	return strings.Replace(version(n), "type Memory", "func init() { fmt.Println(\"starts slowly\"); time.Sleep(2 * time.Second) }\n\ntype Memory", 1)
}

// runsNothingElse ends the loop, before which nothing runs but the loop itself, the
// supervisor and one agent, and after which nothing is left.
func (d *devLoop) runsNothingElse(mark string) {
	t, p := d.p.t, d.p
	t.Helper()
	eventually(t, 20*time.Second, "nothing but the loop, the supervisor and one agent runs", func() bool {
		running, pids := marked(t, mark), p.pids()
		return len(running) == 3 && running[d.cmd.Process.Pid] != "" && running[pids["gateway"]] != "" && running[pids["bot"]] != ""
	})
	d.signal(syscall.SIGINT)
	if code := d.ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for pid, command := range marked(t, mark) {
		t.Errorf("process %d is left: %s", pid, command)
	}
	if left := everything(t, p.run); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
}

// TestDevEngineGoesAway: the engine does not answer for a while. That is said, in
// one event, and when it answers again what was saved meanwhile runs.
func TestDevEngineGoesAway(t *testing.T) {
	t.Parallel()
	w := newDockerWorld(t)
	socket := filepath.Join(w.run, "e.sock")
	engine := proxy(t, socket)
	engine.open(t)
	w.env = append(w.env, "DOCKER_HOST=unix://"+socket)
	p := w.dockerProject(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	p.say("s1", "hi")
	networks := p.objects("network", "ls", "-q")
	engine.close()
	d.await("lost", 1)
	p.save("turn.go", version(1))
	e := d.await("failed", 1)
	if !strings.Contains(e.Error.Message, socket) {
		t.Errorf("it says %+v", e.Error)
	}
	eventually(t, 20*time.Second, "three looks", func() bool { return engine.refused.Load() >= 3 })
	engine.open(t)
	d.await("reloaded", 2)
	if reply := p.say("s1", "still?"); !strings.HasPrefix(reply, `v1 turn 2 after "hi"`) {
		t.Errorf("it says %q", reply)
	}
	if d.count("lost") != 1 || d.count("failed") != 1 {
		t.Errorf("it said %d times that it is lost, and %d times that a reload failed", d.count("lost"), d.count("failed"))
	}
	d.hasNothingElse(networks)
}

// TestDevEngineGoesAwayMidway: the same while a reload waits for the new agent. The
// reload fails, with the reason, and the old agent serves until the engine is there
// again and the new one is.
func TestDevEngineGoesAwayMidway(t *testing.T) {
	t.Parallel()
	w := newDockerWorld(t)
	socket := filepath.Join(w.run, "e.sock")
	engine := proxy(t, socket)
	engine.open(t)
	w.env = append(w.env, "DOCKER_HOST=unix://"+socket)
	p := w.dockerProject(filepath.Join(t.TempDir(), "bot"))
	t.Cleanup(func() { engine.open(t) }) // of a test that failed: what takes the project down needs it
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	p.say("s1", "hi")
	networks := p.objects("network", "ls", "-q")
	p.save("turn.go", startsSlowly(1))
	for n := 1; ; n++ {
		if e := d.await("step", n); e.Reload == 1 && e.Step == "await" {
			break
		}
	}
	engine.close()
	if e := d.await("failed", 1); e.Step != "await" || !strings.Contains(e.Error.Message, socket) || e.Error.Hint == "" {
		t.Errorf("it says, of %q, %+v", e.Step, e.Error)
	}
	d.await("lost", 1)
	a, err := p.post(t.Context(), "bot", `"on the old?"`, http.Header{turn.HeaderSession: {"s1"}})
	if err != nil || a.status != http.StatusOK || !strings.HasPrefix(string(a.result.Reply), `"turn 2 after`) {
		t.Errorf("without the engine: %d %v %v %s", a.status, a.problem, err, a.result.Reply)
	}
	engine.open(t)
	d.await("reloaded", 2)
	if reply := p.say("s1", "still?"); !strings.HasPrefix(reply, `v1 turn 3 after "hi"`) {
		t.Errorf("it says %q", reply)
	}
	d.hasNothingElse(networks)
}

// hasNothingElse ends the loop, before which the engine has the agent, the gateway
// and these networks only, and after which the volume only.
func (d *devLoop) hasNothingElse(networks []string) {
	t, p := d.p.t, d.p
	t.Helper()
	d.await("drained", 1)
	if all := p.objects("ps", "-aq"); len(all) != 2 {
		t.Errorf("%d containers, want the agent and the gateway", len(all))
	}
	if now := p.objects("network", "ls", "-q"); !slices.Equal(now, networks) {
		t.Errorf("the networks were %q, and now are %q", networks, now)
	}
	d.signal(syscall.SIGINT)
	if code := d.ended(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if left := slices.Concat(p.objects("ps", "-aq"), p.objects("network", "ls", "-q")); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
	if volumes := p.objects("volume", "ls", "-q"); len(volumes) != 1 {
		t.Errorf("the volumes are %q", volumes)
	}
}

// away is a way to the engine that can be closed.
type away struct {
	socket  string
	refused atomic.Int64

	mu    sync.Mutex
	there bool
	conns map[net.Conn]bool
}

// proxy listens on a socket, and is closed.
func proxy(t *testing.T, socket string) *away {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	a := &away{socket: socket, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close(); a.close() }) // nobody is left to tell
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go a.pass(in)
		}
	}()
	return a
}

func (a *away) pass(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("unix", "/var/run/docker.sock")
	if err != nil {
		return
	}
	defer out.Close()
	a.mu.Lock()
	if !a.there {
		a.mu.Unlock()
		a.refused.Add(1)
		return
	}
	a.conns[in], a.conns[out] = true, true
	a.mu.Unlock()
	go func() {
		_, _ = io.Copy(out, in) // its end is the client's
		_ = out.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(in, out)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, in)
	delete(a.conns, out)
}

func (a *away) open(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.there = true
}

func (a *away) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.there = false
	for c := range a.conns {
		_ = c.Close() // that is what it is for
	}
}
