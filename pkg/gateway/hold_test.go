package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
	"github.com/flisk-go/flisk/pkg/turn"
)

// asked is a request given straight to a gateway's handler.
type asked struct {
	rec     *httptest.ResponseRecorder
	done    chan struct{}
	aborted bool
	after   time.Duration // how long it took
}

func ask(g *Gateway, ctx context.Context, path string, header ...string) *asked {
	r := httptest.NewRequest("POST", path, strings.NewReader(`{"input":1}`)).WithContext(ctx)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a := &asked{rec: httptest.NewRecorder(), done: make(chan struct{})}
	begun := time.Now()
	go func() {
		defer close(a.done)
		defer func() {
			a.after = time.Since(begun)
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler {
					panic(p)
				}
				a.aborted = true
			}
		}()
		g.ServeHTTP(a.rec, r)
	}()
	return a
}

func (a *asked) wantProblem(t *testing.T, code turn.Code) *turn.Problem {
	t.Helper()
	<-a.done
	return wantProblem(t, a.rec.Code, a.rec.Header(), a.rec.Body.String(), code)
}

// serial is an agent that takes one connection after the other, each for one
// request, in memory.
type serial struct {
	conns chan net.Conn
	order []string // sessions, as they came
}

func newSerial() *serial { return &serial{conns: make(chan net.Conn)} }

func (s *serial) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case s.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *serial) run(t *testing.T, n int) {
	for range n {
		conn := <-s.conns
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		s.order = append(s.order, r.Header.Get(turn.HeaderSession))
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = conn.Close()
	}
}

func TestHeldRequestsAreReleasedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{})
		agent := newSerial()
		g.dial = agent.dial
		g.SetRoutes(routes())

		const n = 20
		var want []string
		var all []*asked
		for i := range n {
			want = append(want, fmt.Sprint("s", i))
			all = append(all, ask(g, t.Context(), "/api/bot/turn", turn.HeaderSession, want[i]))
			synctest.Wait() // it has its place
		}
		if g.held() != n {
			t.Fatalf("%d are held, want %d", g.held(), n)
		}
		g.SetRoutes(routes(stack.Endpoint{Replica: "bot-1"}))
		agent.run(t, n)
		for i, a := range all {
			if <-a.done; a.rec.Code != http.StatusOK {
				t.Errorf("%d: status %d", i, a.rec.Code)
			}
		}
		if !slices.Equal(agent.order, want) {
			t.Errorf("order %q", agent.order)
		}
		if g.held() != 0 {
			t.Errorf("%d are held still", g.held())
		}
	})
}

func TestNoRequestOvertakesTheHeldOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{})
		agent := newSerial()
		g.dial = agent.dial
		g.SetRoutes(routes())
		want := []string{"s0", "s1", "s2", "late"}
		var all []*asked
		for _, session := range want {
			if session == "late" {
				g.SetRoutes(routes(stack.Endpoint{Replica: "bot-1"}))
				synctest.Wait() // the first one is being sent
			}
			all = append(all, ask(g, t.Context(), "/api/bot/turn", turn.HeaderSession, session))
			synctest.Wait()
		}
		agent.run(t, len(want))
		for _, a := range all {
			<-a.done
		}
		if !slices.Equal(agent.order, want) {
			t.Errorf("order %q", agent.order)
		}
	})
}

func TestHeldRequestGivesUpAfterItsTime(t *testing.T) {
	t.Parallel()
	for name, endpoints := range map[string][]stack.Endpoint{
		"none listed":       nil,
		"none that answers": {{Replica: "bot-1"}, {Replica: "bot-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := New(Options{})
				dials := 0
				g.dial = func(context.Context, string, string) (net.Conn, error) {
					dials++
					return nil, net.ErrClosed
				}
				g.SetRoutes(routes(endpoints...))
				a := ask(g, t.Context(), "/api/bot/turn", turn.HeaderSession, "s1")
				p := a.wantProblem(t, turn.NotReady)
				if a.after != 30*time.Second {
					t.Errorf("it took %s", a.after)
				}
				if p.SessionID != "s1" {
					t.Errorf("session %q", p.SessionID)
				}
				// Once at first, then every 50 ms, each replica once each time.
				if most := len(endpoints) * 602; dials > most || dials < most*9/10 {
					t.Errorf("%d dials, want about %d", dials, most)
				}
			})
		})
	}
}

func TestHoldIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{})
		table := routes()
		table.Agents = append(table.Agents, stack.Route{Agent: "billing"})
		g.SetRoutes(table)
		var all []*asked
		for range 256 {
			all = append(all, ask(g, t.Context(), "/api/bot/turn"))
		}
		synctest.Wait()

		over := ask(g, t.Context(), "/api/bot/turn")
		over.wantProblem(t, turn.NotReady)
		if over.after != 0 {
			t.Errorf("the one too many waited %s", over.after)
		}
		other := ask(g, t.Context(), "/api/billing/turn")
		synctest.Wait()
		select {
		case <-other.done:
			t.Error("another agent's request was not held")
		default:
		}
		for _, a := range append(all, other) {
			a.wantProblem(t, turn.NotReady)
			if a.after != 30*time.Second {
				t.Errorf("a held one waited %s", a.after)
			}
		}
	})
}

func TestReadyIsNotHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{})
		g.SetRoutes(routes())
		a := ask(g, t.Context(), turn.AgentReadyPath("bot"))
		a.wantProblem(t, turn.NotReady)
		if a.after != 0 {
			t.Errorf("it waited %s", a.after)
		}
	})
}

func TestHeldRequestIsDroppedWithItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{})
		agent := newSerial()
		g.dial = agent.dial
		g.SetRoutes(routes())

		first, leave := context.WithCancel(t.Context())
		gone := ask(g, first, "/api/bot/turn", turn.HeaderSession, "gone")
		synctest.Wait()
		stays := ask(g, t.Context(), "/api/bot/turn", turn.HeaderSession, "stays")
		synctest.Wait()
		leave()
		if <-gone.done; !gone.aborted {
			t.Errorf("it was answered: %d", gone.rec.Code)
		}
		if g.held() != 1 {
			t.Fatalf("%d are held, want 1", g.held())
		}
		g.SetRoutes(routes(stack.Endpoint{Replica: "bot-1"}))
		agent.run(t, 1)
		<-stays.done
		if stays.rec.Code != http.StatusOK || !slices.Equal(agent.order, []string{"stays"}) {
			t.Errorf("status %d, the agent got %q", stays.rec.Code, agent.order)
		}
	})
}

func TestHeldRequestOfAnAgentThatLeftIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{})
		g.SetRoutes(routes())
		a := ask(g, t.Context(), "/api/bot/turn")
		synctest.Wait()
		g.SetRoutes(stack.Routes{Hosts: []string{host}})
		a.wantProblem(t, turn.NotFound)
		if a.after != 0 {
			t.Errorf("it waited %s", a.after)
		}
	})
}

// The line moves on when a request is sent, not when its turn is over.
func TestHeldRequestsDoNotWaitForEachOthersTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{})
		agent := make(chan net.Conn)
		g.dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			agent <- theirs
			return ours, nil
		}
		g.SetRoutes(routes())
		one := ask(g, t.Context(), "/api/bot/turn")
		two := ask(g, t.Context(), "/api/bot/turn")
		synctest.Wait()
		g.SetRoutes(routes(stack.Endpoint{Replica: "bot-1"}))

		var open []net.Conn
		for range 2 { // both are sent before either is answered
			conn := <-agent
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
		}
		for _, conn := range open {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = conn.Close()
		}
		<-one.done
		<-two.done
		if one.rec.Code != http.StatusOK || two.rec.Code != http.StatusOK {
			t.Errorf("status %d and %d", one.rec.Code, two.rec.Code)
		}
	})
}

func TestStopGivesHeldRequestsUp(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{HoldTime: time.Hour, Grace: 10 * time.Second}, routes())
	answered := s.start()
	eventually(t, "the request is held", func() bool { return s.held() == 1 })
	s.stop()
	r := <-answered
	r.wantProblem(t, turn.NotReady)
	<-s.done
	if s.err != nil {
		t.Errorf("Serve: %v", s.err)
	}
}

func TestHeldRequestWithABrokenConnectionIsDropped(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, routes())
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		res, err := s.client.Do(s.request(ctx, "POST", "/api/bot/turn", "{}"))
		if err == nil {
			res.Body.Close()
		}
		left <- err
	}()
	eventually(t, "the request is held", func() bool { return s.held() == 1 })
	leave()
	if err := <-left; err == nil {
		t.Error("the client got an answer")
	}
	eventually(t, "the held request is dropped", func() bool { return s.held() == 0 })

	var got []string
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) { got = append(got, r.URL.Path) })
	s.SetRoutes(routes(e))
	s.post()
	if len(got) != 1 {
		t.Errorf("the agent got %q", got)
	}
}
