package agent

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// requestGrace is what a connection that was accepted, or got an answer, just
// before the listener closed has to begin its next request: its client does not
// know yet that it will be the last.
const requestGrace = 250 * time.Millisecond

// conns counts the connections of a server, so that a drain can wait for every
// request that was read or is being read. http.Server.Shutdown cannot: to it a
// connection is idle until a request's headers are complete, and it closes one
// in the middle of them.
type conns struct {
	open gauge

	mu       sync.Mutex
	states   map[*conn]connState
	draining bool
}

type connState struct {
	state http.ConnState
	since time.Time
	read  int64 // bytes that had been read when the state began
}

// conn counts the bytes that were read from it.
type conn struct {
	net.Conn
	read atomic.Int64
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

// listener makes every accepted connection a *conn.
type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// changed is the server's ConnState hook.
func (cs *conns) changed(nc net.Conn, state http.ConnState) {
	c := nc.(*conn) // of listener.Accept
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch state {
	case http.StateNew:
		cs.open.add(1)
	case http.StateClosed, http.StateHijacked:
		delete(cs.states, c)
		cs.open.add(-1)
		return
	}
	cs.states[c] = connState{state, time.Now(), c.read.Load()}
	if cs.draining {
		cs.closeUnused(c)
	}
}

// drain closes the connections that carry no request, now and from now on. One
// that has begun to send a request is left alone; one that may be about to gets
// requestGrace.
func (cs *conns) drain() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.draining = true
	for c := range cs.states {
		cs.closeUnused(c)
	}
}

// closeUnused closes a connection that carries no request, or looks again when
// its grace is over; cs.mu is held.
func (cs *conns) closeUnused(c *conn) {
	st, open := cs.states[c]
	if !open || st.state == http.StateActive {
		return
	}
	if c.read.Load() > st.read {
		// A request has begun to arrive, and gets the time that headers have. The
		// server itself would wait for the rest as long as for a next request.
		time.AfterFunc(headerTimeout, func() { cs.closeStuck(c, st) })
		return
	}
	if rest := requestGrace - time.Since(st.since); rest > 0 {
		time.AfterFunc(rest, func() {
			cs.mu.Lock()
			defer cs.mu.Unlock()
			cs.closeUnused(c)
		})
		return
	}
	_ = c.Close()
}

// closeStuck closes a connection that is still in a state.
func (cs *conns) closeStuck(c *conn, in connState) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if now, open := cs.states[c]; open && now == in {
		_ = c.Close()
	}
}
