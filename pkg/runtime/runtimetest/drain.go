package runtimetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/turn"
)

// flight is how long a turn takes during which its agent is stopped, and after
// how much of it: the case's own numbers in the long run.
func flight() (turn, stopAt time.Duration) {
	if os.Getenv("FLISK_TEST_LONG") == "1" {
		return 15 * time.Second, 5 * time.Second
	}
	return 1500 * time.Millisecond, 0
}

// A turn in flight is answered by the agent that has it, over a restart, over a
// change of its code and over a down, and is saved (C12, C15).
func testInFlight(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	takes, at := flight()
	for i, c := range []struct {
		name, code string
		stop       func() runtime.Report
	}{
		{"restart", "c1", p.Restart},
		{"up", "c1", func() runtime.Report { p.Code("c2"); return p.Up() }},
		{"down", "c2", p.Down},
	} {
		answer := p.InFlight(fmt.Sprintf("s%d", i), "", takes)
		<-time.After(at)
		report := c.stop()
		if a := <-answer; a.Err != nil || a.Status != http.StatusOK || a.Code != c.code {
			t.Errorf("%s: the turn in flight: %+v", c.name, a)
		} else {
			said(t, a, 1, takes.String())
		}
		for _, r := range report.Replaced {
			if r.Exit != (runtime.Exit{}) {
				t.Errorf("%s: it did not end by itself: %+v", c.name, r)
			}
		}
		if c.name != "down" && len(report.Replaced) != 1 {
			t.Errorf("%s: replaced %+v", c.name, report.Replaced)
		}
	}
	// Three agents stopped, one after the other.
	if n := strings.Count(p.P.String(), ": exit code 0"); n < 3 {
		t.Errorf("%d ended by themselves:\n%s", n, p.P)
	}
	p.Up()
	for i := range 3 {
		said(t, p.MustTurn(fmt.Sprintf("s%d", i), "b"), 2, takes.String()+" b")
	}
}

// Connections on which nothing happens, and requests that do not come to their
// end, hold neither a restart nor a down (C14).
func testOpenConnections(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	address := net.JoinHostPort("127.0.0.1", fmt.Sprint(p.Setup.Stack.Gateway.Port))
	open := func(send string) (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // the other side did
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	hold := func() {
		t.Helper()
		_, idle := open("GET " + turn.AgentReadyPath("bot") + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n")
		resp, err := http.ReadResponse(idle, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", resp.StatusCode, err)
		}
		open("POST " + turn.TurnPath("bot") + " HTTP/1.1\r\nHost: " + address + "\r\nContent-Type: " + turn.JSONType + "\r\nContent-Length: 100\r\n\r\n{")
		open("POST " + turn.TurnPath("bot") + " HT")
		open("")
	}
	for _, c := range []struct {
		name          string
		do            func() runtime.Report
		limit, failed time.Duration
	}{
		{"restart", p.Restart, 3 * time.Second, 3 * time.Second * deadlines},
		{"down", p.Down, p.Setup.Stack.Agents[0].Drain, p.Setup.Stack.Agents[0].Drain},
	} {
		hold()
		began := time.Now()
		report := c.do()
		took := time.Since(began)
		t.Logf("C14: with connections open, a %s took %d ms (at most %s)", c.name, took.Milliseconds(), c.limit)
		if took > c.failed {
			t.Errorf("a %s took %s", c.name, took)
		}
		for _, r := range report.Replaced {
			if r.Exit != (runtime.Exit{}) {
				t.Errorf("a %s: %+v", c.name, r)
			}
		}
	}
	for line := range strings.Lines(p.P.String()) {
		if strings.Contains(line, "end stop bot-1") && !strings.Contains(line, "exit code 0") {
			t.Errorf("the agent did not end by itself: %s", line)
		}
	}
}

// deadlines is by how much more a test lets a limit of the design be missed than
// it prints: machines that run tests do other things, too.
const deadlines = 5

// An agent that never gets ready: an up tells its last words and leaves nothing,
// or what ran before (C20).
func testNeverReady(t *testing.T, place Place) {
	p := NewProject(t, place)
	fails := func() {
		t.Helper()
		p.Setup.ReadyTimeout = 2 * time.Second
		p.Setup.Stack.Agents[0].Env = []string{"MODE=wait"}
		_, err := p.Driver().Up(t.Context(), p.P)
		isFault(t, err, fault.Failed, "bot-1 was not ready within 2s")
		if f, ok := asFault(err); !ok || !strings.Contains(f.Detail, "it waits for its model") {
			t.Errorf("the fault does not have the agent's last words: %+v %q", f, f.Detail)
		}
		p.Setup.ReadyTimeout = 0
		p.Setup.Stack.Agents[0].Env = nil
	}
	fails()
	if o := p.Observe(); o.Running || len(o.Replicas) > 0 || len(o.Stale) > 0 {
		t.Errorf("a failed up left %+v", o)
	}
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
	before := p.Replica()
	stop := p.keepAsking()
	fails()
	if n, failed := stop(); failed != nil || n == 0 {
		t.Errorf("of %d turns while a change failed one failed: %v", n, failed)
	}
	if after := p.Replica(); after.PID != before.PID || after.State != runtime.Ready || !after.Serving {
		t.Errorf("a change that failed left %+v of %+v", after, before)
	}
	if o := p.Observe(); len(o.Stale) > 0 {
		t.Errorf("a change that failed left %+v", o.Stale)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	if up := p.Up(); up.Changed {
		t.Errorf("up as before: %+v", up)
	}
}
