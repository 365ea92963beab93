package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// roundTripper makes a function an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// forward sends a request to a replica, holding it while there is none, and
// returns the head of the answer. Its errors are problems of the gateway's own,
// or what happened to a request that a replica had.
func (g *Gateway) forward(out *http.Request) (*http.Response, error) {
	c := callOf(out.Context())
	line := g.line(c.agent)
	if !c.hold || line.empty() {
		res, err := g.offer(c, out)
		if !errors.Is(err, errNobody) {
			return res, err
		}
		if !c.hold {
			return nil, turn.Problemf(turn.NotReady, "agent %q has no replica that takes connections", c.agent)
		}
	}
	return g.hold(c, out, line)
}

// hold keeps a request until a replica takes it, its time is up, its client is
// gone or the gateway stops.
func (g *Gateway) hold(c *call, out *http.Request, l *line) (*http.Response, error) {
	place, ok := l.join()
	if !ok {
		return nil, turn.Problemf(turn.NotReady, "agent %q has no replica that takes connections, and %d requests wait for one already", c.agent, l.max)
	}
	defer place.leave()
	// The next one's turn comes when this one is sent, not when it is answered.
	out = out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { place.leave() },
	}))

	over := time.NewTimer(g.opts.HoldTime)
	defer over.Stop()
	var redial <-chan time.Time
	wake := (<-chan struct{})(place.first)
	for {
		select {
		case <-wake:
		case <-redial:
		case <-over.C:
			return nil, turn.Problemf(turn.NotReady, "no replica of agent %q took the request within %s", c.agent, g.opts.HoldTime)
		case <-out.Context().Done():
			return nil, context.Cause(out.Context())
		case <-g.stopped.Done():
			return nil, turn.Problemf(turn.NotReady, "the gateway is stopping, and agent %q has no replica that takes connections", c.agent)
		}
		// Taken before the attempt, so that a table which comes during it is
		// not missed.
		wake, redial = g.replaced(), time.After(g.opts.Redial)
		res, err := g.offer(c, out)
		if !errors.Is(err, errNobody) {
			return res, err
		}
	}
}

// offer sends the request to the first replica in its order that can be
// dialled. It returns errNobody when there was none.
func (g *Gateway) offer(c *call, out *http.Request) (*http.Response, error) {
	var tried []*replica
	for {
		if err := g.acquire(c, tried); err != nil {
			return nil, err
		}
		res, err := c.replica.transport.RoundTrip(withBody(out, c.body))
		if _, unsent := errors.AsType[*dialError](err); !unsent {
			return res, err
		}
		tried = append(tried, c.replica)
		g.release(c)
	}
}

// withBody returns the request with a reader of its own on body: a transport
// closes the reader even when it could not dial. GetBody stays nil, so that
// net/http never sends a body twice.
func withBody(out *http.Request, body []byte) *http.Request {
	r := out.WithContext(out.Context())
	r.Body, r.ContentLength = nil, int64(len(body))
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r
}

// line returns the line of an agent.
func (g *Gateway) line(agent string) *line {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, ok := g.lines[agent]
	if !ok {
		l = &line{max: g.opts.HoldMax}
		g.lines[agent] = l
	}
	return l
}

// replaced is closed when another table takes the current one's place.
func (g *Gateway) replaced() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.table.replaced
}
