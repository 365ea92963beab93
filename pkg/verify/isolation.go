package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// amongTurns are those that amongOthers sends.
const amongTurns = 2 + 2 + 1

// isolation looks for anything of one session in another: of older ones in a new
// one, and of a newer one in one that goes on.
func isolation() Check {
	return Check{
		Name:        "isolation",
		Promise:     "a new session starts fresh",
		How:         "a session after two turns of another one, and again after a turn of a third one; compared with a session that has a process to itself",
		Turns:       amongTurns,
		Undisturbed: 2,
		Again:       2 + amongTurns,
		run: func(ctx context.Context, s *scene) error {
			first, err := s.twin(ctx)
			if err != nil {
				return err
			}
			alone, _ := first.at(2)
			foreign, mark := s.foreign()
			met, err := s.amongOthers(ctx, foreign)
			if err != nil {
				return err
			}
			found, tells := met.leaked(alone, mark)
			var suspect error
			if found != "" && mark == "" {
				if found, suspect, err = s.confirm(ctx, alone, found); err != nil {
					return err
				}
			}
			if found != "" {
				return s.broke(Leaked, met.own.ledger, "a session's checkpoint holds what was said in another one: %q", found)
			}
			s.saw("a new session begins at turn 1, with %s", count(len(met.own.before.Messages), "message"))
			if err := s.likeAlone(ctx, alone, met.own, foreign, tells, suspect); err != nil {
				return err
			}
			s.saw("it said (not judged): %s", turn.Text(met.said[1]))
			return nil
		},
	}
}

// encounter is a session of two turns that met others: one that had its turns
// before it, and one that had its turn between those two. It has what was said in
// each, input and reply in turn.
type encounter struct {
	own                  sample
	said, older, between []json.RawMessage
}

// amongOthers makes an encounter in a new process, which has nothing in store for
// the inputs of the session, such as an answer that it gave before.
func (s *scene) amongOthers(ctx context.Context, foreign []json.RawMessage) (met encounter, err error) {
	if _, err := s.restart(ctx); err != nil {
		return met, err
	}
	older, err := s.told(ctx, foreign)
	if err != nil {
		return met, err
	}
	own, err := s.told(ctx, []json.RawMessage{s.input(1)})
	if err != nil {
		return met, err
	}
	between, err := s.told(ctx, foreign[:1])
	if err != nil {
		return met, err
	}
	for _, other := range []sample{older, own} {
		if err := s.unchanged(ctx, other.ledger, other.view, "a turn of another session"); err != nil {
			return met, err
		}
	}
	own.before = own.view
	if _, err := s.turn(ctx, own.ledger); err != nil {
		return met, err
	}
	if own.view, err = s.look(ctx, own.ledger); err != nil {
		return met, err
	}
	if what, _ := grown(own.before, own.view, own.ledger.lastKey()); what != "" {
		return met, s.broke(Lost, own.ledger, "its turn after one of another session changed the checkpoint: %s", what)
	}
	for _, other := range []sample{older, between} {
		if err := s.unchanged(ctx, other.ledger, other.view, "a turn of another session"); err != nil {
			return met, err
		}
	}
	return encounter{own, said(own.ledger, own.view), said(older.ledger, older.view), said(between.ledger, between.view)}, nil
}

// told begins a session with these inputs.
func (s *scene) told(ctx context.Context, inputs []json.RawMessage) (sample, error) {
	begun := sample{ledger: s.session()}
	for i, in := range inputs {
		got, err := s.say(ctx, begun.ledger, in)
		if err != nil {
			return begun, err
		}
		if got.Turn != i+1 {
			return begun, s.broke(Leaked, begun.ledger, "turn %d of a new session was answered as turn %d", i+1, got.Turn)
		}
	}
	var err error
	begun.view, err = s.look(ctx, begun.ledger)
	return begun, err
}

