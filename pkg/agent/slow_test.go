package agent

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// pipeListener hands out in-memory connections, so that the clock of a test can
// be a fake one.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// pipeEnv is what the servers of servePipe run with.
func pipeEnv() turn.Env {
	env := turn.DefaultEnv()
	env.Hosts, env.Linger = []string{"x"}, 0
	return env
}

// servePipe runs a server in the test's bubble and returns a way to connect.
func servePipe(t *testing.T, s *Server) (dial func() net.Conn, drain func()) {
	ln := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	dial = func() net.Conn {
		client, server := net.Pipe()
		ln.conns <- server
		return client
	}
	return dial, func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

func TestDribblingClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		send, answer string
		within       time.Duration
	}{
		"headers that never end":         {"POST /api/bot/turn HTTP/1.1\r\nHost: x\r\n", "", headerTimeout},
		"a body that never comes":        {"POST /api/bot/turn HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", "400 Bad Request", bodyTimeout},
		"a refused body":                 {"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "", bodyTimeout},
		"a connection never used":        {"", "", headerTimeout},
		"a connection not used any more": {"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found", idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dial, drain := servePipe(t, NewServer(remember, nil, pipeEnv(), slog.New(slog.DiscardHandler)))
				defer drain()
				began := time.Now()
				conn := dial()
				go func() { _, _ = io.WriteString(conn, c.send) }()
				got, _ := io.ReadAll(conn)
				if !strings.Contains(string(got), c.answer) {
					t.Errorf("answer %q, want %q", got, c.answer)
				}
				if took := time.Since(began); took > c.within+time.Second {
					t.Errorf("the connection was kept for %v", took)
				}
			})
		})
	}
}

func TestC14_IdleConnectionsDoNotHoldTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dial, drain := servePipe(t, NewServer(remember, nil, pipeEnv(), slog.New(slog.DiscardHandler)))
		unused, used, half := dial(), dial(), dial()
		answers := make(chan string, 1)
		go func() { _, _ = io.WriteString(used, "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n") }()
		go func() {
			var got strings.Builder
			_, _ = io.Copy(&got, used)
			answers <- got.String()
		}()
		<-time.After(requestGrace)
		fresh := dial()
		go func() { _, _ = io.WriteString(half, "GET /nowhere HTTP/1.1\r\nHo") }()
		synctest.Wait()
		began := time.Now()
		drained := make(chan time.Duration, 1)
		go func() { drain(); drained <- time.Since(began) }()
		if _, err := unused.Read(make([]byte, 1)); err != io.EOF || time.Since(began) > 0 {
			t.Errorf("unused connection: %v after %v", err, time.Since(began))
		}
		if got := <-answers; !strings.Contains(got, "404") || time.Since(began) > 0 {
			t.Errorf("used connection: %q after %v", got, time.Since(began))
		}
		if _, err := fresh.Read(make([]byte, 1)); err != io.EOF || time.Since(began) != requestGrace {
			t.Errorf("new connection: %v after %v", err, time.Since(began))
		}
		// The request that was being read is answered, as the last one.
		go func() { _, _ = io.WriteString(half, "st: x\r\n\r\n") }()
		got, _ := io.ReadAll(half)
		if !strings.Contains(string(got), "404") || !strings.Contains(string(got), "Connection: close") {
			t.Errorf("half a request: %q", got)
		}
		if took := <-drained; took > time.Second {
			t.Errorf("the drain took %v", took)
		}
	})
}

// TestC14_StalledBodiesDoNotHoldTheDrain: a body that makes no progress is given
// up after a moment, and one that does is waited for and gets its answer.
func TestC14_StalledBodiesDoNotHoldTheDrain(t *testing.T) {
	t.Parallel()
	const post = "POST /api/bot/turn HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
	for name, c := range map[string]struct {
		before, parts string // parts arrive one by one, a byte each time
		answer        string
		within        time.Duration
	}{
		"stalled": {post + "{", "", "503 Service Unavailable", stallTime},
		"refused": {"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "", "404 Not Found", stallTime},
		"slow":    {post + `{"input":"`, `hi"}`, "200 OK", 3 * stallTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dial, drain := servePipe(t, NewServer(remember, checkpoint.NewMemory(), pipeEnv(), slog.New(slog.DiscardHandler)))
				conn := dial()
				answer := make(chan string, 1)
				go func() {
					got, _ := io.ReadAll(conn)
					answer <- string(got)
				}()
				_, _ = io.WriteString(conn, c.before)
				synctest.Wait()
				began := time.Now()
				drained := make(chan time.Duration, 1)
				go func() { drain(); drained <- time.Since(began) }()
				for _, part := range c.parts {
					<-time.After(stallTime * 2 / 3)
					_, _ = io.WriteString(conn, string(part))
				}
				if got := <-answer; !strings.Contains(got, c.answer) || !strings.Contains(got, "Connection: close") && c.answer != "404 Not Found" {
					t.Errorf("answer %q, want %q", got, c.answer)
				}
				if took := <-drained; took > c.within+requestGrace {
					t.Errorf("the drain took %v", took)
				}
			})
		})
	}
}

// TestASlowClientThatGotAll: the session was let go of meanwhile, and the note
// that the reply was delivered is made all the same, unless the session went on.
func TestASlowClientThatGotAll(t *testing.T) {
	t.Parallel()
	for name, goesOn := range map[string]bool{"the session waited": false, "the session went on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(remember, checkpoint.NewMemory(), pipeEnv(), slog.New(slog.DiscardHandler))
				defer s.Close()
				take := func(input string, reading time.Duration) (got turn.Result) {
					body, hash, err := parseInput([]byte(inputBody(input)))
					if err != nil {
						t.Fatal(err)
					}
					err = s.engine.do(t.Context(), request{session: "s", input: body, hash: hash}, client{deliver: func(r turn.Result) bool {
						<-time.After(reading)
						got = r
						return true
					}})
					if err != nil {
						t.Error(err)
					}
					return got
				}
				done := make(chan bool)
				go func() { take("yes", 2*deliveryWait); close(done) }()
				<-time.After(deliveryWait + time.Millisecond)
				want := 2
				if goesOn {
					if got := take("no", 0); got.Turn != 2 {
						t.Errorf("while the slow client reads, the next is turn %d", got.Turn)
					}
					want = 3
				}
				<-done
				if got := take("yes", 0); got.Turn != want || got.Replayed {
					t.Errorf("the same input again: %+v, want turn %d", got, want)
				}
			})
		})
	}
}
