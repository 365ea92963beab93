package agent

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// firstByteGrace is what a connection that was accepted just before the
// listener closed gets to send the first byte of its request.
const firstByteGrace = 100 * time.Millisecond

// conns counts the connections of a server, so that a drain can wait for every
// request that was read or is being read. http.Server.Shutdown cannot: it tells
// a connection's state apart only once a request's headers are complete, and
// closes one in the middle of them.
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
	if state == http.StateIdle && cs.draining {
		_ = c.Close() // its answer was written before the drain could mark it as the last one
	}
}

// closeUnused starts a drain's watch over the connections: those that carry no
// request are closed, now and from now on. One that has begun to send a request
// is left alone; one that was never used gets firstByteGrace.
func (cs *conns) closeUnused() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.draining = true
	for c, st := range cs.states {
		if st.state == http.StateActive || c.read.Load() > st.read {
			continue
		}
		if rest := firstByteGrace - time.Since(st.since); st.state == http.StateNew && rest > 0 {
			time.AfterFunc(rest, func() { cs.closeSilent(c) })
			continue
		}
		_ = c.Close()
	}
}

// closeSilent closes a connection that has not sent a byte.
func (cs *conns) closeSilent(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if st, ok := cs.states[c]; ok && st.state == http.StateNew && c.read.Load() == 0 {
		_ = c.Close()
	}
}
