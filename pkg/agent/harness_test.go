package agent

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// patience bounds every wait of a test; nothing should come near it.
const patience = 20 * time.Second

// testAgent is a server on a real TCP listener, over a real directory.
type testAgent struct {
	*Server
	dir   string
	addr  string
	drain func() // begins a drain and waits for its end; may be called again
	hurry func() // what a second signal does
}

func serveAgent[S any](t *testing.T, run Func[S], changes ...func(*turn.Env)) *testAgent {
	t.Helper()
	return serveAgentOn(t, t.TempDir(), run, changes...)
}

// serveAgentOn is serveAgent on a directory that others may use, too.
func serveAgentOn[S any](t *testing.T, dir string, run Func[S], changes ...func(*turn.Env)) *testAgent {
	t.Helper()
	env := turn.DefaultEnv()
	env.Linger, env.Drain = 0, patience
	for _, change := range changes {
		change(&env)
	}
	log := slog.New(slog.NewTextHandler(testLog{t}, nil))
	store, err := checkpoint.Open(dir, checkpoint.Options{Agent: env.Agent, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &testAgent{Server: NewServer(run, store, env, log), dir: dir, addr: ln.Addr().String()}
	ctx, stop := context.WithCancel(context.Background())
	hurry, hurryNow := context.WithCancelCause(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := a.serve(ctx, context.Background(), hurry, ln); err != nil {
			t.Error(err)
		}
	}()
	a.drain = func() { stop(); <-served }
	a.hurry = func() { hurryNow(errHurried) }
	t.Cleanup(func() {
		a.hurry()
		a.drain()
		a.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// testLog writes log lines to the test's own.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// answer is what came back for a request.
type answer struct {
	status  int
	header  http.Header
	body    string
	result  turn.Result // of a 200
	problem turn.Code   // of anything else
	detail  string
	err     error
}

// text is the reply as a string.
func (a answer) text() string { return turn.Text(a.result.Reply) }

// ask sends one request. header is name, value, name, value …; a Host in it is
// the request's host.
func ask(ctx context.Context, client *http.Client, method, url, body string, header ...string) answer {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		switch name := http.CanonicalHeaderKey(header[i]); name {
		case "Host":
			req.Host = header[i+1]
		case "Content-Type":
			req.Header.Set(name, header[i+1])
		default:
			req.Header[name] = append(req.Header[name], header[i+1])
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	got := answer{status: resp.StatusCode, header: resp.Header, body: string(b), err: err}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), turn.ProblemType) {
		var p turn.Problem
		if err := json.Unmarshal(b, &p); err != nil {
			got.err = err
		}
		got.problem, got.detail = p.Code, p.Detail
	} else if method == http.MethodPost && err == nil {
		got.err = json.Unmarshal(b, &got.result)
	}
	return got
}

// newClient keeps no connection, so that a test ends without leftovers.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

func inputBody(input any) string {
	b, err := json.Marshal(map[string]any{"input": input})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (a *testAgent) url(path string) string { return "http://" + a.addr + path }

// turn sends input to a session; without a session id if session is "", without
// a turn key if key is "".
func (a *testAgent) turn(ctx context.Context, session, key string, input any, header ...string) answer {
	if session != "" {
		header = append(header, turn.HeaderSession, session)
	}
	if key != "" {
		header = append(header, turn.HeaderKey, key)
	}
	return ask(ctx, newClient(), http.MethodPost, a.url(turn.TurnPath(a.env.Agent)), inputBody(input), header...)
}

// goTurn is turn in the background.
func (a *testAgent) goTurn(ctx context.Context, session, key string, input any, header ...string) <-chan answer {
	ch := make(chan answer, 1)
	go func() { ch <- a.turn(ctx, session, key, input, header...) }()
	return ch
}

func (a *testAgent) get(path string, header ...string) answer {
	return ask(context.Background(), newClient(), http.MethodGet, a.url(path), "", header...)
}

// view is the checkpoint of a session.
func (a *testAgent) view(t *testing.T, session string) turn.SessionView {
	t.Helper()
	return decode[turn.SessionView](t, a.get(turn.SessionPath(a.env.Agent, session)))
}

func decode[T any](t *testing.T, got answer) T {
	t.Helper()
	var v T
	if got.err != nil || got.status != http.StatusOK {
		t.Fatalf("got %d %s, %v", got.status, got.body, got.err)
	}
	if err := json.Unmarshal([]byte(got.body), &v); err != nil {
		t.Fatalf("%v in %s", err, got.body)
	}
	return v
}

// want checks an answer's status and, for a problem, its kind.
func (a answer) want(t *testing.T, status int, problem turn.Code) {
	t.Helper()
	if a.err != nil || a.status != status || a.problem != problem {
		t.Fatalf("got %d %q %s, %v, want %d %q", a.status, a.problem, a.body, a.err, status, problem)
	}
}

// receive takes the next value of a channel, or fails.
func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("%s: the channel was closed", what)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("%s: nothing came within %v", what, patience)
		panic("unreachable")
	}
}

// eventually waits until a condition holds that nothing announces.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// waitInFlight waits until exactly n turns are queued or running.
func (a *testAgent) waitInFlight(t *testing.T, n int) {
	t.Helper()
	eventually(t, "turns in flight", func() bool { return a.engine.flights.count() == n })
}

// waitAlone waits until the server knows that nobody waits for the turn that has
// the session.
func (a *testAgent) waitAlone(t *testing.T, session string) {
	t.Helper()
	eventually(t, "the client is gone", func() bool {
		a.engine.mu.Lock()
		defer a.engine.mu.Unlock()
		return a.engine.lanes[session].flights[0].clients == 0
	})
}

// files lists every path below dir.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gate is an agent's code that tells when it runs and waits to be let go.
type gate struct {
	running chan string     // the input of each run that began
	open    chan struct{}   // one receive lets one run go on
	end     <-chan struct{} // runs that are still waiting end with the test
}

func newGate(t *testing.T) *gate {
	return &gate{
		running: make(chan string, 100),
		open:    make(chan struct{}, 100),
		end:     t.Context().Done(), // before the cleanups, which wait for the runs
	}
}

// run remembers the first input and replies with the number of the turn. It
// ignores its context. The input "pass" does not wait.
func (g *gate) run(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
	if cp.Turn == 1 {
		cp.State.First = input.Text()
	}
	cp.State.Count++
	if input.Text() != "pass" {
		g.running <- input.Text()
		select {
		case <-g.open:
		case <-g.end:
		}
	}
	return Reply{Value: map[string]any{"turn": cp.Turn, "first": cp.State.First, "input": input.Text()}}, nil
}

// remember is the agent's code of most tests.
func remember(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
	if cp.Turn == 1 {
		cp.State.First = input.Text()
	}
	return Text("first " + cp.State.First + ", now " + input.Text()), nil
}
