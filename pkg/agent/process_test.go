package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flisk-go/flisk/pkg/turn"
)

// asAgent makes this test binary an agent: the tests of this file start it as a
// process of its own and send it real signals.
const asAgent = "AGENT_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		Main(scripted)
		return
	}
	goleak.VerifyTestMain(m)
}

// script is an input that tells the agent's code what to do.
type script struct {
	Say  string
	Wait string // path of a FIFO: run until somebody opens it for writing
	Deaf bool   // ignore the end of the context meanwhile
	Fail string // path of a file: fail while it is there
}

func scripted(ctx context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
	var s script
	if err := input.Decode(&s); err != nil {
		return Reply{}, err
	}
	if cp.Turn == 1 {
		cp.State.First = s.Say
	}
	cp.State.Count++
	if s.Wait != "" {
		fmt.Fprintln(os.Stderr, "script waits")
		opened := make(chan error, 1)
		go func() {
			f, err := os.Open(s.Wait)
			if err == nil {
				err = f.Close()
			}
			opened <- err
		}()
		done := ctx.Done()
		if s.Deaf {
			done = nil
		}
		select {
		case err := <-opened:
			if err != nil {
				return Reply{}, err
			}
		case <-done:
			return Reply{}, ctx.Err()
		}
	}
	if _, err := os.Stat(s.Fail); s.Fail != "" && err == nil {
		return Reply{}, fmt.Errorf("%s is there", filepath.Base(s.Fail))
	}
	return Text(fmt.Sprintf("%d: %s, first %s", cp.Turn, s.Say, cp.State.First)), nil
}

// agentProcess is an agent in a process of its own.
type agentProcess struct {
	*testAgent // only its client methods
	cmd        *exec.Cmd
	output     *os.File    // the other end of its stdout and stderr
	lines      chan string // what it writes there
	exited     chan struct{}
}

// startAgent starts an agent on dir and waits until it serves.
func startAgent(t *testing.T, dir string, env ...string) *agentProcess {
	t.Helper()
	p := startProcess(t, append([]string{"FLISK_DATA=" + dir, "FLISK_LISTEN=127.0.0.1:0", "FLISK_LINGER=1ms"}, env...))
	p.findAddress(t)
	return p
}

// findAddress waits for the line that tells the address.
func (p *agentProcess) findAddress(t *testing.T) {
	t.Helper()
	line := p.waitLine(t, "msg=started")
	_, rest, _ := strings.Cut(line, "address=")
	p.addr, _, _ = strings.Cut(rest, " ")
}

// startProcess starts an agent, or what else args make of it. Its whole output
// goes to p.lines.
func startProcess(t *testing.T, env []string, args ...string) *agentProcess {
	t.Helper()
	return startCommand(t, env, func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, args...) })
}

func startCommand(t *testing.T, env []string, change func(*exec.Cmd)) *agentProcess {
	t.Helper()
	output, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &agentProcess{
		testAgent: &testAgent{Server: &Server{env: turn.DefaultEnv()}},
		cmd:       exec.Command(os.Args[0]),
		output:    output,
		lines:     make(chan string, 1000),
		exited:    make(chan struct{}),
	}
	p.cmd.Env = append(env, asAgent+"=1")
	p.cmd.Stdout, p.cmd.Stderr = in, in
	change(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()
	}()
	scanned := make(chan struct{})
	go func() {
		defer close(scanned)
		defer close(p.lines)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		_ = output.Close()
		<-scanned
	})
	return p
}

// waitLine waits for a log line with text in it.
func (p *agentProcess) waitLine(t *testing.T, text string) string {
	t.Helper()
	var seen []string
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if strings.Contains(line, text) {
				return line
			}
			seen = append(seen, line)
			if ok {
				continue
			}
		case <-deadline:
		}
		t.Fatalf("no line with %q in:\n%s", text, strings.Join(seen, "\n"))
	}
}