// foreign are two inputs for other sessions than the one that is looked at: what
// tells them apart from what that one is told can be looked for in it. When the
// agent has no such inputs, a text that is like no other one is added to one, if
// it is a text; mark is that text.
func (s *scene) foreign() (inputs []json.RawMessage, mark string) {
	first, both := texts(s.input(1)), append(texts(s.input(1)), texts(s.input(2))...)
	for _, own := range [][]string{both, first} {
		for _, in := range s.Inputs {
			if len(telling(texts(in), own)) > 0 {
				inputs = append(inputs, in)
			}
		}
		if len(inputs) > 0 {
			return []json.RawMessage{inputs[0], inputs[1%len(inputs)]}, ""
		}
	}
	if inputs, mark = s.marked(); mark == "" {
		inputs = []json.RawMessage{s.input(2), s.input(2)}
	}
	return inputs, mark
}

// marked are inputs with a text that is like no other one; mark is that, or ""
// when the agent has no text.
func (s *scene) marked() (inputs []json.RawMessage, mark string) {
	var text string
	if json.Unmarshal(s.input(2), &text) != nil {
		return nil, ""
	}
	mark = fmt.Sprintf("%08x", s.lot.Uint32()) // short: an agent may take no more
	said, err := json.Marshal(text + " " + mark)
	if err != nil {
		panic(err) // a string
	}
	return []json.RawMessage{said, said}, mark
}

// leaked finds what was said in another session in the checkpoint of the one that
// met it. Only a text tells the two apart that is not part of what that one was
// told or replied itself, and that is long enough not to be there by chance;
// tells says whether there is one. A text that a session holds as well that has a
// process to itself is the agent's own. With a mark only that counts.
func (e encounter) leaked(alone sample, mark string) (text string, tells bool) {
	for _, look := range []struct {
		foreign, own []json.RawMessage
		held, alone  checkpoint.View
	}{
		{e.older, e.said[:2], e.own.before, alone.before},
		{slices.Concat(e.older, e.between), e.said, e.own.view, alone.view},
	} {
		apart := []string{mark}
		if mark == "" {
			apart = telling(textsOf(look.foreign), textsOf(look.own))
		}
		tells = tells || len(apart) > 0
		held, own := heldIn(look.held), heldIn(look.alone)
		i := slices.IndexFunc(apart, func(text string) bool { return contains(held, text) && !contains(own, text) })
		if i >= 0 {
			return apart[i], true
		}
	}
	return "", tells
}

// confirm finds out whether a text that was said in another session came from
// there: an agent may come up with the same words. It meets others again, which
// say what nobody comes up with. found is "" when none of that is there. suspect
// says why it could not be found out.
func (s *scene) confirm(ctx context.Context, alone sample, text string) (found string, suspect, err error) {
	open := func(why string) error {
		return fmt.Errorf("a session's checkpoint holds what was said in another one, %q, and whether it comes from there is open: %s", text, why)
	}
	inputs, mark := s.marked()
	if mark == "" {
		return "", open("verify.inputs has no text to which something can be added"), nil
	}
	if err := s.allow(amongTurns); err != nil {
		return "", open(err.Error()), nil
	}
	met, err := s.amongOthers(ctx, inputs)
	switch {
	case errors.Is(err, errBroken), ctx.Err() != nil:
		return "", nil, err
	case err != nil: // it takes no input but those that it knows
		return "", open(err.Error()), nil
	}
	if found, _ := met.leaked(alone, mark); found != "" {
		return text, nil, nil
	}
	s.saw("it holds %q, as another one, and by itself: what nobody comes up with was not taken over", text)
	return "", nil, nil
}

// aspect is something in which a session that met others is compared with one
// that did not.
type aspect struct {
	of    func(sample) string
	turn  int
	state bool // or its messages
}

// aspects are the state and the messages after each of the two turns.
func aspects() []aspect {
	early := func(of func(sample) string) func(sample) string {
		return func(s sample) string { return of(sample{ledger: s.ledger, view: s.before}) }
	}
	return []aspect{{early(stateOf), 1, true}, {early(talkOf), 1, false}, {stateOf, 2, true}, {talkOf, 2, false}}
}

