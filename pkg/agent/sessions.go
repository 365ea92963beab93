package agent

import (
	"context"
	"net/http"
	"strconv"

	"github.com/flisk-go/flisk/pkg/turn"
)

// The length of one page of a listing.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// getSessions answers GET sessions?after=&limit=.
func (s *Server) getSessions(w http.ResponseWriter, r *http.Request, _ string) {
	query := r.URL.Query()
	after := query.Get("after")
	if after != "" {
		if err := turn.CheckSessionID(after); err != nil {
			s.fail(w, turn.Problemf(turn.BadSessionID, "after: %v", err))
			return
		}
	}
	limit := defaultLimit
	if text := query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxLimit {
			s.fail(w, turn.Problemf(turn.BadRequest, "limit must be a number from 1 to %d", maxLimit))
			return
		}
	}
	rows, next, err := s.store.List(r.Context(), after, limit)
	if err != nil {
		s.fail(w, s.engine.problem("", "", err))
		return
	}
	list := turn.SessionList{Sessions: make([]turn.Session, 0, len(rows)), Next: next}
	for _, row := range rows {
		item := turn.Session{ID: row.Session, Turns: row.Turns, Bytes: row.Bytes, Activity: row.Activity}
		if row.Err != nil {
			item.Problem = row.Err.Error()
		}
		list.Sessions = append(list.Sessions, item)
	}
	s.send(w, http.StatusOK, list)
}

// getSession answers GET sessions/<id> with the last checkpoint that is known to
// be durable.
func (s *Server) getSession(w http.ResponseWriter, r *http.Request, id string) {
	if err := turn.CheckSessionID(id); err != nil {
		s.fail(w, turn.Problemf(turn.BadSessionID, "%v", err))
		return
	}
	view, err := s.store.View(r.Context(), id)
	if err != nil {
		s.fail(w, s.engine.problem(id, "", err))
		return
	}
	messages := view.Messages
	if messages == nil {
		messages = []Message{} // [] and not null
	}
	w.Header().Set(turn.HeaderSession, id)
	s.send(w, http.StatusOK, turn.SessionView{ID: id, Turns: view.Turn, Messages: messages, State: view.State})
}

// deleteSession answers DELETE sessions/<id>. It waits for the session like a
// turn does.
func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request, id string) {
	if err := turn.CheckSessionID(id); err != nil {
		s.fail(w, turn.Problemf(turn.BadSessionID, "%v", err))
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.env.TurnTimeout, errWaitedTooLong)
	defer cancel()
	if err := s.store.Delete(ctx, id); err != nil {
		s.fail(w, s.engine.problem(id, "", err))
		return
	}
	s.bounded(w, func(rc *http.ResponseController) {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		_ = rc.Flush()
	})
}
