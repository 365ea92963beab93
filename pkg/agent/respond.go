package agent

import (
	"bytes"
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
