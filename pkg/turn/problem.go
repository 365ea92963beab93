package turn

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Code is the stable name of a kind of problem; the last part of its RFC 9457
// "type".
type Code string

// Every kind of problem that an agent or a gateway answers with.
const (
	BadRequest      Code = "bad-request"
	BadSessionID    Code = "bad-session-id"
	BadTurnKey      Code = "bad-turn-key"
	SessionRequired Code = "session-required"
	HostRefused     Code = "host-refused"
	NotFound        Code = "not-found"
	NoSuchSession   Code = "no-such-session"
	NoSuchTurn      Code = "no-such-turn"
	BadMethod       Code = "method-not-allowed"
	Busy            Code = "busy"
	NeedsDecision   Code = "needs-decision"
	TurnMismatch    Code = "turn-mismatch"
	TooLarge        Code = "too-large"
	NotJSON         Code = "not-json"
	KeyReused       Code = "key-reused"
	QueueFull       Code = "queue-full"
	RunFailed       Code = "run-failed"
	ReplyTooLarge   Code = "reply-too-large"
	StateMismatch   Code = "state-mismatch"
	AgentLost       Code = "agent-lost"
	Draining        Code = "draining"
	NotReady        Code = "not-ready"
	SessionBusy     Code = "session-busy"
	SessionDamaged  Code = "session-damaged"
	CommitUnknown   Code = "commit-unknown"
	ReadOnly        Code = "read-only"
	Unavailable     Code = "store-unavailable"
	TurnTimeout     Code = "turn-timeout"
	NoSpace         Code = "no-space"
)

// kind is what the contract fixes about a problem.
type kind struct {
	status int
	title  string
	retry  bool // the same request may succeed later: Retry-After is sent
}

var kinds = map[Code]kind{
	BadRequest:      {http.StatusBadRequest, "the request is malformed", false},
	BadSessionID:    {http.StatusBadRequest, "the session id is not valid", false},
	BadTurnKey:      {http.StatusBadRequest, "the turn key is not valid", false},
	SessionRequired: {http.StatusBadRequest, "this agent requires a session id", false},
	HostRefused:     {http.StatusForbidden, "this host name is not served here", false},
	NotFound:        {http.StatusNotFound, "nothing is served at this path", false},
	NoSuchSession:   {http.StatusNotFound, "there is no such session", false},
	NoSuchTurn:      {http.StatusNotFound, "there is no such turn", false},
	BadMethod:       {http.StatusMethodNotAllowed, "the method is not allowed here", false},
	Busy:            {http.StatusConflict, "another turn of this session is running", true},
	NeedsDecision:   {http.StatusConflict, "a turn of this session waits for a decision", false},
	TurnMismatch:    {http.StatusPreconditionFailed, "the session is not at the expected turn", false},
	TooLarge:        {http.StatusRequestEntityTooLarge, "the input is too large", false},
	NotJSON:         {http.StatusUnsupportedMediaType, "the body must be application/json", false},
	KeyReused:       {http.StatusUnprocessableEntity, "the turn key was used with another input", false},
	QueueFull:       {http.StatusTooManyRequests, "too many turns wait for this session", true},
	RunFailed:       {http.StatusInternalServerError, "the agent's code failed; nothing was committed", false},
	ReplyTooLarge:   {http.StatusInternalServerError, "the turn is too large to commit; nothing was committed", false},
	StateMismatch:   {http.StatusInternalServerError, "the session's state does not fit the agent's code; nothing was changed", false},
	AgentLost:       {http.StatusBadGateway, "the agent went away; the turn may or may not be committed", true},
	Draining:        {http.StatusServiceUnavailable, "the agent is shutting down", true},
	NotReady:        {http.StatusServiceUnavailable, "no replica of the agent is ready", true},
	SessionBusy:     {http.StatusServiceUnavailable, "the session stayed busy for too long", true},
	SessionDamaged:  {http.StatusServiceUnavailable, "the session's file is damaged and was left as it is", false},
	CommitUnknown:   {http.StatusServiceUnavailable, "the turn may or may not be durable; retry with the same turn key", true},
	ReadOnly:        {http.StatusServiceUnavailable, "the volume cannot be written", true},
	Unavailable:     {http.StatusServiceUnavailable, "the session's file could not be read just now", true},
	TurnTimeout:     {http.StatusGatewayTimeout, "the turn took too long; nothing was committed", false},
	NoSpace:         {http.StatusInsufficientStorage, "the volume is full; nothing was committed", true},
}

