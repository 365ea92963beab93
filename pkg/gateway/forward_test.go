package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

func TestC26_PostWhileTheAgentIsDownIsSentOnce(t *testing.T) {
	t.Parallel()
	e := unixEndpoint(t, "bot-1")
	s := serve(t, Options{Redial: time.Millisecond}, routes(e))
	answered := s.start(turn.HeaderKey, "k1")
	eventually(t, "the request is held", func() bool { return s.held() == 1 })

	var runs atomic.Int32
	listen(t, e, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}))
	if r := <-answered; r.status != http.StatusOK || r.body != `{"input":1}` {
		t.Errorf("status %d %q", r.status, r.body)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("the agent ran %d times", n)
	}
}

// fickle is an agent that answers the first of every connection's requests and
// hangs up when it has read another one.
type fickle struct {
	mu   sync.Mutex
	seen map[string]int // deliveries by turn key; "" for requests without one
}

func (f *fickle) serve(t *testing.T, ln net.Listener) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		conns.Go(func() {
			defer conn.Close()
			in := bufio.NewReader(conn)
			for i := 0; ; i++ {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					t.Error(err)
				}
				f.mu.Lock()
				f.seen[r.Header.Get(turn.HeaderKey)]++
				f.mu.Unlock()
				if i > 0 {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
	}
}

func TestC26_NothingIsSentTwiceOverAReusedConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, body string }{
		{"POST", `{"input":1}`},
		{"POST", ""},
		{"DELETE", ""},
	} {
		t.Run(fmt.Sprint(c.method, " with ", len(c.body), " bytes"), func(t *testing.T) {
			t.Parallel()
			e := unixEndpoint(t, "bot-1")
			ln, err := net.Listen(e.Network, e.Address)
			if err != nil {
				t.Fatal(err)
			}
			agent := &fickle{seen: make(map[string]int)}
			done := make(chan struct{})
			go func() {
				defer close(done)
				agent.serve(t, ln)
			}()
			s := serve(t, Options{}, routes(e))
			defer func() {
				_ = ln.Close()
				s.SetRoutes(routes()) // closes the idle connections, so that the agent ends
				<-done
			}()

			if r, err := s.do("GET", "/api/bot/sessions", ""); err != nil || r.status != http.StatusOK {
				t.Fatalf("status %d, %v", r.status, err)
			}
			r, err := s.do(c.method, "/api/bot/turn", c.body, turn.HeaderKey, "k1", "X-Idempotency-Key", "k1")
			if err != nil {
				t.Fatal(err)
			}
			r.wantProblem(t, turn.AgentLost)
			agent.mu.Lock()
			defer agent.mu.Unlock()
			if agent.seen["k1"] != 1 {
				t.Errorf("it was delivered %d times", agent.seen["k1"])
			}
		})
	}
}

func TestC26_AgentThatDiesAfterReadingIs502(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	dies := func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler) // closes the connection
	}
	// The other replica could take it, and must not.
	s := serve(t, Options{}, routes(backend(t, "bot-1", dies), backend(t, "bot-2", dies)))
	r := s.post(turn.HeaderSession, "s1", turn.HeaderKey, "k1")
	if p := r.wantProblem(t, turn.AgentLost); p.SessionID != "s1" {
		t.Errorf("session %q", p.SessionID)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("it was delivered %d times", n)
	}
}

func TestAnswerOfTheAgentIsNeverRepeated(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 500, 502, 503, 504} {
		var runs atomic.Int32
		refuses := func(w http.ResponseWriter, r *http.Request) {
			runs.Add(1)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		}
		s := serve(t, Options{}, routes(backend(t, "bot-1", refuses), backend(t, "bot-2", refuses)))
		r := s.post(turn.HeaderKey, "k1")
		if r.status != status || r.header.Get("Retry-After") != "7" {
			t.Errorf("status %d, Retry-After %q, want the agent's %d", r.status, r.header.Get("Retry-After"), status)
		}
		if n := runs.Load(); n != 1 {
			t.Errorf("status %d: it was sent %d times", status, n)
		}
	}
}

