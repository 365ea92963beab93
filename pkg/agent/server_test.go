package agent

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

func TestTurns(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember, func(e *turn.Env) { e.Code = "c0de" })

	first := a.turn(t.Context(), "", "", "<17>")
	first.want(t, 200, "")
	id := first.result.SessionID
	if first.text() != "first <17>, now <17>" || first.result.Turn != 1 || first.result.Replayed || len(id) != 32 {
		t.Errorf("first turn: %s", first.body)
	}
	for name, want := range map[string]string{
		turn.HeaderSession:  id,
		turn.HeaderTurn:     first.result.TurnID,
		turn.HeaderCode:     "c0de",
		turn.HeaderReplayed: "",
		"Content-Type":      "application/json",
		"Cache-Control":     "no-store",
	} {
		if got := first.header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	second := a.turn(t.Context(), id, "", map[string]int{"n": 2})
	second.want(t, 200, "")
	if second.text() != `first <17>, now {"n":2}` || second.result.Turn != 2 {
		t.Errorf("second turn: %s", second.body)
	}

	view := a.view(t, id)
	if view.Turns != 2 || len(view.Messages) != 4 || string(view.State) != `{"first":"<17>"}` {
		t.Errorf("session is %+v", view)
	}
	for i, role := range []string{"user", "assistant", "user", "assistant"} {
		if view.Messages[i].Role != role {
			t.Errorf("message %d is of %q, want %q", i, view.Messages[i].Role, role)
		}
	}
	status := decode[turn.Status](t, a.get(turn.TurnsPath("bot", first.result.TurnID)))
	if status.State != turn.Committed || string(status.Reply) != string(first.result.Reply) || status.SessionID != id || status.Turn != 1 {
		t.Errorf("turn is %+v", status)
	}
	a.turn(t.Context(), "other", "", "x").want(t, 200, "")
	page := decode[turn.SessionList](t, a.get("/api/bot/sessions?limit=1"))
	rest := decode[turn.SessionList](t, a.get("/api/bot/sessions?limit=5&after="+page.Next))
	if len(page.Sessions) != 1 || page.Next == "" || len(rest.Sessions) != 1 || rest.Next != "" {
		t.Errorf("pages %+v and %+v", page, rest)
	}
	ask(t.Context(), newClient(), http.MethodDelete, a.url("/api/bot/sessions/"+id), "").want(t, 204, "")
	a.get("/api/bot/sessions/"+id).want(t, 404, turn.NoSuchSession)
	fresh := a.turn(t.Context(), id, "", "new")
	if fresh.text() != "first new, now new" || fresh.result.Turn != 1 {
		t.Errorf("after the delete: %s", fresh.body)
	}
}

