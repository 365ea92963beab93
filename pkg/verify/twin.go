package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flisk-go/flisk/pkg/checkpoint"
)

// twins is how many undisturbed sessions there are at most: one to compare with,
// and another one to know what of it is the same every time.
const twins = 2

// twin is an undisturbed session: it got the inputs of every session in their
// order, in one process, and nothing was killed or restarted meanwhile.
type twin struct {
	ledger *ledger
	views  []checkpoint.View // after each turn
}

// at is what it was after a turn, counted from 1; false when it is not that long.
func (t twin) at(turn int) (checkpoint.View, bool) {
	if turn < 1 || turn > len(t.views) {
		return checkpoint.View{}, false
	}
	return t.views[turn-1], true
}

// twin returns the i-th undisturbed session, and makes it when there is none
// yet. The first one must be asked for before the session that is compared with
// it begins: what changes with time only, and is the same before and after, was
// the same in between.
func (s *scene) twin(ctx context.Context, i int) (twin, error) {
	for len(s.twins) <= i {
		t := twin{ledger: s.session()}
		for range s.longest {
			if _, err := s.turn(ctx, t.ledger); err != nil {
				return t, err
			}
			view, err := s.look(ctx, t.ledger)
			if err != nil {
				return t, err
			}
			t.views = append(t.views, view)
		}
		s.twins = append(s.twins, t)
	}
	return s.twins[i], nil
}

// likeTwin compares a session that was disturbed with an undisturbed one. What
// two undisturbed ones do not have in common shows nothing, and the check says
// so. kept says that every message was seen to stay as it was; by names what the
// session went through.
func (s *scene) likeTwin(ctx context.Context, l *ledger, view checkpoint.View, kept bool, by string) error {
	first, err := s.twin(ctx, 0)
	if err != nil {
		return err
	}
	one, ok := first.at(view.Turn)
	if !ok {
		return fmt.Errorf("the session is at turn %d, and an undisturbed one has %s", view.Turn, count(len(first.views), "turn"))
	}
	sameTalk, sameState := bytes.Equal(talk(one), talk(view)), bytes.Equal(one.State, view.State)
	if sameTalk && sameState {
		s.saw("its messages and state are those of a session without %s", by)
		return nil
	}
	second, err := s.twin(ctx, 1)
	if err != nil {
		return err
	}
	two, _ := second.at(view.Turn) // as long as the first
	switch {
	case sameState:
	case bytes.Equal(one.State, two.State):
		return s.broke(Lost, l, "after %s its state is %s, and without it %s", by, brief(view.State), brief(one.State))
	default:
		s.saw("its state could not be checked: it differs already between two sessions without %s", by)
	}
	switch {
	case sameTalk:
	case bytes.Equal(talk(one), talk(two)):
		return s.broke(Lost, l, "after %s its messages are not those of a session without it: %s", by, firstDifference(view, one))
	case kept:
		s.saw("every message stayed as it was")
	default:
		if what := s.saidOnlyIn(l, view, first, second); what != "" {
			return s.broke(Lost, l, "after %s %s, and without it it is", by, what)
		}
		s.saw("its own messages could not be checked: they differ already between two sessions without %s", by)
	}
	return nil
}

// saidOnlyIn is what both undisturbed sessions have among their messages and
// this one has not; "" when there is nothing.
func (s *scene) saidOnlyIn(l *ledger, view checkpoint.View, twins ...twin) string {
	for _, i := range gone(view.Messages, said(l, view)) {
		also := slices.ContainsFunc(twins, func(t twin) bool {
			other, _ := t.at(view.Turn)
			return slices.Contains(gone(other.Messages, said(t.ledger, other)), i)
		})
		if !also {
			return fmt.Sprintf("the %s of turn %d is not among its messages", []string{"input", "reply"}[i%2], i/2+1)
		}
	}
	return ""
}

// talk is a session's messages as JSON, each reply of a turn as its number
// alone: what an agent replied is not judged.
func talk(view checkpoint.View) []byte {
	text, err := json.Marshal(withoutReplies(view))
	if err != nil {
		panic(err) // what was read as JSON is JSON
	}
	return text
}

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
