package dockertest

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// logs are what a container wrote.
type logs struct {
	mu      sync.Mutex
	entries []entry
	ended   bool
	changed chan struct{} // closed and replaced at each change
}

// entry is a line, or a part of a long one.
type entry struct {
	at     time.Time
	stderr bool
	text   []byte // with the line's end if it has one
}

func newLogs() *logs { return &logs{changed: make(chan struct{})} }

// maxEntry is where the engine cuts a line.
const maxEntry = 16 << 10

func (l *logs) add(stderr bool, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = false
	l.entries = append(l.entries, entry{time.Now().UTC(), stderr, bytes.Clone(text)})
	close(l.changed)
	l.changed = make(chan struct{})
}

// end tells those who follow that nothing more comes.
func (l *logs) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *logs) from(n int) (more []entry, ended bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[n:], l.ended, l.changed
}

// logWriter cuts a stream into entries.
type logWriter struct {
	logs    *logs
	stderr  bool
	pending []byte
}

func (l *logs) writer(stderr bool) *logWriter { return &logWriter{logs: l, stderr: stderr} }

func (w *logWriter) Write(p []byte) (int, error) {
	w.pending = append(w.pending, p...)
	for {
		n := bytes.IndexByte(w.pending, '\n') + 1
		if n == 0 || n > maxEntry {
			if n = maxEntry; len(w.pending) < n {
				return len(p), nil
			}
		}
		w.logs.add(w.stderr, w.pending[:n])
		w.pending = w.pending[n:]
	}
}

func (w *logWriter) flush() {
	if len(w.pending) > 0 {
		w.logs.add(w.stderr, w.pending)
		w.pending = nil
	}
}

func (e *Engine) containerLogs(w http.ResponseWriter, r *http.Request) error {
	e.mu.Lock()
	c, err := e.find(r.PathValue("id"))
	var running bool
	if err == nil {
		running = c.play != nil || c.restarting
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if q.Get("until") != "" || q.Get("details") == "1" {
		return notPlayed("these options of logs")
	}
	if c.request.Tty {
		return notPlayed("terminals")
	}
	since := time.Time{}
	if s := q.Get("since"); s != "" {
		seconds, nanos, _ := strings.Cut(s, ".")
		whole, err := strconv.ParseInt(seconds, 10, 64)
		part, err2 := strconv.ParseInt((nanos + "000000000")[:9], 10, 64)
		if err != nil || err2 != nil {
			return refuse(http.StatusBadRequest, "since: %q", s)
		}
		since = time.Unix(whole, part)
	}
	seen := 0
	more, _, changed := c.logs.from(0)
	wanted := func(at entry) bool {
		return q.Get("stdout") == "1" && !at.stderr || q.Get("stderr") == "1" && at.stderr
	}
	seen = len(more)
	if tail := q.Get("tail"); tail != "" && tail != "all" {
		n, err := strconv.Atoi(tail)
		if err != nil {
			return refuse(http.StatusBadRequest, "tail: %q", tail)
		}
		more = more[max(0, len(more)-max(0, n)):]
	}
	w.Header().Set("Content-Type", "application/vnd.docker.raw-stream")
	if e.knows("1.42") {
		w.Header().Set("Content-Type", "application/vnd.docker.multiplexed-stream")
	}
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	ended := !running
	for {
		for _, at := range more {
			if !wanted(at) || at.at.Before(since) {
				continue
			}
			text := at.text
			if q.Get("timestamps") == "1" {
				text = append([]byte(at.at.Format("2006-01-02T15:04:05.000000000Z07:00")+" "), text...)
			}
			if _, err := w.Write(frame(at.stderr, text)); err != nil {
				return nil // the client left
			}
		}
		if q.Get("follow") != "1" || ended && len(more) == 0 {
			return nil
		}
		if flush.Flush() != nil {
			return nil
		}
		if !ended {
			select {
			case <-changed:
			case <-r.Context().Done():
				return nil
			}
		}
		more, ended, changed = c.logs.from(seen)
		seen += len(more)
	}
}

// frame is a piece of a multiplexed stream.
func frame(stderr bool, data []byte) []byte {
	out := make([]byte, 8, 8+len(data))
	out[0] = 1
	if stderr {
		out[0] = 2
	}
	binary.BigEndian.PutUint32(out[4:], uint32(len(data)))
	return append(out, data...)
}
