package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// isolation looks for anything of one session in another.
func isolation() Check {
	return Check{
		Name:    "isolation",
		Promise: "a new session starts fresh",
		How:     "two turns in one session, then one in another; what that leaves is compared with a new process's",
		Turns:   4 + 1, // the fifth only when they differ
		run: func(ctx context.Context, s *scene) error {
			if _, err := s.restart(ctx); err != nil {
				return err
			}
			input := s.input(1)
			pristine, err := s.begun(ctx, input)
			if err != nil {
				return err
			}
			old, fresh := s.session(), s.session()
			foreign, unique := s.foreign(input)
			for _, said := range foreign {
				if _, err := s.say(ctx, old, said); err != nil {
					return err
				}
			}
			before, err := s.look(ctx, old)
			if err != nil {
				return err
			}
			got, err := s.say(ctx, fresh, input)
			if err != nil {
				return err
			}
			view, err := s.look(ctx, fresh)
			if err != nil {
				return err
			}
			if got.Turn != 1 || view.Turn != 1 {
				return s.broke(Leaked, fresh, "the first turn of a new session was answered as turn %d, and its checkpoint is at turn %d", got.Turn, view.Turn)
			}
			own := said(fresh, view)
			if unique {
				own = own[:1] // it cannot have come up with that by itself
			}
			text, leaks, tells := leaked(said(old, before), own, view)
			if leaks {
				return s.broke(Leaked, fresh, "a new session's checkpoint holds what was said in another one: %q", text)
			}
			if err := s.unchanged(ctx, old, before, "a turn of another session"); err != nil {
				return err
			}
			s.saw("a new session begins at turn 1, with %s", count(len(view.Messages), "message"))
			if err := s.sameBeginning(ctx, fresh, input, pristine, view, tells); err != nil {
				return err
			}
			s.saw("it said: %s", turn.Text(got.Reply))
			return nil
		},
	}
}

// foreign are two inputs for another session than the one that gets own: what
// tells them apart from it can be looked for in it. When the agent has no such
// inputs, a text that is like no other one is added to one, if it is a text;
// unique says so.
func (s *scene) foreign(own json.RawMessage) (inputs []json.RawMessage, unique bool) {
	for _, in := range s.Inputs {
		if _, tells := telling(texts(in), texts(own)); tells {
			inputs = append(inputs, in)
		}
	}
	if len(inputs) == 0 {
		said := s.input(2)
		var text string
		if json.Unmarshal(said, &text) == nil {
			said, _ = json.Marshal(text + " (" + s.name("nonce") + ")") // a string
			unique = true
		}
		inputs = append(inputs, said)
	}
	return []json.RawMessage{inputs[0], inputs[1%len(inputs)]}, unique
}

// begun begins a session, and returns what its first turn left.
func (s *scene) begun(ctx context.Context, input json.RawMessage) (checkpoint.View, error) {
	l := s.session()
	if _, err := s.say(ctx, l, input); err != nil {
		return checkpoint.View{}, err
	}
	return s.look(ctx, l)
}

// sameBeginning compares what the same first turn left of two sessions: of one
// that its process served first, and of one that it served after others. An
// agent that leaves something else whenever it runs (the session's id, a time, a
// model's words) shows nothing. It is told by a second new process, later than
// both: what only changes with time, and is the same in the first and the last
// of three, was the same in the middle. tells says whether the contents of the
// sessions alone would have shown a leak.
func (s *scene) sameBeginning(ctx context.Context, l *ledger, input json.RawMessage, first, after checkpoint.View, tells bool) error {
	sameTalk, sameState := bytes.Equal(talk(first), talk(after)), bytes.Equal(first.State, after.State)
	if sameTalk && sameState {
		s.saw("its messages and state are those of a new process")
		return nil
	}
	if _, err := s.restart(ctx); err != nil {
		return err
	}
	again, err := s.begun(ctx, input)
	if err != nil {
		return err
	}
	const unequal = "equal turns in new processes leave unequal ones"
	switch {
	case sameState:
	case bytes.Equal(first.State, again.State):
		return s.broke(Leaked, l, "the first turn of a new session left the state %s after turns of other sessions, and %s in a new process", brief(after.State), brief(first.State))
	default:
		s.saw("its state could not be compared: %s", unequal)
	}
	switch {
	case sameTalk:
	case bytes.Equal(talk(first), talk(again)):
		return s.broke(Leaked, l, "the messages of a new session are others after turns of other sessions than in a new process: %s", firstDifference(after, first))
	case !tells:
		return errors.New("nothing that was said in one session could be told apart in another, and its messages cannot be compared: " + unequal + "; give verify.inputs two texts that differ")
	default:
		s.saw("its messages could only be searched: %s", unequal)
	}
	return nil
}

// leaked finds what was said in one session in the checkpoint of another. Only a
// text tells the two apart that is not part of what the other was told or
// replied itself, and that is long enough not to be there by chance; tells says
// whether there is one.
func leaked(foreign, own []json.RawMessage, view checkpoint.View) (text string, leaks, tells bool) {
	var mine, theirs []string
	for _, said := range own {
		mine = append(mine, texts(said)...)
	}
	for _, said := range foreign {
		theirs = append(theirs, texts(said)...)
	}
	held := texts(view.State)
	for _, m := range view.Messages {
		held = append(held, texts(m.Content)...)
	}
	apart, tells := telling(theirs, mine)
	for _, text := range apart {
		if contains(held, text) {
			return text, true, tells
		}
	}
	return "", false, tells
}

// telling are the texts that are part of none of the others, and long enough to
// mean something; and whether there are any.
func telling(texts, others []string) ([]string, bool) {
	const enough = 6 // characters
	var out []string
	for _, text := range texts {
		if len(text) >= enough && !contains(others, text) {
			out = append(out, text)
		}
	}
	return out, len(out) > 0
}

func contains(in []string, text string) bool {
	return slices.ContainsFunc(in, func(s string) bool { return strings.Contains(s, text) })
}

// texts are the strings in a JSON value.
func texts(value json.RawMessage) []string {
	var v any
	if json.Unmarshal(value, &v) != nil {
		return nil
	}
	var out []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return out
}
