package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
	"github.com/flisk-go/flisk/pkg/watch"
)

// TestDevUnderLoad: somebody saves while clients send turns, some of which take
// seconds. No request fails, no turn is lost, none is there twice, and no turn
// that was sent after a reload was told is answered by older code. With
// FLISK_TEST_LONG=1 it is 20 reloads.
func TestDevUnderLoad(t *testing.T) {
	reloads := 4
	if os.Getenv("FLISK_TEST_LONG") == "1" {
		reloads = 20
	}
	onEach(t, func(t *testing.T, p *project) {
		const clients = 8
		p.slowTurns()
		p.save("turn.go", version(0))
		d := p.dev()
		d.await("reloaded", 1)

		c := &crowd{
			project: p, acks: map[string]map[int]acked{}, slow: "3s", slowly: 10,
			client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}},
		}
		defer c.client.CloseIdleConnections()
		load, calm := context.WithCancel(t.Context())
		defer calm()
		var all sync.WaitGroup
		for n := range clients {
			all.Go(func() { c.talk(t.Context(), load, n) })
		}
		for n := 1; n <= reloads; n++ {
			due := c.sent.Load() + 2*clients
			eventually(t, time.Minute, "turns go on", func() bool { return c.sent.Load() >= due })
			p.save("turn.go", version(n))
			e := d.await("reloaded", 1+n)
			c.oldest.Store(int64(n))
			t.Logf("reload %d: %v", n, e.Spans)
		}
		due := c.sent.Load() + 2*clients
		eventually(t, time.Minute, "turns go on", func() bool { return c.sent.Load() >= due })
		calm()
		all.Wait()
		lost, doubled := c.compare(t)
		t.Logf("%d reloads under %d clients: %d requests, %d failed, %d lost, %d doubled, %d answered by older code",
			reloads, clients, c.sent.Load(), len(c.failed), lost, doubled, len(c.older))
		for _, failed := range append(c.failed, c.older...)[:min(5, len(c.failed)+len(c.older))] {
			t.Error(failed)
		}
		if len(c.failed)+lost+doubled+len(c.older) > 0 {
			t.Errorf("%d failed, %d lost, %d doubled, %d answered by older code", len(c.failed), lost, doubled, len(c.older))
		}
		if d.count("reloaded") != 1+reloads || d.count("failed") != 0 {
			t.Errorf("%d reloads and %d that failed", d.count("reloaded"), d.count("failed"))
		}
		d.signal(syscall.SIGINT)
		if code := d.ended(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

// TestC08_DevGoesOn: what is wrong with the code ends no loop. The old agent
// serves, and the fix arrives by itself.
func TestC08_DevGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		d := p.dev()
		d.await("reloaded", 1)
		good := 1
		for i, c := range []struct{ name, code, says string }{
			{"a syntax error", "package main\n\nfunc runTurn(", "turn.go:3"},
			{"a panic at the start", strings.Replace(version(0), "type Memory", "func init() { panic(\"no key\") }\n\ntype Memory", 1), "no key"},
			{"an agent that never gets ready", strings.Replace(version(0), "type Memory", "func init() { select {} }\n\ntype Memory", 1), ""},
		} {
			p.save("turn.go", c.code)
			if c.says != "" {
				e := d.await("failed", i+1)
				if !strings.Contains(e.Error.Message+e.Error.Detail, c.says) {
					t.Errorf("%s: it says %q, %q", c.name, e.Error.Message, e.Error.Detail)
				}
			} else {
				d.await("reloading", good+i+1)
			}
			if reply := p.say("s1", "hi"); !strings.HasPrefix(reply, "turn") && !strings.HasPrefix(reply, fmt.Sprintf("v%d", i)) {
				t.Errorf("%s: the old agent said %q", c.name, reply)
			}
			p.save("turn.go", version(i+1))
			good++
			d.await("reloaded", good)
			if reply := p.say("s1", "hi"); !strings.HasPrefix(reply, fmt.Sprintf("v%d ", i+1)) {
				t.Errorf("%s: after the fix it says %q", c.name, reply)
			}
		}
	})
}

