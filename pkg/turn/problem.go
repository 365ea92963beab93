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
	retry  bool   // the same request may succeed later: Retry-After is sent
	advice string // what to do about it
}

var kinds = map[Code]kind{
	BadRequest:      {http.StatusBadRequest, "the request is malformed", false, "send what the detail asks for"},
	BadSessionID:    {http.StatusBadRequest, "the session id is not valid", false, "use 1 to 128 of A-Z a-z 0-9 . _ ~ : @ + = -, beginning with a letter or a digit; leave the header out for a new session"},
	BadTurnKey:      {http.StatusBadRequest, "the turn key is not valid", false, "use 1 to 128 printable ASCII characters, sent once"},
	SessionRequired: {http.StatusBadRequest, "this agent requires a session id", false, "send x-session-id, or set require_session_id: false"},
	HostRefused:     {http.StatusForbidden, "this host name is not served here", false, "use the address that flisk up printed, or add the name to gateway.hosts"},
	NotFound:        {http.StatusNotFound, "nothing is served at this path", false, "look at the path: /api/<agent>/turn"},
	NoSuchSession:   {http.StatusNotFound, "there is no such session", false, "look at the id; flisk sessions list shows all"},
	NoSuchTurn:      {http.StatusNotFound, "there is no such turn", false, "look at the turn-id header of the answer"},
	BadMethod:       {http.StatusMethodNotAllowed, "the method is not allowed here", false, "use a method of the Allow header"},
	Busy:            {http.StatusConflict, "another turn of this session is running", true, "send it again when the other turn is answered, or set on_busy: queue"},
	NeedsDecision:   {http.StatusConflict, "a turn of this session waits for a decision", false, "settle the turn that the detail names first"},
	TurnMismatch:    {http.StatusPreconditionFailed, "the session is not at the expected turn", false, "read the session again: somebody else went on with it"},
	TooLarge:        {http.StatusRequestEntityTooLarge, "the input is too large", false, "send less, or raise max_body"},
	NotJSON:         {http.StatusUnsupportedMediaType, "the body must be application/json", false, "send Content-Type: application/json, unencoded"},
	KeyReused:       {http.StatusUnprocessableEntity, "the turn key was used with another input", false, "use a new key for a new input"},
	QueueFull:       {http.StatusTooManyRequests, "too many turns wait for this session", true, "wait as long as Retry-After says"},
	RunFailed:       {http.StatusInternalServerError, "the agent's code failed; nothing was committed", false, "mend the agent's code; flisk logs has its words"},
	ReplyTooLarge:   {http.StatusInternalServerError, "the turn is too large to commit; nothing was committed", false, "return less: the detail names the limit"},
	StateMismatch:   {http.StatusInternalServerError, "the session's state does not fit the agent's code; nothing was changed", false, "keep the stored field, or give the state type an UnmarshalJSON that reads the old form"},
	AgentLost:       {http.StatusBadGateway, "the agent went away; the turn may or may not be committed", true, "send it again with the same key, or ask GET turns/<turn-id>"},
	Draining:        {http.StatusServiceUnavailable, "the agent is shutting down", true, "send it again: another process takes over"},
	NotReady:        {http.StatusServiceUnavailable, "no replica of the agent is ready", true, "send it again; flisk status and flisk logs say why"},
	SessionBusy:     {http.StatusServiceUnavailable, "the session stayed busy for too long", true, "send it again with the same key"},
	SessionDamaged:  {http.StatusServiceUnavailable, "the session's file is damaged and was left as it is", false, "put the file back from a copy; the detail names it"},
	CommitUnknown:   {http.StatusServiceUnavailable, "the turn may or may not be durable; retry with the same turn key", true, "send it again with the same key: it is stored at most once"},
	ReadOnly:        {http.StatusServiceUnavailable, "the volume cannot be written", true, "make the volume writable; reads and replays still work"},
	Unavailable:     {http.StatusServiceUnavailable, "the session's file could not be read just now", true, "send it again; the log of the agent says what failed"},
	TurnTimeout:     {http.StatusGatewayTimeout, "the turn took too long; nothing was committed", false, "make the turn shorter and end it when ctx ends, or raise turn_timeout"},
	NoSpace:         {http.StatusInsufficientStorage, "the volume is full; nothing was committed", true, "make room on the volume"},
}

// Codes lists every kind of problem, sorted by name.
func Codes() []Code { return slices.Sorted(maps.Keys(kinds)) }

// Status is the HTTP status of the kind.
func (c Code) Status() int { return kinds[c].status }

// Title is the sentence that RFC 9457 calls "title".
func (c Code) Title() string { return kinds[c].title }

// Advice says what to do about it, as a sentence fragment for people.
func (c Code) Advice() string { return kinds[c].advice }

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
