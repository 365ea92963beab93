package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flisk-go/flisk/pkg/checkpoint"
)

// program is an agent's code without its state type. It decodes a checkpoint
// for one turn; the execution that it returns runs that turn and says what it
// leaves behind. An error of the program itself is a mismatch between stored
// state and code.
type program func(cp checkpoint.Checkpoint, input json.RawMessage) (execution, error)

type execution func(context.Context) (checkpoint.Commit, error)

func newProgram[S any](run Func[S]) program {
	return func(stored checkpoint.Checkpoint, input json.RawMessage) (execution, error) {
		// The slice is copied, so that a turn which changes elements in place and
		// then fails has changed nothing that the store keeps.
		cp := &Checkpoint[S]{
			Session:  stored.Session,
			Turn:     stored.Turn + 1,
			Messages: slices.Clip(slices.Clone(stored.Messages)),
		}
		before := stored.State
		if before != nil {
			if err := decodeStrict(before, &cp.State); err != nil {
				return nil, fmt.Errorf("%w; keep what was stored, or give %T an UnmarshalJSON method that reads the old form", err, cp.State)
			}
		} else {
			var err error
			if before, err = encodeJSON(cp.State); err != nil {
				return nil, fmt.Errorf("the zero value of %T does not encode: %w", cp.State, err)
			}
		}
		return func(ctx context.Context) (checkpoint.Commit, error) {
			reply, err := run(ctx, cp, Input(bytes.Clone(input)))
			if err != nil {
				return checkpoint.Commit{}, err
			}
			return leaveBehind(stored.Messages, before, cp, input, reply)
		}, nil
	}
}

// leaveBehind encodes what a turn that succeeded wants to keep.
func leaveBehind[S any](earlier []Message, before json.RawMessage, cp *Checkpoint[S], input json.RawMessage, reply Reply) (checkpoint.Commit, error) {
	encodedReply, err := encodeJSON(reply.Value)
	if err != nil {
		return checkpoint.Commit{}, fmt.Errorf("cannot encode the reply: %w", err)
	}
	kept, added, err := weave(earlier, cp.Messages,
		Message{Role: roleInput, Content: input},
		Message{Role: roleReply, Content: encodedReply})
	if err != nil {
		return checkpoint.Commit{}, err
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