// TestC01_TenSavesAreTenReloads: by rename, one after the other.
func TestC01_TenSavesAreTenReloads(t *testing.T) {
	t.Parallel()
	p := newWorld(t).project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	d := p.dev()
	d.await("reloaded", 1)
	for n := 1; n <= 10; n++ {
		p.save("turn.go", version(n))
		d.await("reloaded", 1+n)
	}
	if d.count("reloaded") != 11 || d.count("reloading") != 11 {
		t.Errorf("%d reloads of %d were for ten saves", d.count("reloaded")-1, d.count("reloading")-1)
	}
	if reply := p.say("s1", "hi"); !strings.HasPrefix(reply, "v10 ") {
		t.Errorf("it says %q", reply)
	}
}

// TestC06_IdleDev: nobody saves, and nothing happens: no reload, and next to no
// work. With FLISK_TEST_LONG=1 it is a minute.
func TestC06_IdleDev(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		d := p.dev()
		d.await("reloaded", 1)
		idle, all := 4*time.Second, []int{d.cmd.Process.Pid, p.pid()}
		if strings.HasSuffix(t.Name(), "/process") { // else it is none of flisk's
			all = append(all, p.gatewayPID())
		}
		if os.Getenv("FLISK_TEST_LONG") == "1" {
			idle = time.Minute
		}
		before := workOf(t, all)
		<-time.After(idle) // what is measured is time that passes
		work := workOf(t, all) - before
		limit := time.Duration(10*idle.Seconds()) * time.Millisecond // 600 ms a minute
		t.Logf("C06: %s idle: %s of processor time, of at most %s; %d reloads", idle, work, limit, d.count("reloaded")-1)
		if os.Getenv("FLISK_TEST_LONG") != "1" {
			limit *= 5 // a short look has coarse ticks
		}
		if work > limit || d.count("reloading") != 1 {
			t.Errorf("%s of work and %d reloads in %s", work, d.count("reloading")-1, idle)
		}
	})
}

// workOf is the processor time of processes so far.
func workOf(t *testing.T, pids []int) (work time.Duration) {
	t.Helper()
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(stat), ") ") // the name may have spaces
		fields := strings.Fields(rest)
		if !ok || len(fields) < 13 {
			t.Fatalf("the kernel says %q", stat)
		}
		for _, field := range fields[11:13] {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			work += time.Duration(n) * tick
		}
	}
	return work
}

