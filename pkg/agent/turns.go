package agent

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/flisk-go/flisk/pkg/turn"
)

// postTurn answers POST turn.
func (s *Server) postTurn(w http.ResponseWriter, r *http.Request, _ string) {
	req, err := s.readRequest(w, r)
	if err == nil {
		err = s.engine.do(r.Context(), req, client{
			deliver: func(result turn.Result) bool { return s.sendResult(w, r, result) },
			refuse:  func(p *turn.Problem) { s.failNow(w, ofSession(p, req.session)) },
		})
	}
	if err == nil || errors.Is(err, errAnswered) {
		return
	}
	p, ok := errors.AsType[*turn.Problem](err)
	if !ok {
		panic(http.ErrAbortHandler) // the client left: close the connection, say nothing
	}
	s.fail(w, ofSession(p, req.session))
}

// ofSession is a problem for the client of a session. Several requests may share
// the one that it is made of.
func ofSession(p *turn.Problem, session string) *turn.Problem {
	answer := *p
	answer.SessionID = session
	return &answer
}

// readRequest reads and checks everything that a client can get wrong. Its
// errors are problems.
func (s *Server) readRequest(w http.ResponseWriter, r *http.Request) (req request, err error) {
	defer func() {
		if err != nil && len(r.Header.Values(turn.HeaderSession)) == 0 {
			req.session = "" // the id was made up, and nothing was opened under it
		}
	}()
	if req.session, req.key, err = s.identify(r.Header); err != nil {
		return request{}, err
	}
	if req.expect, err = parseIfMatch(r.Header); err != nil {
		return req, err
	}
	if req.hold, _, err = turn.ParseHold(r.Header.Get(turn.HeaderHold), s.env.Verify); err != nil {
		return req, turn.Problemf(turn.BadRequest, "%v", err)
	}
	if err := checkContentType(r.Header); err != nil {
		return req, err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return req, err
	}
	req.input, req.hash, err = parseInput(body)
	return req, err
}

func checkContentType(h http.Header) error {
	values := h.Values("Content-Type")
	if len(values) != 1 {
		return turn.Problemf(turn.NotJSON, "send Content-Type: %s once", turn.JSONType)
	}
	if got, _, err := mime.ParseMediaType(values[0]); err != nil || got != turn.JSONType {
		return turn.Problemf(turn.NotJSON, "send Content-Type: %s", turn.JSONType)
	}
	if enc := h.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return turn.Problemf(turn.NotJSON, "send the body without Content-Encoding")
	}
	return nil
}

func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := turn.Problemf(turn.TooLarge, "a body may have %d bytes", s.env.MaxBody)
	if r.ContentLength > s.env.MaxBody {
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.env.MaxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if s.closing.Load() {
			return nil, turn.Problemf(turn.Draining, "the body did not arrive whole before that")
		}
		return nil, turn.Problemf(turn.BadRequest, "the body did not arrive within %v", bodyTimeout)
	}
	if err != nil {
		return nil, turn.Problemf(turn.BadRequest, "the body could not be read whole")
	}
	return body, nil
}

// getTurn answers GET turns/<id> from the file, whatever replica wrote it.
func (s *Server) getTurn(w http.ResponseWriter, r *http.Request, id string) {
	t, err := s.store.Turn(r.Context(), id)
	if err != nil {
		s.fail(w, s.engine.problem("", "", err))
		return
	}
	status := turn.Status{SessionID: t.Session, TurnID: t.ID, Turn: t.Number, State: t.State}
	switch t.State {
	case turn.Committed:
		status.Reply = t.Reply
	case turn.Failed, turn.Parked:
		status.Reason = t.Reason
	}
	w.Header().Set(turn.HeaderSession, t.Session)
	w.Header().Set(turn.HeaderTurn, t.ID)
	s.send(w, http.StatusOK, status)
}
