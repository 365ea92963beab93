package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Func is an agent's code: one turn of a conversation. S is the agent's own
// state. It is called for many sessions at once, one turn of a session at a
// time, and must not use cp after it returned: the next turn may get the same
// Messages, so what is changed in them then is taken for its doing.
type Func[S any] func(ctx context.Context, cp *Checkpoint[S], input Input) (Reply, error)

// Checkpoint is what the earlier turns of a session left behind. It belongs to
// the running turn alone; what runTurn changes in it is committed with the
// reply, or not at all.
type Checkpoint[S any] struct {
	Session  string
	Turn     int       // number of the turn being run; the first is 1
	Messages []Message // oldest first; the bytes of a Content must not be changed in place
	State    S
}

// Message is one entry of a conversation: a role and any JSON as content.
type Message = turn.Message

// NewMessage makes a message whose content is the JSON of content.
func NewMessage(role string, content any) (Message, error) {
	if role == "" {
		return Message{}, errors.New("a message needs a role")
	}
	encoded, err := encodeJSON(content)
	if err != nil {
		return Message{}, fmt.Errorf("cannot encode the content of a %q message: %w", role, err)
	}
	return Message{Role: role, Content: encoded}, nil
}

// The roles of the messages that the turn engine adds.
const (
	roleInput = "user"
	roleReply = "assistant"
)

// Input is what the client sent: any JSON value.
type Input json.RawMessage

// TextInput is the input of a client that sent a string.
func TextInput(s string) Input {
	encoded, err := encodeJSON(s)
	if err != nil { // a string always encodes
		panic(err)
	}
	return Input(encoded)
}

// Text is the string that was sent, or the JSON of any other value.
func (in Input) Text() string { return turn.Text(json.RawMessage(in)) }

// Decode stores the input in the value that v points to, as json.Unmarshal does.
func (in Input) Decode(v any) error { return json.Unmarshal(in, v) }

// MarshalJSON returns the input as it is, so that it can be part of a message
// or of the state.
func (in Input) MarshalJSON() ([]byte, error) { return json.RawMessage(in).MarshalJSON() }

// UnmarshalJSON is the counterpart of MarshalJSON.
func (in *Input) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(in).UnmarshalJSON(b) }

// Reply is what the client gets: any value that encodes to JSON.
type Reply struct{ Value any }

// Text is a reply that is a plain string.
func Text(s string) Reply { return Reply{Value: s} }

// Causes of the end of a turn's context; see [context.Cause].
var (
	// ErrTurnTimeout: the turn took longer than FLISK_TURN_TIMEOUT. Its reply,
	// should one still come, is dropped.
	ErrTurnTimeout = errors.New("the turn took too long")
	// ErrDraining: the process stops and its drain budget is used up. A reply
	// that is returned at once is still committed; an error is not recorded as
	// the turn's failure.
	ErrDraining = errors.New("the agent is shutting down")
)