// Codes lists every kind of problem, sorted by name.
func Codes() []Code { return slices.Sorted(maps.Keys(kinds)) }

// Status is the HTTP status of the kind.
func (c Code) Status() int { return kinds[c].status }

// Title is the sentence that RFC 9457 calls "title".
func (c Code) Title() string { return kinds[c].title }

// Retryable reports whether the same request may succeed later. Answers of
// these kinds carry Retry-After.
func (c Code) Retryable() bool { return kinds[c].retry }

const problemBase = "https://github.com/flisk-go/flisk/blob/main/docs/PROBLEMS.md#"

// URI is the "type" of the kind: stable, and a link to its documentation.
func (c Code) URI() string { return problemBase + string(c) }

// CodeOf returns the kind that a problem type names, or false for a type that
// is not of this contract.
func CodeOf(uri string) (Code, bool) {
	if len(uri) <= len(problemBase) || uri[:len(problemBase)] != problemBase {
		return "", false
	}
	c := Code(uri[len(problemBase):])
	_, ok := kinds[c]
	return c, ok
}

// Problem is an error as it travels: an RFC 9457 problem document. It is the
// error value of both the agent and its clients.
type Problem struct {
	Code      Code
	Detail    string        // what happened, in words; no secret, no model text
	SessionID string        // if known
	TurnID    string        // if known: GET turns/<id> tells what became of it
	After     time.Duration // sent as Retry-After, in whole seconds; at least 1 for a retryable kind
}

// Problemf makes a problem with a formatted detail.
func Problemf(code Code, format string, args ...any) *Problem {
	return &Problem{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Error is the title and the detail in one line.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Code.Title()
	}
	return p.Code.Title() + ": " + p.Detail
}

// problemJSON is the document itself.
type problemJSON struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	TurnID    string `json:"turn_id,omitempty"`
}

// MarshalJSON writes the problem document.
func (p *Problem) MarshalJSON() ([]byte, error) {
	return json.Marshal(problemJSON{p.Code.URI(), p.Code.Title(), p.Code.Status(), p.Detail, p.SessionID, p.TurnID})
}

// UnmarshalJSON reads a problem document. A type that is not of this contract
// is an error.
func (p *Problem) UnmarshalJSON(b []byte) error {
	var doc problemJSON
	if err := json.Unmarshal(b, &doc); err != nil {
		return err
	}
	code, ok := CodeOf(doc.Type)
	if !ok {
		return fmt.Errorf("unknown problem type %q", doc.Type)
	}
	*p = Problem{Code: code, Detail: doc.Detail, SessionID: doc.SessionID, TurnID: doc.TurnID}
	return nil
}

// Write answers a request with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", ProblemType)
	h.Set("Cache-Control", "no-store")
	if p.SessionID != "" {
		h.Set(HeaderSession, p.SessionID)
	}
	if p.TurnID != "" {
		h.Set(HeaderTurn, p.TurnID)
	}
	if p.Code.Retryable() || p.After > 0 {
		seconds := max(1, int64((p.After+time.Second-1)/time.Second))
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	body, err := p.MarshalJSON()
	if err != nil { // a struct of strings and an int
		panic(err)
	}
	w.WriteHeader(p.Code.Status())
	_, _ = w.Write(append(body, '\n')) // the client may be gone; nobody is left to tell
}
