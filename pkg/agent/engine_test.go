package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

func TestTurnKeys(t *testing.T) {
	t.Parallel()
	runs := 0
	a := serveAgent(t, func(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
		runs++
		return Reply{Value: map[string]any{"n": runs, "html": "<&>"}}, nil
	})
	first := a.turn(t.Context(), "", "k", map[string]int{"a": 1, "b": 2})
	first.want(t, 200, "")
	// Without a session id the key finds the session; the order of members does
	// not count; a quoted key is the same key.
	again := ask(t.Context(), newClient(), "POST", a.url("/api/bot/turn"), `{"input":{"b":2, "a":1}}`, "idempotency-key", `"k"`)
	again.want(t, 200, "")
	if again.header.Get(turn.HeaderReplayed) != "true" || again.body != strings.Replace(first.body, `"replayed":false`, `"replayed":true`, 1) {
		t.Errorf("replay %s of %s", again.body, first.body)
	}
	if !strings.Contains(first.body, `{"html":"<&>","n":1}`) {
		t.Errorf("the reply's bytes were changed: %s", first.body)
	}
	a.turn(t.Context(), "", "k", "another input").want(t, 422, turn.KeyReused)
	// The same key in another session is another turn.
	other := a.turn(t.Context(), "s", "k", "x")
	other.want(t, 200, "")
	if other.result.Replayed || other.result.Turn != 1 || runs != 2 {
		t.Errorf("other session: %s after %d runs", other.body, runs)
	}
}

func TestSameKeyAttaches(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run)
	one := a.goTurn(t.Context(), "s", "k", "x")
	receive(t, g.running, "the turn")
	var rest []<-chan answer
	for range 40 { // more than may wait: attached ones do not count
		rest = append(rest, a.goTurn(t.Context(), "s", "k", "x"))
	}
	a.turn(t.Context(), "s", "k", "y").want(t, 422, turn.KeyReused)
	eventually(t, "40 attached", func() bool {
		a.engine.mu.Lock()
		defer a.engine.mu.Unlock()
		return a.engine.keyed[flightKey{"s", "k"}].clients == 41
	})
	g.open <- struct{}{}
	want := receive(t, one, "the turn")
	want.want(t, 200, "")
	for _, ch := range rest {
		got := receive(t, ch, "an attached one")
		got.want(t, 200, "")
		if !got.result.Replayed || string(got.result.Reply) != string(want.result.Reply) {
			t.Errorf("attached: %s, want the reply of %s", got.body, want.body)
		}
	}
	if n := len(g.running); n != 0 || a.view(t, "s").Turns != 1 {
		t.Errorf("%d more runs, session %+v", n, a.view(t, "s"))
	}
}

func TestAttachedClientKeepsAQueuedTurnAlive(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run)
	one := a.goTurn(t.Context(), "s", "", "1")
	receive(t, g.running, "the first turn")
	leaving, leave := context.WithCancel(t.Context())
	gone := a.goTurn(leaving, "s", "k", "2")
	a.waitInFlight(t, 2)
	stays := a.goTurn(t.Context(), "s", "k", "2")
	attached := func(n int) func() bool {
		return func() bool {
			a.engine.mu.Lock()
			defer a.engine.mu.Unlock()
			return a.engine.keyed[flightKey{"s", "k"}].clients == n
		}
	}
	eventually(t, "attached", attached(2))
	leave()
	if got := receive(t, gone, "the client that left"); !errors.Is(got.err, context.Canceled) {
		t.Errorf("it got %d %v", got.status, got.err)
	}
	eventually(t, "left", attached(1))
	g.open <- struct{}{}
	g.open <- struct{}{}
	receive(t, one, "the first turn").want(t, 200, "")
	receive(t, stays, "the second turn").want(t, 200, "")
}

