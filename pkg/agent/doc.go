// Package agent is the library that an agent is written with. An agent is one
// function, and [Main] makes a durable service of it:
//
//	func main() { agent.Main(runTurn) }
//
//	// Memory is the agent's own state: any type that encodes to JSON.
//	type Memory struct {
//		First string `json:"first"`
//	}
//
//	func runTurn(ctx context.Context, cp *agent.Checkpoint[Memory], input agent.Input) (agent.Reply, error) {
//		if cp.Turn == 1 {
//			cp.State.First = input.Text()
//		}
//		answer, err := callTheModel(ctx, cp.Messages, input)
//		if err != nil {
//			return agent.Reply{}, err // nothing of this turn is kept
//		}
//		return agent.Text(answer), nil
//	}
//
// # What runTurn gets
//
// cp.Messages and cp.State are what the earlier turns of this session left
// behind; a session's first turn finds no messages and the zero value of the
// state. runTurn may be called for many sessions at once, never twice at once
// for one session. ctx ends when the turn has taken too long ([ErrTurnTimeout])
// or when the process must stop ([ErrDraining]); context.Cause tells which. It
// does not end when the client goes away: a turn that has begun is finished
// without it.
//
// # What runTurn leaves
//
// When runTurn returns a reply, the turn is committed whole: the input, what
// runTurn appended to cp.Messages, the reply, and the state if it changed. Only
// when that is on disk does the client get its answer. When runTurn returns an
// error, panics, or runs out of time, nothing of the turn is kept, and the
// session is what it was before.
//
// The text of an error that runTurn returns goes to the client, as the detail of
// the problem (500 "run-failed"), cut off behind 500 bytes; it is logged and kept
// with the failed turn as well. So it must hold no secret: no key, no header, no
// address with a password. The value of a panic is only logged.
//
// The turn engine adds the input (role "user") and the reply (role "assistant")
// to the conversation itself. runTurn may append other messages (a tool's call
// and its result), and may trim or replace earlier ones:
//
//   - The input goes directly behind the last earlier message that is still in
//     cp.Messages, so everything that runTurn appended comes after the input.
//   - If runTurn kept none of the earlier messages, all that it left (a summary,
//     say) counts as the rewritten past and comes before the input.
//   - The reply comes last.
//
// "Still in" compares role and content, in order: a message that runTurn changed
// is a new one.
//
// # State over time
//
// Stored state is decoded strictly. If it has a field that the state type does
// not know, or a value of another type, the turn is refused (problem
// "state-mismatch") and nothing is changed: an agent never goes on as if it had
// forgotten. A new field is no mismatch; it starts at its zero value. To rename
// or convert a field give the state type an UnmarshalJSON method that reads both
// forms; the next turn writes the new one.
//
// # Around it
//
// Main reads its surroundings from the FLISK_ variables ([turn.Env]); with none
// set it serves on 127.0.0.1 and keeps conversations in ./.flisk/data, so that
// "go run ." works. SIGTERM, SIGINT or the end of its supervisor make it drain:
// it finishes what it accepted, commits it, answers it, and exits 0. The program
// started with the single argument "health" asks the running agent how it is.
// To serve from a program of your own, see [NewServer].
package agent