func TestReadyAndHealth(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember, func(e *turn.Env) { e.Code = "c0de" })
	for _, path := range []string{"/ready", "/api/bot/ready"} {
		if got := decode[turn.Ready](t, a.get(path)); !got.Ready || got.Store != "read-write" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	got := decode[turn.Health](t, a.get("/health"))
	if got.Agent != "bot" || got.Contract != turn.Contract || got.Code != "c0de" || got.Replica == "" || got.PID == 0 {
		t.Errorf("health %+v", got)
	}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember, func(e *turn.Env) {
		e.MaxBody = 1000
		e.Hosts = []string{"shop.example:8080"}
	})
	const api = "/api/bot/"
	port := a.addr[strings.LastIndex(a.addr, ":"):]
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		problem                  turn.Code
	}{
		{"own host", "POST", api + "turn", `{"input":1}`, nil, 200, ""},
		{"localhost", "POST", api + "turn", `{"input":1}`, []string{"Host", "LOCALHOST" + port}, 200, ""},
		{"v6 loopback name", "POST", api + "turn", `{"input":1}`, []string{"Host", "[::1]" + port}, 200, ""},
		{"listed host", "POST", api + "turn", `{"input":1}`, []string{"Host", "shop.example:8080"}, 200, ""},
		{"charset", "POST", api + "turn", `{"input":1}`, []string{"Content-Type", "application/json; charset=utf-8"}, 200, ""},
		{"alias header is no session", "POST", api + "turn", `{"input":1}`, []string{"x_session_id", "../x"}, 200, ""},
		{"hold without a nonce", "POST", api + "turn", `{"input":1}`, []string{turn.HeaderHold, "n:begun"}, 200, ""},

		{"foreign host", "POST", api + "turn", `{"input":1}`, []string{"Host", "evil.example" + port}, 403, turn.HostRefused},
		{"foreign host reading", "GET", "/health", "", []string{"Host", "evil.example"}, 403, turn.HostRefused},
		{"loopback on another port", "GET", "/ready", "", []string{"Host", "127.0.0.1:1"}, 403, turn.HostRefused},
		{"listed host without its port", "GET", "/ready", "", []string{"Host", "shop.example"}, 403, turn.HostRefused},
		{"a page of another origin", "POST", api + "turn", `{"input":1}`, []string{"Origin", "https://evil.example"}, 403, turn.HostRefused},
		{"a cross-site fetch", "POST", api + "turn", `{"input":1}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, turn.HostRefused},

		{"no path", "GET", "/", "", nil, 404, turn.NotFound},
		{"other agent", "POST", "/api/other/turn", `{"input":1}`, nil, 404, turn.NotFound},
		{"below turn", "POST", api + "turn/x", `{"input":1}`, nil, 404, turn.NotFound},
		{"unclean path", "GET", api + "sessions/../../x", "", nil, 404, turn.NotFound},
		{"empty id", "GET", api + "sessions/", "", nil, 404, turn.NotFound},
		{"unknown session", "GET", api + "sessions/none", "", nil, 404, turn.NoSuchSession},
		{"delete unknown session", "DELETE", api + "sessions/none", "", nil, 404, turn.NoSuchSession},
		{"unknown turn", "GET", api + "turns/none", "", nil, 404, turn.NoSuchTurn},
		{"turn that is a path", "GET", api + "turns/..%2f..%2fVOLUME", "", nil, 404, turn.NoSuchTurn},
		{"get turn", "GET", api + "turn", "", nil, 405, turn.BadMethod},
		{"post sessions", "POST", api + "sessions", `{}`, nil, 405, turn.BadMethod},
		{"put session", "PUT", api + "sessions/x", `{}`, nil, 405, turn.BadMethod},
		{"options", "OPTIONS", api + "turn", "", nil, 405, turn.BadMethod},

		{"no content type", "POST", api + "turn", `{"input":1}`, []string{"Content-Type", ""}, 415, turn.NotJSON},
		{"form", "POST", api + "turn", `input=1`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, turn.NotJSON},
		{"text", "POST", api + "turn", `{"input":1}`, []string{"Content-Type", "text/plain"}, 415, turn.NotJSON},
		{"compressed", "POST", api + "turn", `{"input":1}`, []string{"Content-Encoding", "gzip"}, 415, turn.NotJSON},
		{"too large", "POST", api + "turn", `{"input":"` + strings.Repeat("x", 1000) + `"}`, nil, 413, turn.TooLarge},
		{"not JSON", "POST", api + "turn", `{"input":`, nil, 400, turn.BadRequest},
		{"no input", "POST", api + "turn", `{}`, nil, 400, turn.BadRequest},
		{"unknown member", "POST", api + "turn", `{"input":1,"session":"x"}`, nil, 400, turn.BadRequest},

		{"session sent twice", "POST", api + "turn", `{"input":1}`, []string{"x-session-id", "a", "x-session-id", "a"}, 400, turn.BadSessionID},
		{"key sent twice", "POST", api + "turn", `{"input":1}`, []string{"idempotency-key", "a", "idempotency-key", "a"}, 400, turn.BadTurnKey},
		{"empty key", "POST", api + "turn", `{"input":1}`, []string{"idempotency-key", ""}, 400, turn.BadTurnKey},
		{"bad key", "POST", api + "turn", `{"input":1}`, []string{"idempotency-key", `"x`}, 400, turn.BadTurnKey},
		{"bad If-Match", "POST", api + "turn", `{"input":1}`, []string{"If-Match", `3`}, 400, turn.BadRequest},
		{"weak If-Match", "POST", api + "turn", `{"input":1}`, []string{"If-Match", `W/"3"`}, 400, turn.BadRequest},
		{"two If-Match", "POST", api + "turn", `{"input":1}`, []string{"If-Match", `"1"`, "If-Match", `"1"`}, 400, turn.BadRequest},
		{"odd If-Match", "POST", api + "turn", `{"input":1}`, []string{"If-Match", `"+1"`}, 400, turn.BadRequest},
		{"bad limit", "GET", api + "sessions?limit=0", "", nil, 400, turn.BadRequest},
		{"large limit", "GET", api + "sessions?limit=1001", "", nil, 400, turn.BadRequest},
		{"bad after", "GET", api + "sessions?after=..%2f", "", nil, 400, turn.BadSessionID},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := ask(t.Context(), newClient(), c.method, a.url(c.path), c.body, c.header...)
			got.want(t, c.status, c.problem)
			if c.status == 405 && got.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("a CORS header")
			}
		})
	}
}

func TestHostOfAnUnknownListenerIsRefused(t *testing.T) {
	t.Parallel()
	s := NewServer(remember, checkpoint.NewMemory(), turn.DefaultEnv(), slog.New(slog.DiscardHandler))
	defer s.Close()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/ready", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("got %d", w.Code)
	}
}

