package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/flisk-go/flisk/pkg/checkpoint"
)

// program is an agent's code without its state type. It decodes a checkpoint
// for one turn; the execution that it returns runs that turn and says what it
// leaves behind. An error of the program itself is a mismatch between stored
// state and code. last is the view that the turn before left, or nil.
type program func(cp checkpoint.Checkpoint, last *view, input json.RawMessage) (execution, error)

// execution returns a view too, if the next turn may have it.
type execution func(context.Context) (checkpoint.Commit, *view, error)

func newProgram[S any](run Func[S]) program {
	return func(stored checkpoint.Checkpoint, last *view, input json.RawMessage) (execution, error) {
		seen := last.next(stored.Messages)
		cp := &Checkpoint[S]{
			Session:  stored.Session,
			Turn:     stored.Turn + 1,
			Messages: seen.messages(),
		}
		before := stored.State
		if before != nil {
			if err := decodeStrict(before, &cp.State); err != nil {
				return nil, fmt.Errorf("%T: %w", cp.State, err) // turn.StateMismatch says what to do
			}
		} else {
			var err error
			if before, err = encodeJSON(cp.State); err != nil {
				return nil, fmt.Errorf("the zero value of %T does not encode: %w", cp.State, err)
			}
		}
		return func(ctx context.Context) (checkpoint.Commit, *view, error) {
			reply, err := run(ctx, cp, Input(bytes.Clone(input)))
			if err != nil {
				return checkpoint.Commit{}, nil, err
			}
			untouched := seen.untouched(cp.Messages)
			commit, err := leaveBehind(stored.Messages, untouched, before, cp, input, reply)
			if err != nil || !untouched || !seen.worthKeeping() {
				seen = nil
			}
			return commit, seen, err
		}, nil
	}
}

// leaveBehind encodes what a turn that succeeded wants to keep. untouched says
// that it left the earlier messages as they were and added none.
func leaveBehind[S any](earlier []Message, untouched bool, before json.RawMessage, cp *Checkpoint[S], input json.RawMessage, reply Reply) (checkpoint.Commit, error) {
	encodedReply, err := encodeJSON(reply.Value)
	if err != nil {
		return checkpoint.Commit{}, fmt.Errorf("cannot encode the reply: %w", err)
	}
	kept, added := len(earlier), []Message{{Role: roleInput, Content: input}, {Role: roleReply, Content: encodedReply}}
	if !untouched {
		if kept, added, err = weave(earlier, cp.Messages, added[0], added[1]); err != nil {
			return checkpoint.Commit{}, err
		}
	}
	state, err := encodeJSON(cp.State)
	if err != nil {
		return checkpoint.Commit{}, fmt.Errorf("cannot encode the state: %w", err)
	}
	if bytes.Equal(state, before) {
		state = nil
	}
	// The store knows its own slice again, and need not compare what it holds.
	return checkpoint.Commit{Messages: earlier[:kept], Add: added, State: state, Reply: encodedReply}, nil
}
