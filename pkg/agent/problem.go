package agent

import (
	"context"
	"errors"
	"strings"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// maxDetail bounds the text of an error that travels to a client or into a
// session's file, in bytes.
const maxDetail = 500

// clip makes an error's text fit for a problem: bounded, and valid UTF-8.
func clip(text string) string {
	if len(text) > maxDetail {
		text = text[:maxDetail] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

func keyReused(turnID string) *turn.Problem {
	return &turn.Problem{Code: turn.KeyReused, Detail: "use a new key for a new input", TurnID: turnID}
}

func draining() *turn.Problem {
	return turn.Problemf(turn.Draining, "send the turn again")
}

// problem says what an error of the store means to a client, and logs it. An
// error that is a problem already is returned as it is.
func (e *engine) problem(session, turnID string, err error) *turn.Problem {
	p, ok := errors.AsType[*turn.Problem](err)
	if !ok {
		p = storeProblem(err)
	}
	p.SessionID, p.TurnID = session, turnID
	// What a client's own request ran into is the client's business; a store
	// that does not work is the operator's.
	switch p.Code {
	case turn.SessionBusy, turn.Busy, turn.Draining, turn.NoSuchSession, turn.NoSuchTurn, turn.BadSessionID:
		return p
	}
	if !errors.Is(err, context.Canceled) { // the client left
		e.log.Warn("request failed", "session", session, "turn", turnID, "problem", string(p.Code), "error", err)
	}
	return p
}

func storeProblem(err error) *turn.Problem {
	if d, ok := errors.AsType[*checkpoint.DamagedError](err); ok {
		if d.Newer {
			return turn.Problemf(turn.SessionDamaged, "it was written by a newer version of flisk (%s); run the agent with that version", d.Reason)
		}
		return turn.Problemf(turn.SessionDamaged, "%s: %s; other sessions are not affected", d.Path, d.Reason)
	}
	if errors.Is(err, checkpoint.ErrTooLarge) {
		return turn.Problemf(turn.ReplyTooLarge, "%v", err) // it says which limit, and no more
	}
	for _, known := range []struct {
		err    error
		code   turn.Code
		detail string
	}{
		{errWaitedTooLong, turn.SessionBusy, "another turn of this session did not end in time"},
		{errBusyElsewhere, turn.Busy, "another replica has it; this agent does not queue turns"},
		{ErrDraining, turn.Draining, "send the turn again"},
		{checkpoint.ErrClosed, turn.Draining, "send the turn again"},
		{turn.ErrSessionID, turn.BadSessionID, ""},
		{checkpoint.ErrNoSession, turn.NoSuchSession, ""},
		{checkpoint.ErrNoTurn, turn.NoSuchTurn, ""},
		{checkpoint.ErrNoSpace, turn.NoSpace, ""},
		{checkpoint.ErrReadOnly, turn.ReadOnly, "reading and replays still work"},
		{checkpoint.ErrCommitUnknown, turn.CommitUnknown, "or ask for the turn by its id"},
		{checkpoint.ErrLostLock, turn.Unavailable, "somebody else changed the session's file; nothing was committed"},
	} {
		if errors.Is(err, known.err) {
			return turn.Problemf(known.code, "%s", known.detail)
		}
	}
	return turn.Problemf(turn.Unavailable, "the agent's log says why")
}