// TestC10_ReloadOfAnyImage: an image of a Dockerfile with a user of its own,
// without a shell, in a container that cannot be written to.
func TestC10_ReloadOfAnyImage(t *testing.T) {
	t.Parallel()
	p := newDockerWorld(t).dockerProject(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	// No base image can be pulled here: the program is built beside the project.
	build := func(n int) {
		t.Helper()
		p.write("turn.go", version(n))
		cmd := exec.Command("go", "build", "-o", filepath.Join(p.dir, "program.new"), ".")
		cmd.Dir, cmd.Env = p.dir, append(p.env, "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := os.Rename(filepath.Join(p.dir, "program.new"), filepath.Join(p.dir, "program")); err != nil {
			t.Fatal(err)
		}
	}
	build(0)
	p.write("passwd", "app:x:4711:4711::/:\n")
	p.write("group", "app:x:4711:\n")
	p.write("Own.Dockerfile", "FROM scratch\nCOPY passwd group /etc/\nCOPY program /agent\nCOPY --chown=app:app data /data\nUSER app:app\nENTRYPOINT [\"/agent\"]\n")
	if err := os.Mkdir(filepath.Join(p.dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("data/.keep", "")
	p.write("compose.override.yaml", "services:\n  bot:\n    user: app:app\n    build: {dockerfile: Own.Dockerfile}\n")
	d := p.dev()
	d.await("reloaded", 1)
	for n := 1; n <= 2; n++ {
		reloads := d.count("reloaded")
		build(n)
		eventually(t, time.Minute, "the new program runs", func() bool {
			return d.count("reloaded") > reloads && strings.HasPrefix(p.say("s1", "hi"), fmt.Sprintf("v%d ", n))
		})
	}
}

// TestDevLongTurn: a turn that takes long ends on the code that it began with, new
// turns run on the new code meanwhile, and one of the same session waits for it.
// What is saved during all that is one more reload, and does not wait (C07).
func TestC07_DevLongTurn(t *testing.T) {
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		p.save("turn.go", holding(version(0)))
		d := p.dev()
		d.await("reloaded", 1)
		old := p.pids()["bot"]
		send := func(session, input string) <-chan string {
			got := make(chan string, 1)
			go func() {
				a, err := p.post(t.Context(), "bot", fmt.Sprintf("%q", input), http.Header{turn.HeaderSession: {session}})
				if err != nil || a.status != http.StatusOK {
					t.Errorf("%s %q: %d %v %v", session, input, a.status, a.problem, err)
				}
				var reply string
				_ = json.Unmarshal(a.result.Reply, &reply) // what it is not is seen below
				got <- reply
			}()
			return got
		}
		long := send("s1", "held long")
		d.log("turn runs")
		p.save("turn.go", version(1))
		d.await("reloaded", 2)
		behind := send("s1", "and then")
		beside := <-send("s2", "hi")
		began := time.Now()
		p.save("turn.go", version(2))
		p.save("turn.go", version(3)) // while the reload of the one before is under way, or just before it
		atOnce := time.Since(began) < watch.Quiet
		deadline := time.Now().Add(time.Minute)
		for !strings.HasPrefix(beside, "v3 ") && time.Now().Before(deadline) {
			beside = <-send("s2", "hi")
		}
		d.await("reloaded", 3)
		select {
		case reply := <-long:
			t.Fatalf("the long turn was answered before its end: %q", reply)
		case reply := <-behind:
			t.Fatalf("the turn behind it did not wait for it: %q", reply)
		default:
		}
		release(t, old)
		first, second := <-long, <-behind
		if !strings.HasPrefix(first, `v0 turn 1 after "held long"`) || !strings.HasPrefix(second, `v1 turn 2 after "held long"`) {
			t.Errorf("the long turn: %q, and the one behind it: %q", first, second)
		}
		if n := d.count("reloading") - 2; n > 2 || atOnce && n != 1 {
			t.Errorf("two saves (at once: %t) were %d reloads", atOnce, n)
		}
	})
}

// TestC14_IdleConnectionsHoldNoReload: clients that keep a connection open on which
// nothing happens, to the gateway or past it to the agent itself, hold no old
// generation: it ends within 3 s.
func TestC14_IdleConnectionsHoldNoReload(t *testing.T) {
	const limit = 3 * time.Second
	onEach(t, func(t *testing.T, p *project) {
		p.slowTurns()
		d := p.dev()
		d.await("reloaded", 1)
		idle := func(network, address string) net.Conn {
			t.Helper()
			c, err := net.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() }) // of the agent's, the other side did
			if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", turn.AgentReadyPath("bot"), p.port); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK || resp.Close {
				t.Fatalf("%d, it closes: %t, %v", resp.StatusCode, resp.Close, err)
			}
			return c
		}
		idle("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
		straight := idle(p.agentAddress(t))
		p.save("turn.go", version(1))
		took := time.Duration(d.await("drained", 1).Drain) * time.Millisecond
		t.Logf("C14: with idle connections open, the old generation was gone after %s (at most %s)", took, limit)
		if took > 5*limit { // a busy machine gets five times that
			t.Errorf("with idle connections open, the old generation was gone after %s", took)
		}
		if n, err := straight.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection to the old generation has %d bytes more", n)
		}
	})
}

// agentAddress is where the only replica listens.
func (p *project) agentAddress(t *testing.T) (network, address string) {
	t.Helper()
	if strings.HasSuffix(t.Name(), "/docker") {
		ips := strings.Fields(docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}", p.container("bot")))
		if len(ips) == 0 {
			t.Fatal("the agent's container has no address")
		}
		return "tcp", net.JoinHostPort(ips[0], strconv.Itoa(stack.AgentPort))
	}
	for _, path := range everything(t, p.run) {
		if name := filepath.Base(path); strings.HasPrefix(name, "bot-1.") && strings.HasSuffix(name, ".sock") {
			return "unix", path
		}
	}
	t.Fatalf("no socket of the agent in %q", everything(t, p.run))
	return "", ""
}