func TestQueueKeepsOrderAndIsBounded(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run)
	var turns []<-chan answer
	for i := range 1 + maxWaiting {
		turns = append(turns, a.goTurn(t.Context(), "s", fmt.Sprint("k", i), i))
		a.waitInFlight(t, i+1)
	}
	full := a.turn(t.Context(), "s", "late", "late")
	full.want(t, 429, turn.QueueFull)
	if full.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", full.header.Get("Retry-After"))
	}
	a.turn(t.Context(), "other", "", "pass").want(t, 200, "") // sessions do not block each other
	for range turns {
		g.open <- struct{}{}
	}
	for i, ch := range turns {
		got := receive(t, ch, "a queued turn")
		got.want(t, 200, "")
		if got.result.Turn != i+1 {
			t.Errorf("request %d became turn %d", i+1, got.result.Turn)
		}
	}
	g.open <- struct{}{}
	got := a.turn(t.Context(), "s", "late", "late")
	got.want(t, 200, "")
	if view := a.view(t, "s"); view.Turns != 34 || len(view.Messages) != 68 {
		t.Errorf("%d turns, %d messages", view.Turns, len(view.Messages))
	}
}

func TestC30_RejectWhenBusy(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run, func(e *turn.Env) { e.OnBusy, e.Verify = turn.BusyReject, "n" })
	one := a.goTurn(t.Context(), "s", "k", "1")
	receive(t, g.running, "the turn")
	a.turn(t.Context(), "s", "", "2").want(t, 409, turn.Busy)
	same := a.goTurn(t.Context(), "s", "k", "1") // its own turn is no rival
	g.open <- struct{}{}
	receive(t, one, "the turn").want(t, 200, "")
	receive(t, same, "the same turn").want(t, 200, "")
	// A client that has its answer may go on at once, even if that turn has not
	// let go of the session yet.
	a.turn(t.Context(), "s", "", "pass", turn.HeaderHold, "n:replied:300").want(t, 200, "")
	a.turn(t.Context(), "s", "", "pass").want(t, 200, "")
	if view := a.view(t, "s"); view.Turns != 3 {
		t.Errorf("%d turns", view.Turns)
	}
}

func TestQueuedTurnOfAClientThatLeftIsDropped(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run)
	one := a.goTurn(t.Context(), "s", "", "1")
	receive(t, g.running, "the first turn")
	leaving, leave := context.WithCancel(t.Context())
	gone := a.goTurn(leaving, "s", "k", "gone")
	a.waitInFlight(t, 2)
	three := a.goTurn(t.Context(), "s", "", "3")
	a.waitInFlight(t, 3)
	leave()
	receive(t, gone, "the client that left")
	a.waitInFlight(t, 2)
	g.open <- struct{}{}
	g.open <- struct{}{}
	receive(t, one, "the first turn").want(t, 200, "")
	receive(t, three, "the third turn").want(t, 200, "")
	if got := words(a.view(t, "s").Messages); strings.Contains(got, "gone") {
		t.Errorf("the dropped turn ran: %s", got)
	}
}

func TestBegunTurnOfAClientThatLeftIsCommitted(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run)
	leaving, leave := context.WithCancel(t.Context())
	gone := a.goTurn(leaving, "s", "", "x")
	receive(t, g.running, "the turn")
	leave()
	receive(t, gone, "the client that left")
	a.waitAlone(t, "s")
	g.open <- struct{}{}
	a.waitInFlight(t, 0)
	if view := a.view(t, "s"); view.Turns != 1 {
		t.Fatalf("session %+v", view)
	}
	// The same request again, without a key: its reply never left, so it is a
	// replay, once. After that the same input is a new turn.
	for i, want := range []turn.Result{{Turn: 1, Replayed: true}, {Turn: 2}, {Turn: 3}} {
		if i > 0 {
			g.open <- struct{}{}
		}
		got := a.turn(t.Context(), "s", "", "x")
		got.want(t, 200, "")
		if got.result.Turn != want.Turn || got.result.Replayed != want.Replayed {
			t.Errorf("request %d: %s", i, got.body)
		}
	}
}

