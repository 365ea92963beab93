package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

const (
	readyPoll    = 20 * time.Millisecond
	readyTimeout = 60 * time.Second // for an agent to take turns again
	maxAnswer    = 64 << 20         // bytes; no reply is that long
)

// client talks to the gateway. It sends every turn exactly once: no connection
// is kept, because a transport repeats a request with a turn key by itself when
// a kept one turns out to be dead. It is safe for concurrent use.
type client struct {
	agent string
	http  http.RoundTripper

	mu       sync.Mutex
	codes    []string // source hashes that answered, each once
	reloaded []string // those of them that are no surprise, besides the first
}

func newClient(agent string) *client {
	return &client{agent: agent, http: &http.Transport{DisableKeepAlives: true}} // and no proxy: it is this machine
}

// message is one turn to send.
type message struct {
	session string
	key     string
	input   json.RawMessage
	hold    string // the value of turn.HeaderHold, or ""
}

// answer is what came back for a turn.
type answer struct {
	status  int // 0 when the connection broke
	result  turn.Result
	marked  bool      // its header says that it is a replay
	problem turn.Code // "" for an answer that is not of the contract
	detail  string
	code    string // source hash of the code that answered; "" when it was somebody else
	err     error  // why the connection broke
	took    time.Duration
}

func (a answer) ok() bool { return a.status == http.StatusOK }

// failedItself reports whether it was the agent's own code that failed: by an
// error, by a reply that is too large, by a state that it cannot read, or by
// taking all the time that a turn has, which is limit. That is no cut: whoever
// ends a turn from outside is told so by another answer.
func (a answer) failedItself(limit time.Duration) bool {
	switch a.problem {
	case turn.RunFailed, turn.ReplyTooLarge, turn.StateMismatch:
		return true
	case turn.TurnTimeout:
		return a.took >= limit
	}
	return false
}

// lost reports whether the answer leaves open what became of the turn.
func (a answer) lost() bool {
	switch {
	case a.status == 0, a.problem == "" && !a.ok():
		return true
	}
	return a.problem == turn.AgentLost || a.problem == turn.CommitUnknown
}

func (a answer) String() string {
	switch {
	case a.status == 0:
		return "no answer: " + a.err.Error()
	case a.ok():
		return fmt.Sprintf("200, turn %d", a.result.Turn)
	}
	return fmt.Sprintf("%d %s", a.status, cmp.Or(string(a.problem), "from somebody else")) + detail(a.detail)
}

func detail(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// send sends a turn once, with the bytes of its input as they are.
func (c *client) send(ctx context.Context, base string, m message) (got answer) {
	began := time.Now()
	defer func() { got.took = time.Since(began) }()
	// Not by an encoder, which may write the input in another way.
	body := slices.Concat([]byte(`{"input":`), m.input, []byte("}"))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+turn.TurnPath(c.agent), bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", turn.JSONType)
	req.Header.Set(turn.HeaderSession, m.session)
	req.Header.Set(turn.HeaderKey, turn.QuoteKey(m.key))
	if m.hold != "" {
		req.Header.Set(turn.HeaderHold, m.hold)
	}
	status, header, content, err := c.do(req)
	if err != nil {
		return answer{err: err}
	}
	got = answer{status: status, code: header.Get(turn.HeaderCode)}
	if got.ok() {
		c.note(got.code)
		got.marked = header.Get(turn.HeaderReplayed) == turn.ReplayedTrue
		if err := json.Unmarshal(content, &got.result); err != nil {
			return answer{err: fmt.Errorf("an answer that is not of the contract: %w", err)}
		}
		return got
	}
	var p turn.Problem
	if json.Unmarshal(content, &p) == nil {
		got.problem, got.detail = p.Code, p.Detail
	}
	return got
}

// get asks for a path of the agent. The status is 0 when the connection broke.
func (c *client) get(ctx context.Context, url string) (status int, body []byte, err error) {
	status, _, body, err = c.ask(ctx, url)
	return status, body, err
}

func (c *client) ask(ctx context.Context, url string) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	return c.do(req)
}

// routes names the route table that the gateway answers by.
func (c *client) routes(ctx context.Context, base string) (string, error) {
	_, header, _, err := c.ask(ctx, base+turn.AgentReadyPath(c.agent))
	return header.Get(turn.HeaderRoutes), err
}

// rerouted waits until the gateway answers by another table than the one named:
// from then on no request goes to a process that is only in the old one.
func (c *client) rerouted(ctx context.Context, base, from string) error {
	tick := time.NewTicker(readyPoll / 4)
	defer tick.Stop()
	for {
		if now, err := c.routes(ctx, base); err == nil && now != "" && now != from {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (c *client) do(req *http.Request) (int, http.Header, []byte, error) {
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, resp.Header, content, err
}

// ready waits until the agent takes turns, and returns how long that took. What
// a gateway or nobody answers meanwhile is "not yet".
func (c *client) ready(ctx context.Context, base string) (time.Duration, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("the agent was not ready within %s", readyTimeout))
	defer cancel()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		status, _, err := c.get(ctx, base+turn.AgentReadyPath(c.agent))
		switch {
		case err == nil && status == http.StatusOK:
			return time.Since(began), nil
		case err == nil && !notYet(status):
			return 0, fmt.Errorf("asked whether the agent is ready, the gateway answered %d", status)
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// notYet reports whether a status means that nobody is there to take a turn.
func notYet(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// settle asks the agent what became of a turn. It is the question whose answer
// is for good: a commit that was written and not acknowledged counts from then
// on.
func (c *client) settle(ctx context.Context, base, turnID string) (turn.Status, error) {
	status, body, err := c.get(ctx, base+turn.TurnsPath(c.agent, turnID))
	if err != nil {
		return turn.Status{}, err
	}
	var s turn.Status
	if status != http.StatusOK {
		return s, fmt.Errorf("asked what became of turn %s, the agent answered %d", turnID, status)
	}
	return s, json.Unmarshal(body, &s)
}

func (c *client) note(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.codes, code) {
		c.codes = append(c.codes, code)
	}
}

// expect says that the agent runs code of that name from now on.
func (c *client) expect(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reloaded = append(c.reloaded, code)
}

// seenCode is the source hash that the agent answered with first.
func (c *client) seenCode() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.codes) == 0 {
		return ""
	}
	return c.codes[0]
}

// sameCode says when an answer came from other code than the first one, and that
// was no reload's.
func (c *client) sameCode() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, code := range c.codes {
		if i > 0 && !slices.Contains(c.reloaded, code) {
			return errors.New("the agent's code changed meanwhile")
		}
	}
	return nil
}
