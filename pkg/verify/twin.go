package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flisk-go/flisk/pkg/checkpoint"
)

// twin is an undisturbed session: it got the inputs of every session in their
// order, in one process, and nothing was killed or restarted meanwhile.
type twin struct {
	ledger *ledger
	views  []checkpoint.View // after each turn
}

// at is what it was after a turn, counted from 1; false when it is not that long.
func (t twin) at(turn int) (sample, bool) {
	if turn < 1 || turn > len(t.views) {
		return sample{}, false
	}
	at := sample{ledger: t.ledger, view: t.views[turn-1]}
	if turn > 1 {
		at.before = t.views[turn-2]
	}
	return at, true
}

// twin returns the undisturbed session of the run, and makes it when there is
// none yet, as the first session of its process. It must be asked for before the
// session that is compared with it begins.
func (s *scene) twin(ctx context.Context) (twin, error) {
	if s.calm != nil {
		return *s.calm, nil
	}
	if s.sent+s.result.Turns > 0 {
		if _, err := s.restart(ctx); err != nil {
			return twin{}, err
		}
	}
	t, err := s.undisturbed(ctx, s.longest)
	if err == nil {
		s.calm = &t
	}
	return t, err
}

// undisturbed makes an undisturbed session of so many turns.
func (s *scene) undisturbed(ctx context.Context, turns int) (twin, error) {
	t := twin{ledger: s.session()}
	for range turns {
		if _, err := s.turn(ctx, t.ledger); err != nil {
			return t, err
		}
		view, err := s.look(ctx, t.ledger)
		if err != nil {
			return t, err
		}
		t.views = append(t.views, view)
	}
	return t, nil
}

// likeTwin compares a session that was disturbed with the undisturbed one. What
// differs by chance shows nothing, and the check says so. kept says that every
// message was seen to stay as it was; by names what the session went through, and
// again makes another one that goes through the same.
func (s *scene) likeTwin(ctx context.Context, own sample, kept bool, by string, again func(context.Context) (sample, error)) error {
	first, err := s.twin(ctx)
	if err != nil {
		return err
	}
	turns := own.view.Turn
	other, ok := first.at(turns)
	if !ok {
		return fmt.Errorf("the session is at turn %d, and an undisturbed one has %s", turns, count(len(first.views), "turn"))
	}
	p := pairs{calm: []sample{other}, upset: []sample{own}}
	otherState, otherTalk := p.differ(stateOf), p.differ(talkOf)
	if !otherState && !otherTalk {
		s.saw("its messages and state are those of a session without %s", by)
		return nil
	}
	undisturbed := func(ctx context.Context, round int) (sample, error) {
		// Whatever a process has done before must show among these, too.
		if round%2 == 1 {
			if _, err := s.restart(ctx); err != nil {
				return sample{}, err
			}
		}
		t, err := s.undisturbed(ctx, turns)
		one, _ := t.at(turns)
		return one, err
	}
	err = s.repeat(ctx, &p, undisturbed, again, func() bool {
		return otherState && p.differ(stateOf) || otherTalk && (p.differ(talkOf) || !kept && p.lack() != "")
	})
	if err != nil {
		return err
	}
	switch {
	case !otherState:
	case p.differ(stateOf):
		return s.repeated(Lost, p, "after %s its state is %s, and without it %s", by, brief(own.view.State), brief(other.view.State))
	default:
		s.saw("its state could not be checked: %s", p.why(stateOf, by))
	}
	switch {
	case !otherTalk:
	case p.differ(talkOf):
		return s.repeated(Lost, p, "after %s its messages are not those of a session without it: %s", by, firstDifference(own.view, other.view))
	case kept:
		s.saw("every message stayed as it was")
	default:
		if what := p.lack(); what != "" {
			return s.repeated(Lost, p, "after %s %s, and without it it is", by, what)
		}
		s.saw("its own messages could not be checked: %s", p.why(talkOf, by))
	}
	return nil
}

// talkOf is a session's messages as JSON, each reply of a turn as its number
// alone: what an agent replied is not judged.
func talkOf(s sample) string {
	text, err := json.Marshal(withoutReplies(s.view))
	if err != nil {
		panic(err) // what was read as JSON is JSON
	}
	return string(text)
}

func stateOf(s sample) string { return string(s.view.State) }

func withoutReplies(view checkpoint.View) []checkpoint.Message {
	messages := slices.Clone(view.Messages)
	turns := committed(view)
	for i := range slices.Backward(messages) {
		for n := len(turns) - 1; n >= 0; n-- {
			if bytes.Equal(messages[i].Content, turns[n].Reply) && messages[i].Role != "user" {
				messages[i].Content = json.RawMessage(fmt.Sprint(turns[n].Number))
				turns = turns[:n]
				break
			}
		}
	}
	return messages
}

// firstDifference says where the messages of two sessions part.
func firstDifference(is, should checkpoint.View) string {
	a, b := withoutReplies(is), withoutReplies(should)
	for i := range min(len(a), len(b)) {
		if !sameMessage(a[i], b[i]) {
			return fmt.Sprintf("message %d is %s and should be %s", i+1, inWords(a[i], is.Messages[i]), inWords(b[i], should.Messages[i]))
		}
	}
	return fmt.Sprintf("it has %s and should have %d", count(len(a), "message"), len(b))
}

// inWords is a message, of which one without its reply is known.
func inWords(without, message checkpoint.Message) string {
	if sameMessage(without, message) {
		return brief(message.Content)
	}
	return "the reply of turn " + string(without.Content)
}