// difference says how the first two sessions differ in it.
func (a aspect) difference(p pairs) string {
	is, should := p.upset[0].view, p.calm[0].view
	if a.turn == 1 {
		is, should = p.upset[0].before, p.calm[0].before
	}
	if a.state {
		return fmt.Sprintf("after turn %d a session that met others has the state %s, and one that has a process to itself %s", a.turn, brief(is.State), brief(should.State))
	}
	return fmt.Sprintf("after turn %d the messages of a session that met others are not those of one that has a process to itself: %s", a.turn, firstDifference(is, should))
}

// likeAlone compares a session that met others with one of the same inputs that
// had its process to itself. An agent that leaves something else whenever it runs
// (the session's id, a time, a model's words) shows nothing. tells says whether
// the contents of the sessions alone would have shown a leak, and suspect, when
// it is not nil, that they may have.
func (s *scene) likeAlone(ctx context.Context, alone, own sample, foreign []json.RawMessage, tells bool, suspect error) error {
	p := pairs{calm: []sample{alone}, upset: []sample{own}}
	differ := func(a aspect) bool { return p.differ(a.of) }
	differed := slices.DeleteFunc(aspects(), func(a aspect) bool { return !differ(a) })
	if len(differed) == 0 {
		s.saw("its messages and state are those of a session that has a process to itself")
		return suspect
	}
	byItself := func(ctx context.Context, _ int) (sample, error) {
		if _, err := s.restart(ctx); err != nil {
			return sample{}, err
		}
		t, err := s.undisturbed(ctx, alone.view.Turn)
		one, _ := t.at(alone.view.Turn)
		return one, err
	}
	amongOthers := func(ctx context.Context) (sample, error) {
		met, err := s.amongOthers(ctx, foreign)
		return met.own, err
	}
	if err := s.repeat(ctx, &p, byItself, amongOthers, func() bool { return slices.ContainsFunc(differed, differ) }); err != nil {
		return err
	}
	if i := slices.IndexFunc(differed, differ); i >= 0 {
		return s.repeated(Leaked, p, "%s", differed[i].difference(p))
	}
	if suspect != nil {
		return suspect
	}
	for _, state := range []bool{true, false} {
		i := slices.IndexFunc(differed, func(a aspect) bool { return a.state == state })
		switch {
		case i < 0:
		case state:
			s.saw("its state could not be compared: %s", p.unequal(differed[i].of))
		case !tells:
			return errors.New("nothing that was said in one session could be told apart in another, and its messages cannot be compared: " + p.unequal(differed[i].of) + "; give verify.inputs two texts that differ")
		default:
			s.saw("its messages could only be searched: %s", p.unequal(differed[i].of))
		}
	}
	return nil
}

// unequal says why a difference shows nothing.
func (p pairs) unequal(of func(sample) string) string {
	if !p.alike(of) {
		return "equal turns in new processes leave unequal ones"
	}
	return "equal turns among other sessions leave unequal ones"
}

// telling are the texts that are part of none of the others, and long enough to
// mean something.
func telling(texts, others []string) []string {
	const enough = 6 // characters
	var out []string
	for _, text := range texts {
		if utf8.RuneCountInString(text) >= enough && !contains(others, text) {
			out = append(out, text)
		}
	}
	return out
}

func contains(in []string, text string) bool {
	return slices.ContainsFunc(in, func(s string) bool { return strings.Contains(s, text) })
}

// heldIn are the strings in the state and the messages of a session.
func heldIn(view checkpoint.View) []string {
	held := texts(view.State)
	for _, m := range view.Messages {
		held = append(held, texts(m.Content)...)
	}
	return held
}

func textsOf(values []json.RawMessage) []string {
	var all []string
	for _, v := range values {
		all = append(all, texts(v)...)
	}
	return all
}

// texts are the strings in a JSON value, and the names in its objects.
func texts(value json.RawMessage) []string {
	v, err := decode(value)
	if err != nil {
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
			for name, e := range v {
				out = append(out, name)
				walk(e)
			}
		}
	}
	walk(v)
	return out
}
