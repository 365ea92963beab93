package agent

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// bodyTimeout bounds the arrival of a body: a client that dribbles must not keep
// a connection for ever.
const bodyTimeout = 30 * time.Second

// stallTime is the longest pause of a body that arrives while the agent drains.
// What has not arrived whole has not begun, so its client may send it again.
const stallTime = time.Second

// bodies are the request bodies that are being read. Safe for concurrent use.
type bodies struct {
	mu       sync.Mutex
	arriving map[*body]struct{}
	draining bool
}

// body is one of them.
type body struct {
	io.ReadCloser
	of      *bodies
	control *http.ResponseController
	until   time.Time
}

// begin bounds the arrival of a request's body: also of one that is refused, for
// net/http reads what is left of it. The returned function is to be called when
// the request is answered; in a drain nobody reads on then.
func (bs *bodies) begin(w http.ResponseWriter, r *http.Request) (end func()) {
	b := &body{ReadCloser: r.Body, of: bs, control: http.NewResponseController(w), until: time.Now().Add(bodyTimeout)}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.arriving[b] = struct{}{}
	b.extend()
	r.Body = b
	return func() {
		bs.mu.Lock()
		defer bs.mu.Unlock()
		if _, more := bs.arriving[b]; more && bs.draining {
			_ = b.control.SetReadDeadline(time.Now())
		}
		delete(bs.arriving, b)
	}
}

// drain gives every body stallTime for its next part.
func (bs *bodies) drain() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.draining = true
	for b := range bs.arriving {
		b.extend()
	}
}

// extend sets the time for the next part; of.mu is held.
func (b *body) extend() {
	until := b.until
	if stall := time.Now().Add(stallTime); b.of.draining && stall.Before(until) {
		until = stall
	}
	_ = b.control.SetReadDeadline(until) // a recorder in a test has no deadlines
}

// Read implements io.Reader. A body that is there has no deadline any more: it
// must not end the wait for the reply.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	switch {
	case err == io.EOF:
		delete(b.of.arriving, b)
		_ = b.control.SetReadDeadline(time.Time{})
	case err == nil && b.of.draining:
		b.extend()
	}
	return n, err
}
