package verify

import (
	"bytes"
	"context"
	"encoding/json"
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
		How:     "two turns in one session, then one in another; its state is compared with a new process's",
		Turns:   4 + 1, // the fifth only when states differ
		run: func(ctx context.Context, s *scene) error {
			if _, err := s.restart(ctx); err != nil {
				return err
			}
			input := s.input()
			pristine, err := s.begun(ctx, input)
			if err != nil {
				return err
			}
			old, fresh := s.session(), s.session()
			for range 2 {
				if _, err := s.turn(ctx, old); err != nil {
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
			if text, ok := leaked(said(old, before), said(fresh, view), view); ok {
				return s.broke(Leaked, fresh, "a new session's checkpoint holds what was said in another one: %q", text)
			}
			if err := s.unchanged(ctx, old, before, "a turn of another session"); err != nil {
				return err
			}
			s.saw("a new session begins at turn 1, with %s", count(len(view.Messages), "message"))
			if err := s.sameState(ctx, fresh, input, pristine.State, view.State); err != nil {
				return err
			}
			s.saw("it said: %s", turn.Text(got.Reply))
			return nil
		},
	}
}

// begun begins a session, and returns what its first turn left.
func (s *scene) begun(ctx context.Context, input json.RawMessage) (checkpoint.View, error) {
	l := s.session()
	if _, err := s.say(ctx, l, input); err != nil {
		return checkpoint.View{}, err
	}
	return s.look(ctx, l)
}

// sameState compares what the same first turn left of two sessions: of one that
// its process served first, and of one that it served after others. An agent
// that leaves another state whenever it runs (the session's id in it, a time, a
// model's words) shows nothing. It is told by a second new process, later than
// both: what only changes with time, and is the same in the first and the last
// of three, was the same in the middle.
func (s *scene) sameState(ctx context.Context, l *ledger, input, first, after json.RawMessage) error {
	if bytes.Equal(first, after) {
		s.saw("its state is that of a new process")
		return nil
	}
	if _, err := s.restart(ctx); err != nil {
		return err
	}
	again, err := s.begun(ctx, input)
	if err != nil {
		return err
	}
	if !bytes.Equal(first, again.State) {
		s.saw("its state is not compared: equal turns in new processes leave unequal states")
		return nil
	}
	return s.broke(Leaked, l, "the first turn of a new session left the state %s after turns of other sessions, and %s in a new process", brief(after), brief(first))
}

// leaked finds what was said in one session in the checkpoint of another. Only a
// text tells the two apart that is not part of what the other was told or
// replied itself, and that is long enough not to be there by chance.
func leaked(foreign, own []json.RawMessage, view checkpoint.View) (string, bool) {
	const telling = 6 // characters
	var mine []string
	for _, said := range own {
		mine = append(mine, texts(said)...)
	}
	holds := func(in []string, text string) bool {
		return slices.ContainsFunc(in, func(s string) bool { return strings.Contains(s, text) })
	}
	held := texts(view.State)
	for _, m := range view.Messages {
		held = append(held, texts(m.Content)...)
	}
	for _, said := range foreign {
		for _, text := range texts(said) {
			if len(text) >= telling && !holds(mine, text) && holds(held, text) {
				return text, true
			}
		}
	}
	return "", false
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
