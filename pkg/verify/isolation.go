package verify

import (
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
		Name:        "isolation",
		Promise:     "a new session starts fresh",
		How:         "two turns in one session, then one in another; what that leaves is compared with a new process's",
		Turns:       3,
		Undisturbed: 1,
		Again:       1 + 3,
		run: func(ctx context.Context, s *scene) error {
			first, err := s.twin(ctx)
			if err != nil {
				return err
			}
			pristine, _ := first.at(1)
			foreign, unique := s.foreign(s.input(1))
			old, fresh, err := s.afterOthers(ctx, foreign)
			if err != nil {
				return err
			}
			own := said(fresh.ledger, fresh.view)
			reply := own[1]
			if unique {
				own = own[:1] // it cannot have come up with that by itself
			}
			text, leaks, tells := leaked(said(old.ledger, old.view), own, fresh.view)
			if leaks {
				return s.broke(Leaked, fresh.ledger, "a new session's checkpoint holds what was said in another one: %q", text)
			}
			s.saw("a new session begins at turn 1, with %s", count(len(fresh.view.Messages), "message"))
			if err := s.sameBeginning(ctx, pristine, fresh, foreign, tells); err != nil {
				return err
			}
			s.saw("it said: %s", turn.Text(reply))
			return nil
		},
	}
}

// afterOthers sends inputs to one session, and then a first turn to another one.
func (s *scene) afterOthers(ctx context.Context, foreign []json.RawMessage) (old, fresh sample, err error) {
	old = sample{ledger: s.session()}
	for _, said := range foreign {
		if _, err := s.say(ctx, old.ledger, said); err != nil {
			return old, fresh, err
		}
	}
	if old.view, err = s.look(ctx, old.ledger); err != nil {
		return old, fresh, err
	}
	if fresh, err = s.begun(ctx); err != nil {
		return old, fresh, err
	}
	return old, fresh, s.unchanged(ctx, old.ledger, old.view, "a turn of another session")
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
func (s *scene) begun(ctx context.Context) (sample, error) {
	l := s.session()
	got, err := s.turn(ctx, l)
	if err != nil {
		return sample{}, err
	}
	view, err := s.look(ctx, l)
	if err == nil && (got.Turn != 1 || view.Turn != 1) {
		err = s.broke(Leaked, l, "the first turn of a new session was answered as turn %d, and its checkpoint is at turn %d", got.Turn, view.Turn)
	}
	return sample{l, view}, err
}

// sameBeginning compares what the same first turn left of two sessions: of one
// that its process served first, and of one that it served after others. An
// agent that leaves something else whenever it runs (the session's id, a time, a
// model's words) shows nothing. tells says whether the contents of the sessions
// alone would have shown a leak.
func (s *scene) sameBeginning(ctx context.Context, first, after sample, foreign []json.RawMessage, tells bool) error {
	p := pairs{calm: []sample{first}, upset: []sample{after}}
	otherState, otherTalk := p.differ(stateOf), p.differ(talkOf)
	if !otherState && !otherTalk {
		s.saw("its messages and state are those of a new process")
		return nil
	}
	inNewProcess := func(ctx context.Context, _ int) (sample, error) {
		if _, err := s.restart(ctx); err != nil {
			return sample{}, err
		}
		return s.begun(ctx)
	}
	afterOthers := func(ctx context.Context) (sample, error) {
		_, fresh, err := s.afterOthers(ctx, foreign)
		return fresh, err
	}
	err := s.repeat(ctx, &p, inNewProcess, afterOthers, func() bool {
		return otherState && p.differ(stateOf) || otherTalk && p.differ(talkOf)
	})
	if err != nil {
		return err
	}
	switch {
	case !otherState:
	case p.differ(stateOf):
		return s.repeated(Leaked, p, "the first turn of a new session left the state %s after turns of other sessions, and %s in a new process", brief(after.view.State), brief(first.view.State))
	default:
		s.saw("its state could not be compared: %s", p.unequal(stateOf))
	}
	switch {
	case !otherTalk:
	case p.differ(talkOf):
		return s.repeated(Leaked, p, "the messages of a new session are others after turns of other sessions than in a new process: %s", firstDifference(after.view, first.view))
	case !tells:
		return errors.New("nothing that was said in one session could be told apart in another, and its messages cannot be compared: " + p.unequal(talkOf) + "; give verify.inputs two texts that differ")
	default:
		s.saw("its messages could only be searched: %s", p.unequal(talkOf))
	}
	return nil
}

// unequal says why a difference of first turns shows nothing.
func (p pairs) unequal(of func(sample) string) string {
	if !p.alike(of) {
		return "equal turns in new processes leave unequal ones"
	}
	return "equal turns after other sessions leave unequal ones"
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
