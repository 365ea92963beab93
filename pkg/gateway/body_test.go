package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// write sends bytes on a connection of their own and reads one answer. The
// connection must be closed by the gateway afterwards.
func (s *served) write(text string) reply {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		s.t.Errorf("the connection is not closed: %v", err)
	}
	return reply{res.StatusCode, res.Header, string(body)}
}

const head = "POST /api/bot/turn HTTP/1.1\r\nHost: " + host + "\r\n"

func TestBodies(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Error(err)
		}
		got.Add(n)
	})
	table := routes(e)
	table.Agents[0].MaxBody = 100 << 10
	s := serve(t, Options{}, table)
	impatient := serve(t, Options{BodyTime: 50 * time.Millisecond}, table)
	const limit = 100<<10 + bodySlack

	for _, size := range []int{0, 1, 64 << 10, 100 << 10, limit} {
		before := got.Load()
		r, err := s.do("POST", "/api/bot/turn", strings.Repeat("x", size))
		if err != nil || r.status != http.StatusOK || got.Load()-before != int64(size) {
			t.Errorf("%d bytes: status %d, the agent got %d, %v", size, r.status, got.Load()-before, err)
		}
	}

	got.Store(0)
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", limit+1, strings.Repeat("x", limit+1))
	for name, c := range map[string]struct {
		gateway *served
		text    string
		code    turn.Code
	}{
		"length too large":   {s, "Content-Length: 104857600\r\n\r\n", turn.TooLarge},
		"chunks too large":   {s, "Transfer-Encoding: chunked\r\n\r\n" + chunk, turn.TooLarge},
		"bad chunk":          {s, "Transfer-Encoding: chunked\r\n\r\nzz\r\n", turn.BadRequest},
		"body never arrives": {impatient, "Content-Length: 10\r\n\r\n", turn.BadRequest},
		"body stops half":    {impatient, "Content-Length: 10\r\n\r\nhalf", turn.BadRequest},
		"chunks stop half":   {impatient, "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", turn.BadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			c.gateway.write(head+c.text).wantProblem(t, c.code)
		})
	}
	if n := got.Load(); n != 0 {
		t.Errorf("the agent got %d bytes of refused bodies", n)
	}
}

// A body's deadline must not end the turn that comes after the body.
func TestBodyTimeDoesNotBoundTheTurn(t *testing.T) {
	t.Parallel()
	const bodyTime = 30 * time.Millisecond
	e := backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(3 * bodyTime):
			_, _ = io.WriteString(w, "late")
		case <-r.Context().Done():
		}
	})
	s := serve(t, Options{BodyTime: bodyTime}, routes(e))
	if r := s.post(); r.body != "late" {
		t.Errorf("status %d %q", r.status, r.body)
	}
}

// The client sends its body only when it is told to go on, and is not told so
// for one that is too large.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	s := serve(t, Options{}, routes(backend(t, "bot-1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			t.Errorf("the agent got Expect %q", r.Header.Get("Expect"))
		}
		_, _ = io.Copy(w, r.Body)
	})))
	transport := &http.Transport{ExpectContinueTimeout: 10 * time.Second}
	defer transport.CloseIdleConnections()

	r := s.request(t.Context(), "POST", "/api/bot/turn", "hello", "Expect", "100-continue")
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); string(body) != "hello" || err != nil {
		t.Errorf("status %d %q %v", res.StatusCode, body, err)
	}
	s.write(head+"Expect: 100-continue\r\nContent-Length: 104857600\r\n\r\n").wantProblem(t, turn.TooLarge)
}
