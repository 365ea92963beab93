package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/flisk-go/flisk/pkg/turn"
)

// request is one turn as a client asked for it, checked.
type request struct {
	session string
	key     string          // "" without a turn key
	input   json.RawMessage // compact
	hash    string          // inputHash of input
	expect  expectation
	hold    turn.Hold // its Point is "" when nothing is held
}

// parseInput reads the body of a turn: one JSON object with exactly one member,
// "input".
func parseInput(body []byte) (input json.RawMessage, hash string, err error) {
	if !utf8.Valid(body) {
		return nil, "", turn.Problemf(turn.BadRequest, "the body is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	bad := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return turn.Problemf(turn.BadRequest, "the body ends before its JSON does")
		}
		return turn.Problemf(turn.BadRequest, "the body is not JSON: %v", err)
	}
	if t, err := dec.Token(); err != nil {
		return nil, "", bad(err)
	} else if t != json.Delim('{') {
		return nil, "", turn.Problemf(turn.BadRequest, `the body must be an object: {"input": …}`)
	}
	var raw json.RawMessage
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, "", bad(err)
		}
		if name != "input" {
			return nil, "", turn.Problemf(turn.BadRequest, `the body has a member other than "input"`)
		}
		if raw != nil {
			return nil, "", turn.Problemf(turn.BadRequest, `the body has "input" twice`)
		}
		if err := dec.Decode(&raw); err != nil {
			return nil, "", bad(err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, "", bad(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, "", turn.Problemf(turn.BadRequest, "something follows the JSON of the body")
	}
	if raw == nil {
		return nil, "", turn.Problemf(turn.BadRequest, `the body has no "input"`)
	}
	if input, err = compactJSON(raw); err != nil {
		return nil, "", bad(err)
	}
	if err = checkUnambiguous(input); err != nil {
		return nil, "", bad(err)
	}
	if hash, err = inputHash(input); err != nil {
		return nil, "", bad(err)
	}
	return input, hash, nil
}

// identify works out which session a request is for and which key it carries.
// Only the exact header names count: look-alikes that some proxies fold into
// them (x_session_id) are ignored.
func (s *Server) identify(h http.Header) (session, key string, err error) {
	if values := h.Values(turn.HeaderKey); len(values) > 1 {
		return "", "", turn.Problemf(turn.BadTurnKey, "%s was sent %d times", turn.HeaderKey, len(values))
	} else if len(values) == 1 {
		if key, err = turn.ParseKey(values[0]); err != nil {
			return "", "", turn.Problemf(turn.BadTurnKey, "%v", err)
		}
	}
	switch values := h.Values(turn.HeaderSession); {
	case len(values) > 1:
		return "", "", turn.Problemf(turn.BadSessionID, "%s was sent %d times", turn.HeaderSession, len(values))
	case len(values) == 1:
		if err := turn.CheckSessionID(values[0]); err != nil {
			return "", "", turn.Problemf(turn.BadSessionID, "%v", err)
		}
		return values[0], key, nil
	case s.env.RequireSession:
		return "", "", turn.Problemf(turn.SessionRequired, "send %s", turn.HeaderSession)
	case key != "":
		return turn.DeriveSessionID(s.store.Info().Secret, s.env.Agent, key), key, nil
	default:
		return turn.NewSessionID(), "", nil
	}
}

// expectation is a parsed If-Match. The zero value expects nothing.
type expectation struct {
	set    bool
	exists bool // "*": the session has at least one turn
	turn   int
}

// parseIfMatch reads `"<n>"` or `*`. Lists and weak tags are malformed here: a
// session is at one turn.
func parseIfMatch(h http.Header) (expectation, error) {
	values := h.Values("If-Match")
	if len(values) == 0 {
		return expectation{}, nil
	}
	bad := turn.Problemf(turn.BadRequest, `If-Match must be one quoted turn number, like "3", or *`)
	if len(values) > 1 {
		return expectation{}, bad
	}
	v := values[0]
	if v == "*" {
		return expectation{set: true, exists: true}, nil
	}
	if len(v) < 3 || v[0] != '"' || v[len(v)-1] != '"' {
		return expectation{}, bad
	}
	digits := v[1 : len(v)-1]
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || strconv.Itoa(n) != digits {
		return expectation{}, bad
	}
	return expectation{set: true, turn: n}, nil
}

// check compares the expectation with the turn that the session is at.
func (x expectation) check(at int) error {
	switch {
	case !x.set, x.exists && at > 0, !x.exists && x.turn == at:
		return nil
	case x.exists:
		return turn.Problemf(turn.TurnMismatch, "the session has no turn yet")
	default:
		return turn.Problemf(turn.TurnMismatch, "the session is at turn %d, not %d", at, x.turn)
	}
}
