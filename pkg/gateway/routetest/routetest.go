// Package routetest says what a gateway does with a request, as a table that
// any implementation can be driven with: the built-in proxy, or Traefik with the
// files that are generated from the same routes.
//
// Start a [Backend] for each of [Agents], a gateway that routes to them, and
// call [Run] with [Cases], or with [Traefik] when it is one.
package routetest

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Agents are the agents that the cases know. One name is the beginning of
// another on purpose.
func Agents() []string { return []string{"bot", "bot-2", "billing"} }

// Case is one request and what becomes of it.
type Case struct {
	Name   string
	Method string // "" is GET
	Host   string // "" is the gateway's own
	Target string // as it stands in the request line
	Header []string
	Body   string

	Outcome

	// Traefik is what becomes of it where that is Traefik's to decide and no
	// configuration changes it; nil when it is the same.
	Traefik *Otherwise
}

// Outcome is what becomes of a request.
type Outcome struct {
	Agent  string // who gets it; "" when it is refused
	Status int    // of the refusal
	Check  func(t *testing.T, got Seen)
}

// Otherwise is another outcome, and the reason.
type Otherwise struct {
	Outcome
	Why string

	// Unstamped says that it is refused before there is a route: the answer does
	// not name the table.
	Unstamped bool
}

// Traefik is the table as it is for Traefik: every case of [Cases], with what is
// otherwise there.
func Traefik() []Case {
	cases := Cases()
	for i, c := range cases {
		if c.Traefik != nil {
			cases[i].Outcome = c.Traefik.Outcome
		}
	}
	return cases
}

// Seen is what a [Backend] got, and its answer.
type Seen struct {
	Agent  string      `json:"agent"`
	Method string      `json:"method"`
	Target string      `json:"target"`
	Host   string      `json:"host"`
	Header http.Header `json:"header"`
	Length int64       `json:"length"` // Content-Length; -1 if there was none
	Body   string      `json:"body"`
}

// seenHeader carries a Seen in the answer, so that HEAD works as well.
const seenHeader = "Routetest-Seen"

// Backend answers every request with what it saw.
func Backend(agent string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		seen, err := json.Marshal(Seen{agent, r.Method, r.RequestURI, r.Host, r.Header, r.ContentLength, string(body)})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set(seenHeader, string(seen))
		w.WriteHeader(http.StatusOK)
	})
}

