package agent

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// writeTimeout bounds the writing of one answer. A client that takes longer has
// its connection closed.
const writeTimeout = 30 * time.Second

// send answers with the JSON of v.
func (s *Server) send(w http.ResponseWriter, status int, v any) {
	body, err := encodeJSON(v)
	if err != nil { // what the store hands out is JSON
		s.log.Error("cannot encode an answer", "error", err)
		s.fail(w, turn.Problemf(turn.Unavailable, "the agent's log says why"))
		return
	}
	s.write(w, status, append(body, '\n'))
}

// sendResult answers a turn. The reply's bytes go through untouched, so that an
// answer and its replay are the same. It reports whether the answer was written
// whole to a client that was there when the writing began. Whether it still is
// when the writing ends says nothing: having its answer, it may go at once.
func (s *Server) sendResult(w http.ResponseWriter, r *http.Request, result turn.Result) bool {
	present := r.Context().Err() == nil
	h := w.Header()
	h.Set(turn.HeaderSession, result.SessionID)
	h.Set(turn.HeaderTurn, result.TurnID)
	if result.Replayed {
		h.Set(turn.HeaderReplayed, turn.ReplayedTrue)
	}
	var body bytes.Buffer
	body.Grow(len(result.Reply) + 256)
	// Session and turn ids are made of characters that JSON does not escape.
	body.WriteString(`{"session_id":"` + result.SessionID + `","turn":` + strconv.Itoa(result.Turn) +
		`,"turn_id":"` + result.TurnID + `","reply":`)
	body.Write(result.Reply)
	body.WriteString(`,"replayed":` + strconv.FormatBool(result.Replayed) + "}\n")
	return s.write(w, http.StatusOK, body.Bytes()) && present
}

// write sends a JSON body and reports whether all of it left this process.
func (s *Server) write(w http.ResponseWriter, status int, body []byte) bool {
	h := w.Header()
	h.Set("Content-Type", turn.JSONType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	whole := false
	s.bounded(w, func(rc *http.ResponseController) {
		w.WriteHeader(status)
		_, err := w.Write(body)
		whole = err == nil && rc.Flush() == nil
	})
	return whole
}

// fail answers with a problem.
func (s *Server) fail(w http.ResponseWriter, p *turn.Problem) {
	s.bounded(w, func(rc *http.ResponseController) {
		p.Write(w)
		_ = rc.Flush() // a client that is gone has nobody to tell
	})
}

// failNow answers with a problem while the handler does not return. Only the end
// of the connection tells net/http that there is nothing to wait for, so it is
// taken over and closed. A connection that cannot be taken over (HTTP/2, in a
// server of the caller's own) carries other requests as well, and is left alone.
func (s *Server) failNow(w http.ResponseWriter, p *turn.Problem) {
	answer := &answerBuffer{header: w.Header().Clone()}
	p.Write(answer)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.fail(w, p)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(writeTimeout))
	resp := http.Response{
		StatusCode: answer.status, ProtoMajor: 1, ProtoMinor: 1, Header: answer.header, Close: true,
		Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()),
	}
	_ = resp.Write(conn) // a client that is gone has nobody to tell
}

// answerBuffer is a http.ResponseWriter that keeps what is written.
type answerBuffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answerBuffer) Header() http.Header         { return a.header }
func (a *answerBuffer) WriteHeader(status int)      { a.status = status }
func (a *answerBuffer) Write(b []byte) (int, error) { return a.body.Write(b) }

// bounded runs write under the write deadline. Once the listener is closing, it
// makes the answer the last one of its connection.
func (s *Server) bounded(w http.ResponseWriter, write func(*http.ResponseController)) {
	if s.closing.Load() {
		w.Header().Set("Connection", "close")
	}
	rc := http.NewResponseController(w)
	// A writer without deadlines (a recorder in a test) has none to set.
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	write(rc)
	_ = rc.SetWriteDeadline(time.Time{})
}