func TestUndeliveredReplyIsNotForAnotherInput(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run)
	leaving, leave := context.WithCancel(t.Context())
	gone := a.goTurn(leaving, "s", "", "x")
	receive(t, g.running, "the turn")
	leave()
	receive(t, gone, "the client that left")
	a.waitAlone(t, "s")
	g.open <- struct{}{}
	a.waitInFlight(t, 0)
	g.open <- struct{}{}
	got := a.turn(t.Context(), "s", "", "y")
	got.want(t, 200, "")
	if got.result.Turn != 2 || got.result.Replayed {
		t.Errorf("got %s", got.body)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	a := serveAgent(t, g.run, func(e *turn.Env) { e.TurnTimeout = 100 * time.Millisecond })
	late := a.turn(t.Context(), "s", "k", "x")
	late.want(t, 504, turn.TurnTimeout)
	status := decode[turn.Status](t, a.get(turn.TurnsPath("bot", late.header.Get(turn.HeaderTurn))))
	if status.State != turn.Failed || status.Reason != "timeout" {
		t.Errorf("turn is %+v", status)
	}
	// runTurn has not returned: the session stays locked, here and for another
	// holder of the same store.
	a.turn(t.Context(), "s", "", "y").want(t, 503, turn.SessionBusy)
	other := NewServer(remember, a.store, a.env, a.log)
	defer other.Close()
	err := other.engine.do(t.Context(), request{session: "s", input: []byte(`"y"`), hash: "h"}, client{})
	if p, ok := errors.AsType[*turn.Problem](err); !ok || p.Code != turn.SessionBusy {
		t.Errorf("another holder got %v", err)
	}
	receive(t, g.running, "the late run")
	g.open <- struct{}{}
	a.waitInFlight(t, 0)
	if got := a.get("/api/bot/sessions/s"); strings.Contains(got.body, "assistant") {
		t.Errorf("the late reply was committed: %s", got.body)
	}
	// The session is usable, and the key, which failed, runs again.
	g.open <- struct{}{}
	got := a.turn(t.Context(), "s", "k", "x")
	got.want(t, 200, "")
	if got.result.Turn != 1 || got.result.Replayed {
		t.Errorf("after the timeout: %s", got.body)
	}
}

func TestTimeoutReachesRunTurn(t *testing.T) {
	t.Parallel()
	causes := make(chan error, 1)
	a := serveAgent(t, func(ctx context.Context, _ *Checkpoint[memory], _ Input) (Reply, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return Reply{}, ctx.Err()
	}, func(e *turn.Env) { e.TurnTimeout = 50 * time.Millisecond })
	a.turn(t.Context(), "s", "", "x").want(t, 504, turn.TurnTimeout)
	if cause := receive(t, causes, "the cause"); !errors.Is(cause, ErrTurnTimeout) {
		t.Errorf("cause %v", cause)
	}
}

func TestC36_AFailedRunChangesNothing(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, func(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
		cp.State.Count++
		if m, err := NewMessage("tool", "half"); err == nil && input.Text() != "ok" {
			cp.Messages = append(cp.Messages, m)
		}
		switch input.Text() {
		case "error":
			return Reply{}, errors.New("the model said no")
		case "panic":
			panic("secret words")
		case "goexit":
			runtime.Goexit()
		case "bad message":
			cp.Messages = append(cp.Messages, Message{Role: "tool", Content: []byte("not JSON")})
		case "bad reply":
			return Reply{Value: func() {}}, nil
		}
		return Reply{Value: cp.State.Count}, nil
	})
	a.turn(t.Context(), "s", "", "ok").want(t, 200, "")
	before := a.view(t, "s")
	for i, input := range []string{"error", "panic", "goexit", "bad message", "bad reply"} {
		got := a.turn(t.Context(), "s", fmt.Sprint("k", i), input)
		got.want(t, 500, turn.RunFailed)
		if input == "error" && got.detail != "the model said no" || strings.Contains(got.body, "secret") {
			t.Errorf("%s: %s", input, got.body)
		}
		status := decode[turn.Status](t, a.get(turn.TurnsPath("bot", got.header.Get(turn.HeaderTurn))))
		if status.State != turn.Failed || status.Reason != got.detail {
			t.Errorf("%s: turn is %+v", input, status)
		}
	}
	after := a.view(t, "s")
	if words(after.Messages) != words(before.Messages) || string(after.State) != string(before.State) || after.Turns != 1 {
		t.Errorf("session %+v, before %+v", after, before)
	}
	got := a.turn(t.Context(), "s", "", "ok")
	got.want(t, 200, "")
	if got.result.Turn != 2 || string(got.result.Reply) != "2" {
		t.Errorf("next turn: %s", got.body)
	}
	// A failed turn's key with another input is still a misused key.
	a.turn(t.Context(), "s", "k0", "other").want(t, 422, turn.KeyReused)
}