// Cases is the table.
func Cases() []Case {
	long := "Aa0" + strings.Repeat("zZ._~:@+=-", 12) + "bBcCd" // 128 characters, every kind
	return []Case{
		{Name: "turn", Method: "POST", Target: "/api/bot/turn", Body: `{"input":"hi"}`, Outcome: checked("bot", func(t *testing.T, got Seen) {
			if got.Body != `{"input":"hi"}` || got.Length != int64(len(got.Body)) {
				t.Errorf("body %q of length %d", got.Body, got.Length)
			}
		})},
		{Name: "chunked turn has a length behind the gateway", Method: "POST", Target: "/api/bot/turn", Header: []string{"Transfer-Encoding: chunked"}, Body: "2\r\n{}\r\n0\r\n\r\n", Outcome: checked("bot", func(t *testing.T, got Seen) {
			if got.Body != "{}" || got.Length != 2 {
				t.Errorf("body %q of length %d", got.Body, got.Length)
			}
		}), Traefik: &Otherwise{Why: "it reads no body: one that it read whole would keep answers from streaming", Outcome: checked("bot", func(t *testing.T, got Seen) {
			if got.Body != "{}" || got.Length != -1 {
				t.Errorf("body %q of length %d", got.Body, got.Length)
			}
		})}},
		{Name: "name that is another's beginning", Target: "/api/bot-2/sessions", Outcome: to("bot-2")},
		{Name: "another agent", Target: "/api/billing/sessions/tg%3A4711?after=a;b&limit=%zz", Outcome: checked("billing", func(t *testing.T, got Seen) {
			if want := "/api/billing/sessions/tg%3A4711?after=a;b&limit=%zz"; got.Target != want {
				t.Errorf("target %q, want %q", got.Target, want)
			}
		}), Traefik: &Otherwise{Why: `it writes ";" as an escape, because it would take it for "&" else`, Outcome: checked("billing", func(t *testing.T, got Seen) {
			if want := "/api/billing/sessions/tg%3A4711?after=a%3Bb&limit=%zz"; got.Target != want {
				t.Errorf("target %q, want %q", got.Target, want)
			}
		})}},
		{Name: "ready", Target: "/api/bot/ready", Outcome: to("bot")},
		{Name: "below the agent, with a slash at the end", Target: "/api/bot/", Outcome: to("bot")},
		{Name: "DELETE", Method: "DELETE", Target: "/api/bot/sessions/s1", Outcome: to("bot")},
		{Name: "HEAD", Method: "HEAD", Target: "/api/bot/ready", Outcome: to("bot")},
		{Name: "OPTIONS is the agent's to refuse", Method: "OPTIONS", Target: "/api/bot/turn", Outcome: to("bot")},

		{Name: "root", Target: "/", Outcome: refused(404)},
		{Name: "api alone", Target: "/api/", Outcome: refused(404)},
		{Name: "agent without a slash", Target: "/api/bot", Outcome: refused(404)},
		{Name: "unknown agent", Target: "/api/bots/turn", Outcome: refused(404)},
		{Name: "agent in capitals", Target: "/api/Bot/turn", Outcome: refused(404)},
		{Name: "the agent's own endpoints are not public", Target: "/health", Outcome: refused(404)},
		{Name: "prefix in capitals", Target: "/API/bot/turn", Outcome: refused(404)},

		{Name: "foreign host", Target: "/api/bot/ready", Host: "evil.example", Outcome: refused(403)},
		{Name: "foreign host on an unknown path", Target: "/", Host: "evil.example", Outcome: refused(403)},
		{Name: "foreign host in the request line", Target: "http://evil.example/api/bot/ready", Outcome: refused(403)},
		{Name: "own name as a foreign one's beginning", Target: "/api/bot/ready", Host: "localhost.evil.example:8080", Outcome: refused(403)},
		{Name: "own name with another port", Target: "/api/bot/ready", Host: "localhost:8081", Outcome: refused(403)},
		{Name: "no host", Target: "/api/bot/ready", Host: " ", Outcome: refused(403)},

		{Name: "agent with an escape", Target: "/api/b%6ft/turn", Outcome: refused(404), Traefik: &Otherwise{Why: cleaned, Outcome: clean("bot", "/api/bot/turn")}},
		{Name: "escaped slash behind the agent", Target: "/api/bot%2Fturn", Outcome: refused(404), Traefik: &Otherwise{Why: "it refuses such a path before it looks for a route", Outcome: refused(400), Unstamped: true}},
		{Name: "dots that lead to another agent", Target: "/api/bot/../billing/turn", Outcome: refused(404), Traefik: &Otherwise{Why: cleaned, Outcome: clean("billing", "/api/billing/turn")}},
		{Name: "escaped dots", Target: "/api/bot/%2e%2e/billing/turn", Outcome: refused(404), Traefik: &Otherwise{Why: cleaned, Outcome: clean("billing", "/api/billing/turn")}},
		{Name: "dots that lead out", Target: "/api/bot/../../health", Outcome: refused(404)},
		{Name: "empty segment", Target: "/api/bot//turn", Outcome: refused(404), Traefik: &Otherwise{Why: cleaned, Outcome: clean("bot", "/api/bot/turn")}},
		{Name: "OPTIONS *", Method: "OPTIONS", Target: "*", Outcome: refused(404), Traefik: &Otherwise{Why: "the server in it answers that itself", Outcome: refused(200), Unstamped: true}},
		{Name: "CONNECT", Method: "CONNECT", Target: "localhost:8080", Outcome: refused(404)},
		{Name: "upgrade", Target: "/api/bot/turn", Header: []string{"Connection: Upgrade", "Upgrade: websocket"}, Outcome: refused(400)},

		{Name: "C27 the session id passes byte for byte", Target: "/api/bot/sessions", Header: []string{"x-session-ID: " + long}, Outcome: checked("bot", func(t *testing.T, got Seen) {
			has(t, got.Header, turn.HeaderSession, long)
		})},
		{Name: "two session ids reach the agent, which refuses them", Target: "/api/bot/sessions", Header: []string{"X-Session-Id: a", "X-Session-Id: b"}, Outcome: checked("bot", func(t *testing.T, got Seen) {
			has(t, got.Header, turn.HeaderSession, "a", "b")
		})},
		{Name: "an empty session id reaches the agent, which refuses it", Target: "/api/bot/sessions", Header: []string{"X-Session-Id:"}, Outcome: checked("bot", func(t *testing.T, got Seen) {
			has(t, got.Header, turn.HeaderSession, "")
		})},
		{Name: "aliases with underscores are dropped", Target: "/api/bot/sessions", Header: []string{"x_session_id: other", "X-Session_Id: other", "idempotency_key: other", "X-Session-Id: mine"}, Outcome: checked("bot", func(t *testing.T, got Seen) {
			has(t, got.Header, turn.HeaderSession, "mine")
			for name := range got.Header {
				if strings.Contains(name, "_") {
					t.Errorf("the agent got %q", name)
				}
			}
		})},
		{Name: "turn key and hold pass", Method: "POST", Target: "/api/bot/turn", Body: "{}", Header: []string{`Idempotency-Key: "a b\"c"`, "X-Flisk-Hold: n:begun:5", "If-Match: \"3\""}, Outcome: checked("bot", func(t *testing.T, got Seen) {
			has(t, got.Header, turn.HeaderKey, `"a b\"c"`)
			has(t, got.Header, turn.HeaderHold, "n:begun:5")
			has(t, got.Header, "If-Match", `"3"`)
		})},
		{Name: "headers of the contract are not hop-by-hop", Method: "POST", Target: "/api/bot/turn", Header: []string{"Connection: x-session-id, idempotency-key, if-match", "X-Session-Id: s1", "Idempotency-Key: k1", `If-Match: "3"`}, Outcome: checked("bot", func(t *testing.T, got Seen) {
			has(t, got.Header, "X-Session-Id", "s1")
			has(t, got.Header, "Idempotency-Key", "k1")
			has(t, got.Header, "If-Match", `"3"`)
		})},
		{Name: "who asked is what the gateway saw", Target: "/api/bot/sessions", Header: []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-Host: evil.example", "X-Forwarded-Prefix: /x", "Forwarded: for=203.0.113.9", "X-Real-Ip: 203.0.113.9"}, Outcome: checked("bot", func(t *testing.T, got Seen) {
			has(t, got.Header, "X-Forwarded-Host", got.Host)
			has(t, got.Header, "X-Forwarded-Proto", "http")
			has(t, got.Header, "X-Forwarded-Prefix")
			has(t, got.Header, "Forwarded")
			for _, name := range []string{"X-Forwarded-For", "X-Real-Ip"} {
				if v := got.Header[name]; slices.Contains(v, "203.0.113.9") {
					t.Errorf("the agent got the client's %s", name)
				}
			}
		})},
		{Name: "hop-by-hop headers end at the gateway", Target: "/api/bot/sessions", Header: []string{"Connection: close, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5", "Proxy-Authorization: Basic eDp5", "X-End: 1"}, Outcome: checked("bot", func(t *testing.T, got Seen) {
			for _, name := range []string{"Connection", "X-Hop", "Keep-Alive", "Proxy-Authorization"} {
				has(t, got.Header, name)
			}
			has(t, got.Header, "X-End", "1")
		})},
	}
}

