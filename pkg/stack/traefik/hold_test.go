package traefik

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// answer is what a client got.
type answer struct {
	status int
	body   string
	err    error
}

func (r real) post(t *testing.T, path, body string) <-chan answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan answer, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			got <- answer{err: err}
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		got <- answer{res.StatusCode, string(text), err}
	}()
	return got
}

func want(t *testing.T, got <-chan answer, status int, body string) {
	t.Helper()
	select {
	case a := <-got:
		if a.err != nil || a.status != status || body != "" && a.body != body {
			t.Errorf("got %+v, want %d %q", a, status, body)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("no answer")
	}
}

// table routes "bot" to an address.
func table(host, address string) stack.Routes {
	return stack.Routes{Hosts: []string{host}, Agents: []stack.Route{{
		Agent: "bot", Endpoints: []stack.Endpoint{{Replica: "bot-1", Network: "tcp", Address: address}},
	}}}
}

// start serves at an address that was free a moment ago.
func start(t *testing.T, address string, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestC26_HeldAndSentOnce: a turn while the agent is down waits and is executed
// once; one whose agent died with it is 502 and not sent again.
func TestC26_HeldAndSentOnce(t *testing.T) {
	t.Parallel()
	agent := free(t)
	r, _ := serve(t, sample(), func(host string) stack.Routes { return table(host, agent) })

	held := r.post(t, "/api/bot/turn", `{"input":1}`)
	res, err := http.Get("http://" + r.addr + turn.AgentReadyPath("bot"))
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusBadGateway {
		t.Errorf("the ready path of an agent that is down: %d", res.StatusCode)
	}
	var ran atomic.Int32
	start(t, agent, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if ran.Add(1); string(body) == "die" {
			panic(http.ErrAbortHandler) // the connection closes without an answer
		}
		fmt.Fprintf(w, "%d %s", ran.Load(), body)
	})
	want(t, held, http.StatusOK, `1 {"input":1}`)
	want(t, r.post(t, "/api/bot/turn", "die"), http.StatusBadGateway, "")
	if n := ran.Load(); n != 2 {
		t.Errorf("the agent got %d requests, want 2", n)
	}
}

// TestC25_GoneForGood: a turn to an agent that does not come back is refused
// when the time for that is over, and not much later.
func TestC25_GoneForGood(t *testing.T) {
	t.Parallel()
	agent := free(t)
	r, _ := serve(t, sample(), func(host string) stack.Routes { return table(host, agent) })
	began := time.Now()
	want(t, r.post(t, "/api/bot/turn", "{}"), http.StatusBadGateway, "")
	if took := time.Since(began); took < holdTime-2*holdPause || took > holdTime+5*time.Second {
		t.Errorf("refused after %s, want %s", took, holdTime)
	}
}

// TestC28_RoutesAreReplaced: a file that takes the place of another is seen
// within two seconds, and no request fails meanwhile.
func TestC28_RoutesAreReplaced(t *testing.T) {
	t.Parallel()
	say := func(text string) stack.Endpoint {
		return backend(t, text, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	}
	one, two := say("one"), say("two")
	r, first := serve(t, sample(), func(host string) stack.Routes { return table(host, one.Address) })
	second := table(first.Hosts[0], two.Address)
	for i := range 10 {
		next, text := second, "two"
		if i%2 == 1 {
			next, text = first, "one"
		}
		began := time.Now()
		r.replace(t, next)
		for {
			res, err := http.Get("http://" + r.addr + "/api/bot/sessions")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("status %d, %v", res.StatusCode, err)
			}
			if res.Header.Get(turn.HeaderRoutes) == next.Hash() {
				// The header proves the switch: this very answer is by the new table.
				if string(body) != text {
					t.Fatalf("%q answered by the table of %q", body, text)
				}
				break
			}
			if time.Since(began) > 2*time.Second {
				t.Fatal("the new routes are not seen")
			}
		}
	}
}

// TestStreamsPass: what an agent flushes reaches the client while the answer goes
// on.
func TestStreamsPass(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	e := backend(t, "bot-1", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintln(w, "first")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-more:
		case <-req.Context().Done():
		}
		fmt.Fprintln(w, "second")
	}))
	r, _ := serve(t, sample(), func(host string) stack.Routes { return table(host, e.Address) })
	res, err := http.Get("http://" + r.addr + "/api/bot/sessions/s/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != "first" {
		t.Fatalf("%q, %v", lines.Text(), lines.Err())
	}
	close(more)
	if !lines.Scan() || lines.Text() != "second" {
		t.Errorf("%q, %v", lines.Text(), lines.Err())
	}
}

// TestC15_StopLetsAnswersThrough: a Traefik that is told to stop ends only when
// the request in flight has its answer.
func TestC15_StopLetsAnswersThrough(t *testing.T) {
	t.Parallel()
	running, finish := make(chan struct{}), make(chan struct{})
	e := backend(t, "bot-1", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		close(running)
		select {
		case <-finish:
		case <-req.Context().Done():
		}
		_, _ = io.WriteString(w, "drained")
	}))
	r, _ := serve(t, sample(), func(host string) stack.Routes { return table(host, e.Address) })
	got := r.post(t, "/api/bot/turn", "{}")
	<-running
	if err := r.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// Stopping has begun when nobody can connect any more.
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			break
		}
		_ = c.Close()
		if time.Now().After(deadline) {
			t.Fatal("it does not stop")
		}
	}
	close(finish)
	want(t, got, http.StatusOK, "drained")
}
