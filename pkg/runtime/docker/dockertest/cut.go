package dockertest

import (
	"bufio"
	"net"
	"net/http"
)

// cutWriter sends half of what is written to it first, and breaks the connection:
// a stream ends in its middle, and an answer that has no body is lost.
type cutWriter struct{ *statusWriter }

func (w cutWriter) WriteHeader(status int) {
	if status == http.StatusNoContent || status == http.StatusNotModified {
		panic(http.ErrAbortHandler)
	}
	w.statusWriter.WriteHeader(status)
}

func (w cutWriter) Write(p []byte) (int, error) {
	_, _ = w.statusWriter.Write(p[:len(p)/2])              // the client may have left
	_ = http.NewResponseController(w.statusWriter).Flush() // likewise
	panic(http.ErrAbortHandler)
}

// Hijack hands over a connection that ends after the first thing that is written
// to it: its upgrade. What is written then goes nowhere, as on a real engine,
// where the process that writes it does not notice.
func (w cutWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.statusWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &cutConn{Conn: conn}, rw, nil
}

// cutConn is used by one goroutine until it is cut.
type cutConn struct {
	net.Conn
	cut bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.cut {
		return len(p), nil
	}
	c.cut = true
	_, _ = c.Conn.Write(p) // the client may have left
	_ = c.Close()          // all that is wanted of it
	return len(p), nil
}