// cleaned is the reason of several cases.
const cleaned = "it cleans a path, and routes and forwards the clean one"

func to(agent string) Outcome { return Outcome{Agent: agent} }

func refused(status int) Outcome { return Outcome{Status: status} }

func checked(agent string, check func(*testing.T, Seen)) Outcome {
	return Outcome{Agent: agent, Check: check}
}

// clean is the outcome that an agent sees the path by which it was found.
func clean(agent, target string) Outcome {
	return checked(agent, func(t *testing.T, got Seen) {
		if got.Target != target {
			t.Errorf("target %q, want %q", got.Target, target)
		}
	})
}

func has(t *testing.T, h http.Header, name string, want ...string) {
	t.Helper()
	if got := h.Values(name); !slices.Equal(got, want) {
		t.Errorf("the agent got %s %q, want %q", name, got, want)
	}
}

// Run sends every case to the gateway at addr, whose own name is host, and
// checks who got it. Refused answers go to refusal as well, when it is not nil;
// their bodies are closed by Run afterwards.
func Run(t *testing.T, addr, host string, cases []Case, refusal func(*testing.T, Case, *http.Response)) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			res := c.send(t, addr, host)
			seen := res.Header.Get(seenHeader)
			if c.Agent == "" {
				if res.StatusCode != c.Status {
					t.Errorf("status %d, want %d", res.StatusCode, c.Status)
				}
				if seen != "" {
					t.Errorf("an agent got it: %s", seen)
				}
				if refusal != nil {
					refusal(t, c, res)
				}
				return
			}
			if res.StatusCode != http.StatusOK {
				t.Fatalf("status %d, want it to reach %q", res.StatusCode, c.Agent)
			}
			var got Seen
			if err := json.Unmarshal([]byte(seen), &got); err != nil {
				t.Fatalf("the answer is not a backend's: %v", err)
			}
			if got.Agent != c.Agent {
				t.Errorf("agent %q got it, want %q", got.Agent, c.Agent)
			}
			if got.Host != host {
				t.Errorf("the agent saw host %q, want %q", got.Host, host)
			}
			if c.Check != nil {
				c.Check(t, got)
			}
		})
	}
}

// send writes the request as it stands in the case, past any client that would
// tidy it.
func (c Case) send(t *testing.T, addr, host string) *http.Response {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	method := c.Method
	if method == "" {
		method = http.MethodGet
	}
	if c.Host != "" {
		host = c.Host
	}
	lines := append([]string{method + " " + c.Target + " HTTP/1.1", "Host: " + host}, c.Header...)
	chunked := slices.Contains(c.Header, "Transfer-Encoding: chunked")
	if c.Body != "" && !chunked {
		lines = append(lines, "Content-Length: "+strconv.Itoa(len(c.Body)))
	}
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"+c.Body); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}
