package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is the one name that the gateways of these tests serve.
const host = "flisk.test"

// socketDir returns a directory with a path short enough for socket names.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// unixEndpoint names a socket of its own at which nothing listens yet.
func unixEndpoint(t testing.TB, replica string) stack.Endpoint {
	t.Helper()
	return stack.Endpoint{Replica: replica, Network: "unix", Address: filepath.Join(socketDir(t), "s")}
}

// listen serves h at the endpoint. Closing the server cuts its connections.
func listen(t testing.TB, e stack.Endpoint, h http.Handler) *http.Server {
	t.Helper()
	ln, err := net.Listen(e.Network, e.Address)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ln)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return s
}

// backend is an endpoint that h answers.
func backend(t testing.TB, replica string, h http.HandlerFunc) stack.Endpoint {
	t.Helper()
	e := unixEndpoint(t, replica)
	listen(t, e, h)
	return e
}

// say answers every request with a word.
func say(word string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, word) }
}

// routes is a table with one agent, "bot".
func routes(endpoints ...stack.Endpoint) stack.Routes {
	return stack.Routes{
		Hosts:  []string{host},
		Agents: []stack.Route{{Agent: "bot", MaxBody: 1 << 20, Endpoints: endpoints}},
	}
}

// served is a gateway behind a listener.
type served struct {
	*Gateway
	t      testing.TB
	addr   string
	client *http.Client
	stop   context.CancelFunc
	done   chan struct{} // closed when Serve has returned
	err    error         // of Serve
}

func serve(t testing.TB, opts Options, table stack.Routes) *served {
	t.Helper()
	return serveGateway(t, New(opts), table)
}

func serveGateway(t testing.TB, g *Gateway, table stack.Routes) *served {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.SetRoutes(table)
	ctx, stop := context.WithCancel(context.Background())
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	s := &served{Gateway: g, t: t, addr: ln.Addr().String(), client: &http.Client{Transport: transport}, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = g.Serve(ctx, ln)
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		<-s.done
	})
	return s
}

// request makes a request to the gateway; header is name, value, name, value …
func (s *served) request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Host = host
	r.GetBody = nil // the client must not repeat anything either
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

func (s *served) do(method, path, body string, header ...string) (reply, error) {
	res, err := s.client.Do(s.request(context.Background(), method, path, body, header...))
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(b)}, err
}

func (s *served) post(header ...string) reply {
	s.t.Helper()
	r, err := s.do("POST", "/api/bot/turn", `{"input":1}`, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// start sends a turn and returns where its answer will be.
func (s *served) start(header ...string) <-chan reply {
	answered := make(chan reply, 1)
	go func() {
		r, err := s.do("POST", "/api/bot/turn", `{"input":1}`, header...)
		if err != nil {
			s.t.Error(err)
		}
		answered <- r
	}()
	return answered
}

// wantProblem checks that an answer is the problem, as this gateway writes it.
func wantProblem(t testing.TB, status int, h http.Header, body string, code turn.Code) *turn.Problem {
	t.Helper()
	var p turn.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("status %d, not a problem: %v: %q", status, err, body)
	}
	if p.Code != code || status != code.Status() {
		t.Errorf("problem %q with status %d, want %q", p.Code, status, code)
	}
	if got := h.Get("Content-Type"); got != turn.ProblemType {
		t.Errorf("content type %q", got)
	}
	if code.Retryable() != (h.Get("Retry-After") != "") {
		t.Errorf("Retry-After %q", h.Get("Retry-After"))
	}
	if len(h.Values(turn.HeaderRoutes)) != 1 {
		t.Errorf("%s: %q", turn.HeaderRoutes, h.Values(turn.HeaderRoutes))
	}
	return &p
}

func (r reply) wantProblem(t testing.TB, code turn.Code) *turn.Problem {
	t.Helper()
	return wantProblem(t, r.status, r.header, r.body, code)
}

// eventually waits for a condition, and fails the test when it does not come.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("it did not happen in time: %s", what)
		}
	}
}

// held is how many requests of "bot" wait.
func (g *Gateway) held() int {
	l := g.line("bot")
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.places)
}