func TestC36_StateMismatchRefusesTheTurn(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember)
	a.turn(t.Context(), "s", "", "x").want(t, 200, "")
	before := a.view(t, "s")
	type renamed struct {
		Opening string `json:"opening"`
	}
	other := NewServer(func(context.Context, *Checkpoint[renamed], Input) (Reply, error) {
		t.Error("ran as if new")
		return Reply{}, nil
	}, a.store, a.env, a.log)
	defer other.Close()
	err := other.engine.do(t.Context(), request{session: "s", input: []byte(`"y"`), hash: "h"}, client{})
	if p, ok := errors.AsType[*turn.Problem](err); !ok || p.Code != turn.StateMismatch || !strings.Contains(p.Detail, "first") {
		t.Errorf("got %v", err)
	}
	if after := a.view(t, "s"); after.Turns != before.Turns || string(after.State) != string(before.State) {
		t.Errorf("session %+v, before %+v", after, before)
	}
	a.turn(t.Context(), "s", "", "y").want(t, 200, "")
}

func TestReplyTooLarge(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, func(_ context.Context, _ *Checkpoint[memory], input Input) (Reply, error) {
		if input.Text() == "large" {
			return Text(strings.Repeat("x", 9<<20)), nil
		}
		return Text("ok"), nil
	})
	got := a.turn(t.Context(), "s", "k", "large")
	got.want(t, 500, turn.ReplyTooLarge)
	status := decode[turn.Status](t, a.get(turn.TurnsPath("bot", got.header.Get(turn.HeaderTurn))))
	if status.State != turn.Failed {
		t.Errorf("turn is %+v", status)
	}
	a.turn(t.Context(), "s", "", "small").want(t, 200, "")
	if view := a.view(t, "s"); view.Turns != 1 {
		t.Errorf("session %+v", view)
	}
}

func TestSlowClientDoesNotHoldTheSession(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, func(_ context.Context, _ *Checkpoint[memory], input Input) (Reply, error) {
		if input.Text() == "large" {
			return Text(strings.Repeat("x", 7<<20)), nil
		}
		return Text("ok"), nil
	})
	c, err := net.Dial("tcp", a.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	body := inputBody("large")
	fmt.Fprintf(c, "POST /api/bot/turn HTTP/1.1\r\nHost: %s\r\nX-Session-Id: s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", a.addr, len(body), body)
	if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("slow client: %q, %v", line, err)
	}
	began := time.Now()
	a.turn(t.Context(), "s", "", "next").want(t, 200, "")
	if waited := time.Since(began); waited > 5*deliveryWait {
		t.Errorf("the next turn waited %v for a slow client", waited)
	}
}

func TestC27_TurnsWithoutAnIDNeverShareASession(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, remember)
	ids := []string{}
	for range 3 { // C27: requests without an id never share a conversation
		got := a.turn(t.Context(), "", "", "x")
		got.want(t, 200, "")
		ids = append(ids, got.result.SessionID)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 3 {
		t.Errorf("ids %q", ids)
	}
}
