package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// client sends turns to a gateway. A turn is sent again under its key until it
// is answered, within bounds: that is safe, because a turn is committed at most
// once.
type client struct {
	base string // URL of the gateway
	http http.RoundTripper
	// again is told before each further attempt, with what happened.
	again func(err error, pause time.Duration)
	// gone says why an agent does not come back, after a gateway that is not
	// flisk's own answered for it; "" when it may. Nil is never.
	gone func(ctx context.Context, agent string) string
}

// Bounds of the attempts at one turn. What is still running at the end of the
// window is waited for: only a further attempt is not made.
const (
	maxAttempts = 8 // as the help of flisk turn says
	retryWindow = time.Minute
	firstPause  = 200 * time.Millisecond
	maxPause    = 3 * time.Second
	maxAnswer   = 64 << 20 // bytes; no reply is that long
)

// directly is a transport for the loopback: no proxy, and no connection that
// is kept (the transport sends a request with a turn key again by itself when a
// kept connection turns out to be dead, and nobody would be told).
func directly() http.RoundTripper { return &http.Transport{DisableKeepAlives: true} }

// message is one turn to send.
type message struct {
	agent   string
	session string // "" opens a new one
	key     string // required
	input   json.RawMessage
}

// answer is a committed turn and what it took.
type answer struct {
	turn.Result
	code     string // hash of the code that answered; may be ""
	attempts int
}

// turnError says that a turn has no answer.
type turnError struct {
	message message
	problem *turn.Problem // nil when nobody of the contract answered
	err     error         // else what happened
	body    string        // of an answer that is not of the contract
	sent    bool          // it may have reached an agent
	foreign bool          // the problem is what an answer of a gateway that is not flisk's own means
	down    string        // why the agent does not answer, where that is known

	attempts int           // how often it was sent
	took     time.Duration // from the first attempt until it was given up
}

func (e *turnError) Error() string {
	if e.problem != nil {
		return e.problem.Error()
	}
	return e.err.Error()
}

func (e *turnError) Unwrap() error {
	if e.problem != nil {
		return e.problem
	}
	return e.err
}

// retryable reports whether the same request may find another answer: nobody
// listened, the answer was cut off, or it says so. A turn that ran into its own
// time limit is not among them.
func (e *turnError) retryable() bool {
	if e.problem != nil {
		return e.problem.Code.Retryable() && e.problem.Code.Status() >= http.StatusInternalServerError
	}
	return e.body == ""
}

// send sends a turn until it is answered. Its errors are [*turnError] and ctx's.
func (c *client) send(ctx context.Context, m message) (answer, error) {
	pause, began := firstPause, time.Now()
	for attempt := 1; ; attempt++ {
		got, after, err := c.once(ctx, m)
		if err == nil {
			got.attempts = attempt
			return got, nil
		}
		if ctx.Err() != nil {
			return answer{}, context.Cause(ctx)
		}
		failed, ok := errors.AsType[*turnError](err)
		if ok {
			failed.attempts, failed.took = attempt, time.Since(began)
		}
		if ok && failed.foreign && c.gone != nil {
			failed.down = c.gone(ctx, m.agent)
		}
		if !ok || failed.down != "" || !failed.retryable() || attempt == maxAttempts || failed.took > retryWindow {
			return answer{}, err
		}
		wait := max(pause, min(after, maxPause))
		c.again(err, wait)
		select {
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		case <-time.After(wait):
		}
		pause = min(2*pause, maxPause)
	}
}

// once is one attempt. after is what the answer asked to wait.
func (c *client) once(ctx context.Context, m message) (_ answer, after time.Duration, _ error) {
	var body bytes.Buffer
	if err := encode(&body, turn.Request{Input: m.input}, ""); err != nil {
		return answer{}, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+turn.TurnPath(m.agent), &body)
	if err != nil {
		return answer{}, 0, err
	}
	req.Header.Set("Content-Type", turn.JSONType)
	req.Header.Set("Accept", turn.JSONType)
	req.Header.Set(turn.HeaderKey, turn.QuoteKey(m.key))
	if m.session != "" {
		req.Header.Set(turn.HeaderSession, m.session)
	}
	lost := func(err error) error {
		return &turnError{message: m, err: err, sent: !errors.Is(err, syscall.ECONNREFUSED)}
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return answer{}, 0, lost(err)
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, 0, lost(err)
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = time.Duration(min(seconds, int(maxPause/time.Second))) * time.Second
	}
	if resp.StatusCode != http.StatusOK {
		return answer{}, after, refused(m, resp, content)
	}
	got := answer{code: resp.Header.Get(turn.HeaderCode)}
	if err := json.Unmarshal(content, &got.Result); err != nil {
		return answer{}, 0, stranger(m, resp, content)
	}
	return got, 0, nil
}

// refused reads an answer other than 200.
func refused(m message, resp *http.Response, content []byte) error {
	var problem turn.Problem
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if withoutRoutes(resp, content) {
		return &turnError{message: m, err: fmt.Errorf("the gateway has not read its routes yet (%s)", resp.Status)}
	}
	if kind != turn.ProblemType && answerLost(resp) {
		problem := turn.Problemf(turn.AgentLost, "the gateway got no answer from agent %q (%s)", m.agent, resp.Status)
		problem.SessionID = m.session
		return &turnError{message: m, problem: problem, foreign: true, sent: true}
	}
	if kind != turn.ProblemType || json.Unmarshal(content, &problem) != nil {
		return stranger(m, resp, content)
	}
	problem.SessionID = cmp.Or(problem.SessionID, m.session)
	return &turnError{message: m, problem: &problem, sent: true}
}

// withoutRoutes recognises what Traefik answers between its start and the moment
// when it has read its routes: no router of ours has stamped it. Nothing was
// forwarded.
func withoutRoutes(resp *http.Response, content []byte) bool {
	return resp.StatusCode == http.StatusNotFound && resp.Header.Get(turn.HeaderRoutes) == "" &&
		string(bytes.TrimSpace(content)) == "404 page not found"
}

// answerLost recognises what Traefik answers for an agent that went away, or that
// took no connection for as long as it holds a request: which of them is not told.
// The stamp of our routes is what tells it from another program on the port.
func answerLost(resp *http.Response) bool {
	return resp.Header.Get(turn.HeaderRoutes) != "" &&
		(resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout)
}

// stranger is an answer that is not of the contract.
func stranger(m message, resp *http.Response, content []byte) error {
	body := string(content)
	if len(body) > 2000 {
		body = body[:2000]
	}
	return &turnError{
		message: m,
		err:     fmt.Errorf("the answer (%s) is not of this flisk's contract, version %d", resp.Status, turn.Contract),
		body:    cmp.Or(body, "(empty)"),
		sent:    true,
	}
}