func TestUnaskedSwitchOfProtocolsIs502(t *testing.T) {
	t.Parallel()
	switches := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}
	s := serve(t, Options{}, routes(backend(t, "bot-1", switches)))
	s.post().wantProblem(t, turn.AgentLost)
}

func TestDeadReplicasSessionsGoToAReadyOneAtOnce(t *testing.T) {
	t.Parallel()
	dead := unixEndpoint(t, "bot-1")
	// A hold or a second round would never end.
	s := serve(t, Options{HoldTime: time.Hour, Redial: time.Hour}, routes(dead, backend(t, "bot-2", say("two"))))
	for i := range 100 {
		if r := s.post(turn.HeaderSession, fmt.Sprint("s", i)); r.body != "two" {
			t.Fatalf("s%d: status %d %q", i, r.status, r.body)
		}
	}
}

func TestC27_SessionKeepsToItsReplica(t *testing.T) {
	t.Parallel()
	one, two, three := backend(t, "bot-1", say("1")), backend(t, "bot-2", say("2")), backend(t, "bot-3", say("3"))
	s := serve(t, Options{}, routes(one, two))
	const sessions = 60
	place := func(i int) string { return s.post(turn.HeaderSession, fmt.Sprint("tg:", i)).body }

	before := make([]string, sessions)
	count := make(map[string]int)
	for i := range sessions {
		before[i] = place(i)
		count[before[i]]++
		for range 3 {
			if got := place(i); got != before[i] {
				t.Fatalf("session %d went to %q and %q", i, before[i], got)
			}
		}
	}
	if count["1"] < sessions/4 || count["2"] < sessions/4 {
		t.Errorf("sessions per replica: %v", count)
	}

	// A third replica takes sessions, and no other session moves.
	s.SetRoutes(routes(three, two, one))
	moved := 0
	for i := range sessions {
		switch got := place(i); got {
		case before[i]:
		case "3":
			moved++
		default:
			t.Errorf("session %d moved from %q to %q", i, before[i], got)
		}
	}
	if moved < sessions/6 || moved > sessions/2 {
		t.Errorf("%d of %d sessions moved", moved, sessions)
	}

	// Its going moves its sessions back.
	s.SetRoutes(routes(one, two))
	for i := range sessions {
		if got := place(i); got != before[i] {
			t.Errorf("session %d went to %q, was at %q", i, got, before[i])
		}
	}
}

func TestRequestsWithoutSessionSpread(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, routes(backend(t, "bot-1", say("1")), backend(t, "bot-2", say("2")), backend(t, "bot-3", say("3"))))
	count := make(map[string]int)
	for range 90 {
		count[s.post().body]++
	}
	for _, name := range []string{"1", "2", "3"} {
		if count[name] < 15 {
			t.Errorf("requests per replica: %v", count)
		}
	}
}

func TestRankSpreadsLikeNames(t *testing.T) {
	t.Parallel()
	var replicas []*replica
	for i := range 4 {
		replicas = append(replicas, &replica{endpoint: stack.Endpoint{Replica: fmt.Sprint("bot-", i)}})
	}
	count := make(map[*replica]int)
	const keys = 4000
	for i := range keys {
		best := first(replicas, fmt.Sprint("session-", i), nil)
		next := first(replicas, fmt.Sprint("session-", i), []*replica{best})
		if best == next {
			t.Fatal("a tried replica was chosen again")
		}
		count[best]++
	}
	for r, n := range count {
		if n < keys/4*9/10 || n > keys/4*11/10 {
			t.Errorf("%s has %d of %d keys", r.endpoint.Replica, n, keys)
		}
	}
	if first(replicas, "k", replicas) != nil {
		t.Error("all were tried, and one was chosen")
	}
}
