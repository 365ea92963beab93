package turn

import (
	"encoding/json"
	"time"
)

// Request is the body of POST [TurnPath].
type Request struct {
	Input json.RawMessage `json:"input"`
}

// Result is the 200 answer to a turn. Reply is byte for byte what was
// committed, also on a replay.
type Result struct {
	SessionID string          `json:"session_id"`
	Turn      int             `json:"turn"`
	TurnID    string          `json:"turn_id"`
	Reply     json.RawMessage `json:"reply"`
	Replayed  bool            `json:"replayed"`
}

// State says how far a turn came.
type State string

// The states of a turn.
const (
	Running   State = "running"   // begun; its process is alive
	Committed State = "committed" // durable, with its reply
	Failed    State = "failed"    // nothing of it was committed, and nothing will be
	Parked    State = "parked"    // given up after repeated crashes; a person decides
)

// Status is the answer to GET [TurnsPath].
type Status struct {
	SessionID string          `json:"session_id"`
	TurnID    string          `json:"turn_id"`
	Turn      int             `json:"turn"`
	State     State           `json:"state"`
	Reply     json.RawMessage `json:"reply,omitempty"`  // when committed
	Reason    string          `json:"reason,omitempty"` // when failed or parked
}

// Message is one entry of a conversation.
type Message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// Session is one row of a [SessionList].
type Session struct {
	ID       string    `json:"id"`
	Turns    int       `json:"turns"`    // committed turns
	Bytes    int64     `json:"bytes"`    // size on disk
	Activity time.Time `json:"activity"` // when it was last written to
	Problem  string    `json:"problem,omitempty"`
}

// SessionList is the answer to GET [SessionsPath]. The order is stable but has
// no meaning. Next is the value of ?after= for the following page, and empty on
// the last one.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty"`
}

// SessionView is the answer to GET [SessionPath]: the checkpoint.
type SessionView struct {
	ID       string          `json:"id"`
	Turns    int             `json:"turns"`
	Messages []Message       `json:"messages"`
	State    json.RawMessage `json:"state,omitempty"`
}

// Health is the answer to GET [HealthPath]: always 200 while the process can
// answer at all.
type Health struct {
	Agent    string `json:"agent"`
	Contract int    `json:"contract"`
	Code     string `json:"code,omitempty"`
	Replica  string `json:"replica"`
	PID      int    `json:"pid"`
	Draining bool   `json:"draining"`
	InFlight int    `json:"in_flight"` // turns that are queued or running
}

// Ready is the answer to GET [ReadyPath]: 200 when turns are welcome, 503
// before the first probe of the volume passed and while draining. Store is
// "read-write", or "read-only" when writes fail and reads still work.
type Ready struct {
	Ready  bool   `json:"ready"`
	Store  string `json:"store"`
	Reason string `json:"reason,omitempty"`
}

// Text is the content as people read it: the string itself when it is a JSON
// string, else the JSON.
func (m Message) Text() string { return Text(m.Content) }

// Text returns the string in a JSON string, and any other JSON as it is.
func Text(value json.RawMessage) string {
	var s string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}