func TestC29_BadSessionIDsCreateNothing(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember)
	before := files(t, a.dir)
	for _, id := range []string{"../../etc/x", "../x", "a/b", "..", "", ".tmp", "ü", "ü", "a b", "-a", "a,b", strings.Repeat("x", 129), strings.Repeat("x", 5000)} {
		got := ask(t.Context(), newClient(), http.MethodPost, a.url("/api/bot/turn"), `{"input":1}`, "x-session-id", id)
		got.want(t, 400, turn.BadSessionID)
		if len(got.body) > 1000 {
			t.Errorf("the id %.10q… is echoed in %d bytes", id, len(got.body))
		}
	}
	if after := files(t, a.dir); len(after) != len(before) {
		t.Errorf("files %q, before %q", after, before)
	}
	valid := []string{"x.tmp", "CON", "A", "a", "tg:4711", "ann@example.org", strings.Repeat("x", 128)}
	for _, id := range valid {
		a.turn(t.Context(), id, "", id).want(t, 200, "")
	}
	for _, id := range valid {
		if got := a.turn(t.Context(), id, "", "again"); got.text() != "first "+id+", now again" {
			t.Errorf("session %.20q: %s %v", id, got.body, got.err)
		}
	}
	for _, id := range []string{"..%2fx", "%20", "%c3%bc", "a%00"} {
		a.get("/api/bot/sessions/"+id).want(t, 400, turn.BadSessionID)
		ask(t.Context(), newClient(), http.MethodDelete, a.url("/api/bot/sessions/"+id), "").want(t, 400, turn.BadSessionID)
	}
}

func TestSessionsCanBeRequired(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember, func(e *turn.Env) { e.RequireSession = true })
	a.turn(t.Context(), "", "", "x").want(t, 400, turn.SessionRequired)
	a.turn(t.Context(), "", "k", "x").want(t, 400, turn.SessionRequired)
	a.turn(t.Context(), "s", "", "x").want(t, 200, "")
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember)
	a.turn(t.Context(), "s", "", "a", "If-Match", "*").want(t, 412, turn.TurnMismatch)
	a.turn(t.Context(), "s", "", "a", "If-Match", `"1"`).want(t, 412, turn.TurnMismatch)
	a.turn(t.Context(), "s", "k", "a", "If-Match", `"0"`).want(t, 200, "")
	a.turn(t.Context(), "s", "", "b", "If-Match", `"0"`).want(t, 412, turn.TurnMismatch)
	a.turn(t.Context(), "s", "", "b", "If-Match", `"1"`).want(t, 200, "")
	a.turn(t.Context(), "s", "", "c", "If-Match", "*").want(t, 200, "")
	// The key is looked at first: a replay is a replay, wherever the session is.
	got := a.turn(t.Context(), "s", "k", "a", "If-Match", `"0"`)
	got.want(t, 200, "")
	if !got.result.Replayed || got.result.Turn != 1 {
		t.Errorf("retry: %s", got.body)
	}
	if view := a.view(t, "s"); view.Turns != 3 {
		t.Errorf("%d turns, want 3", view.Turns)
	}
}

func TestToolMessages(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, func(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
		if cp.Turn == 3 {
			cp.Messages = cp.Messages[len(cp.Messages)-1:]
		}
		m, err := NewMessage("tool", map[string]any{"looked up": input})
		if err != nil {
			return Reply{}, err
		}
		cp.Messages = append(cp.Messages, m)
		return Text("r" + input.Text()), nil
	})
	for _, input := range []string{"1", "2", "3"} {
		a.turn(t.Context(), "s", "", input).want(t, 200, "")
	}
	got := words(a.view(t, "s").Messages)
	if want := `r2 3 {"looked up":"3"} r3`; got != want {
		t.Errorf("messages %q, want %q", got, want)
	}
}

func TestReadyWhileDraining(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run, func(e *turn.Env) { e.Linger = patience })
	turns := a.goTurn(t.Context(), "s", "k", "x")
	receive(t, g.running, "the turn")
	done := make(chan bool, 1)
	go func() { a.drain(); done <- true }()
	eventually(t, "unready", func() bool { return a.get("/ready").status == 503 })
	if got := a.get("/health"); !strings.Contains(got.body, `"draining":true`) {
		t.Errorf("health %s", got.body)
	}
	// It still serves while it lingers.
	g.open <- struct{}{}
	g.open <- struct{}{}
	a.turn(t.Context(), "s", "", "y").want(t, 200, "")
	receive(t, turns, "the turn in flight").want(t, 200, "")
	a.hurry() // the rest of the linger is not worth waiting for
	receive(t, done, "the end of the drain")
}