func (p *agentProcess) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the process and returns its exit code, or minus the number of
// the signal that ended it.
func (p *agentProcess) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatalf("the agent did not exit within %v", patience)
	}
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return -int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// kill ends the process with SIGKILL and makes sure that it did.
func (p *agentProcess) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	if code := p.exit(t); code != -int(syscall.SIGKILL) {
		t.Fatalf("SIGKILL did not kill: exit %d", code)
	}
}

// fifo makes a FIFO; open lets the script that waits for it go on.
func fifo(t *testing.T) (path string, open func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		_ = f.Close()
	}
}

func TestC12_SIGTERMDuringATurn(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := startAgent(t, dir)
			path, open := fifo(t)
			one := p.goTurn(t.Context(), "s", "k1", script{Say: "a", Wait: path})
			p.waitLine(t, "script waits")
			two := p.goTurn(t.Context(), "s", "k2", script{Say: "b"}) // queued behind it
			eventually(t, "queued", func() bool { return strings.Contains(p.get("/health").body, `"in_flight":2`) })
			p.signal(t, sig)
			p.waitLine(t, "msg=draining")
			eventually(t, "the listener is closed", func() bool { return p.get("/health").err != nil })
			p.signal(t, syscall.SIGTERM) // somebody else wants the same end
			p.signal(t, syscall.SIGTERM)
			open()
			for _, ch := range []<-chan answer{one, two} {
				receive(t, ch, "a turn in flight").want(t, 200, "")
			}
			if code := p.exit(t); code != 0 {
				t.Errorf("exit %d", code)
			}
			if view := startAgent(t, dir).view(t, "s"); view.Turns != 2 {
				t.Errorf("session %+v", view)
			}
		})
	}
}

func TestTurnsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startAgent(t, dir)
	first := p.turn(t.Context(), "", "k", script{Say: "<a>"})
	first.want(t, 200, "")
	p.kill(t)
	p = startAgent(t, dir)
	again := p.turn(t.Context(), "", "k", script{Say: "<a>"}) // the session is found by the key
	again.want(t, 200, "")
	if want := strings.Replace(first.body, `"replayed":false`, `"replayed":true`, 1); again.body != want {
		t.Errorf("replay %s, want %s", again.body, want)
	}
	p.turn(t.Context(), "", "k", script{Say: "b"}).want(t, 422, turn.KeyReused)
	next := p.turn(t.Context(), first.result.SessionID, "", script{Say: "b"})
	if next.text() != "2: b, first <a>" {
		t.Errorf("next turn: %s %v", next.body, next.err)
	}
}

// TestKeepAliveClientsLoseNothingInADrain: every request on a connection that was
// accepted is answered. One that the kernel completed when the listener closed is
// reset by it, and was never read: where that must not happen, a gateway is told
// first.
func TestKeepAliveClientsLoseNothingInADrain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startAgent(t, dir, "FLISK_LINGER=200ms")
	var clients sync.WaitGroup
	acknowledged := make([]int, 4)
	running := make(chan bool, len(acknowledged))
	for c := range acknowledged {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				fresh := false
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { fresh = !c.Reused }})
				// No turn key: with one, net/http would send a lost request again.
				got := ask(ctx, client, http.MethodPost, p.url("/api/bot/turn"), inputBody(script{Say: "x"}), turn.HeaderSession, fmt.Sprint("s", c))
				reset := errors.Is(got.err, syscall.ECONNRESET) || errors.Is(got.err, syscall.EPIPE)
				if errors.Is(got.err, syscall.ECONNREFUSED) || reset && fresh {
					return
				}
				if got.err != nil || got.status != http.StatusOK {
					t.Errorf("client %d after %d turns: %d %s %v", c, acknowledged[c], got.status, got.body, got.err)
					return
				}
				if got.result.Replayed {
					t.Errorf("client %d: %s", c, got.body)
				}
				if acknowledged[c]++; acknowledged[c] == 10 {
					running <- true
				}
			}
		})
	}
	idle := &http.Client{Transport: &http.Transport{}}
	ask(t.Context(), idle, http.MethodGet, p.url("/health"), "") // leaves an idle connection behind
	for range acknowledged {
		receive(t, running, "ten turns")
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	clients.Wait()
	idle.CloseIdleConnections()
	p = startAgent(t, dir)
	for c, want := range acknowledged {
		if got := p.view(t, fmt.Sprint("s", c)).Turns; got != want {
			t.Errorf("session %d has %d turns, %d were acknowledged", c, got, want)
		}
	}
}

func TestSecondSignalReleasesTheTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startAgent(t, dir)
	path, _ := fifo(t)
	one := p.goTurn(t.Context(), "s", "k1", script{Say: "a", Wait: path})
	p.waitLine(t, "script waits")
	two := p.goTurn(t.Context(), "s", "k2", script{Say: "b"})
	eventually(t, "queued", func() bool { return strings.Contains(p.get("/health").body, `"in_flight":2`) })
	p.signal(t, syscall.SIGTERM)
	p.waitLine(t, "msg=draining")
	p.signal(t, syscall.SIGINT)
	for _, ch := range []<-chan answer{one, two} {
		got := receive(t, ch, "a turn cut short")
		got.want(t, 503, turn.Draining)
		if got.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	raw := sessionFile(t, dir)
	if strings.Contains(raw, `"k":"failed"`) {
		t.Errorf("a turn that a drain cut short is recorded as failed:\n%s", raw)
	}
	p = startAgent(t, dir)
	got := p.turn(t.Context(), "s", "k1", script{Say: "a", Wait: path + "x"})
	got.want(t, 422, turn.KeyReused) // it was begun; with its own input it runs again
	got = p.turn(t.Context(), "s", "", script{Say: "c"})
	if got.text() != "1: c, first c" {
		t.Errorf("next turn: %s %v", got.body, got.err)
	}
}

// sessionFile is the content of the one session file below dir.
func sessionFile(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "a", "*", "s", "*", "*.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("session files %q, %v", found, err)
	}
	raw, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestThirdSignalExitsAtOnce(t *testing.T) {
	t.Parallel()
	p := startAgent(t, t.TempDir())
	path, _ := fifo(t)
	one := p.goTurn(t.Context(), "s", "", script{Wait: path, Deaf: true})
	p.waitLine(t, "script waits")
	p.signal(t, syscall.SIGTERM)
	p.waitLine(t, "msg=draining")
	p.signal(t, syscall.SIGINT)
	p.waitLine(t, "drain cut short")
	p.signal(t, syscall.SIGINT)
	if code := p.exit(t); code != 1 {
		t.Errorf("exit %d, want 1", code)
	}
	receive(t, one, "the client")
}

func TestDrainBudgetEndsADeafTurn(t *testing.T) {
	t.Parallel()
	p := startAgent(t, t.TempDir(), "FLISK_DRAIN=100ms")
	path, _ := fifo(t)
	one := p.goTurn(t.Context(), "s", "", script{Wait: path, Deaf: true})
	p.waitLine(t, "script waits")
	p.signal(t, syscall.SIGTERM)
	receive(t, one, "the client").want(t, 503, turn.Draining)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

// TestSupervisorIsGone kills what a supervisor is to an agent: the pipes behind
// its output, and the lifeline. No gateway is left for which it would linger.
func TestSupervisorIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alive, lifeline, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, []string{"FLISK_DATA=" + dir, "FLISK_LISTEN=127.0.0.1:0", "FLISK_LINGER=1h", "FLISK_LIFELINE=3"},
		func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{alive} })
	_ = alive.Close()
	p.findAddress(t)
	path, open := fifo(t)
	one := p.goTurn(t.Context(), "s", "k", script{Say: "a", Wait: path})
	p.waitLine(t, "script waits")
	_ = p.output.Close() // from here on every line it logs meets a broken pipe
	_ = lifeline.Close() // end of file
	eventually(t, "the listener is closed", func() bool { return p.get("/health").err != nil })
	open()
	receive(t, one, "the turn in flight").want(t, 200, "")
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	if view := startAgent(t, dir).view(t, "s"); view.Turns != 1 {
		t.Errorf("session %+v", view)
	}
}

// TestLifelineEndsTheLinger: SIGTERM alone says nothing of the gateway, and the
// end of the lifeline, also when it comes later, says that it has let go.
func TestLifelineEndsTheLinger(t *testing.T) {
	t.Parallel()
	alive, lifeline, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, []string{"FLISK_DATA=" + t.TempDir(), "FLISK_LISTEN=127.0.0.1:0", "FLISK_LINGER=1h", "FLISK_LIFELINE=3"},
		func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{alive} })
	_ = alive.Close()
	p.findAddress(t)
	p.signal(t, syscall.SIGTERM)
	p.waitLine(t, "draining")
	p.turn(t.Context(), "s", "", script{Say: "a"}).want(t, 200, "")
	_ = lifeline.Close()
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestKillPoints(t *testing.T) {
	t.Parallel()
	for i, point := range turn.Points() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := startAgent(t, dir, "FLISK_VERIFY=nonce")
			p.turn(t.Context(), "s", "k1", script{Say: "a"}).want(t, 200, "")
			held := p.goTurn(t.Context(), "s", "k2", script{Say: "b"}, turn.HeaderHold, "nonce:"+string(point))
			line := p.waitLine(t, "hold point="+string(point)+" session=s turn=")
			if point == turn.PointReplied {
				receive(t, held, "the reply before the kill").want(t, 200, "")
			}
			p.kill(t)
			if point != turn.PointReplied {
				if got := receive(t, held, "the client"); got.err == nil {
					t.Fatalf("held at %s, and answered %d %s", point, got.status, got.body)
				}
			}

			p = startAgent(t, dir)
			got := p.turn(t.Context(), "s", "k2", script{Say: "b"})
			got.want(t, 200, "")
			committed := i >= 3 // from commit-written on
			if got.result.Replayed != committed || got.text() != "2: b, first a" || got.result.Turn != 2 {
				t.Errorf("killed at %q, then %s", line, got.body)
			}
			if _, id, _ := strings.Cut(line, "turn="); committed && id != got.result.TurnID {
				t.Errorf("turn %s was held, %s was answered", id, got.result.TurnID)
			}
			view := p.view(t, "s")
			if view.Turns != 2 || len(view.Messages) != 4 || string(view.State) != `{"first":"a","count":2}` {
				t.Errorf("session %+v, state %s", view, view.State)
			}
		})
	}
}

func TestC31_KilledBeforeTheReplyWithoutAKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startAgent(t, dir, "FLISK_VERIFY=nonce")
	held := p.goTurn(t.Context(), "s", "", script{Say: "a"}, turn.HeaderHold, "nonce:marked")
	p.waitLine(t, "hold point=marked")
	p.kill(t)
	receive(t, held, "the client")
	p = startAgent(t, dir)
	for i, want := range []turn.Result{{Turn: 1, Replayed: true}, {Turn: 2, Replayed: false}} {
		got := p.turn(t.Context(), "s", "", script{Say: "a"})
		got.want(t, 200, "")
		if got.result.Turn != want.Turn || got.result.Replayed != want.Replayed {
			t.Errorf("request %d: %s", i, got.body)
		}
	}
}

func TestHoldEndsByItself(t *testing.T) {
	t.Parallel()
	p := startAgent(t, t.TempDir(), "FLISK_VERIFY=nonce")
	for _, point := range turn.Points() {
		p.turn(t.Context(), "s", "", script{Say: "a"}, turn.HeaderHold, "nonce:"+string(point)+":1").want(t, 200, "")
		p.waitLine(t, "hold point="+string(point))
	}
	p.turn(t.Context(), "s", "", script{}, turn.HeaderHold, "nonce:nowhere").want(t, 400, turn.BadRequest)
	p.turn(t.Context(), "s", "", script{}, turn.HeaderHold, "other:begun").want(t, 200, "")
}
