package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// judge compares a session on the volume with what its client knows, and returns
// every way in which they contradict each other.
func (l *ledger) judge(view checkpoint.View) []Finding {
	var out []Finding
	wrong := func(kind Kind, format string, args ...any) {
		out = append(out, Finding{kind, fmt.Sprintf(format, args...), l.session})
	}
	known := l.byKey()
	saved := committed(view)
	at := map[string][]int{} // the numbers of a key's turns
	for i, t := range saved {
		if t.Number != i+1 {
			wrong(Forked, "turn %d of the checkpoint says that it is turn %d", i+1, t.Number)
		}
		if _, ok := known[t.Key]; !ok {
			wrong(Leaked, "turn %d has the key %q, under which nothing was sent to this session", t.Number, t.Key)
		}
		at[t.Key] = append(at[t.Key], t.Number)
	}
	if view.Turn != len(saved) {
		wrong(Forked, "the checkpoint is at turn %d and has %s", view.Turn, count(len(saved), "committed turn"))
	}
	for _, key := range l.keys() {
		a, numbers := known[key], at[key]
		if len(numbers) > 1 {
			wrong(Doubled, "the turn with key %q is saved %d times, as turns %v", key, len(numbers), numbers)
		}
		for _, r := range a.results {
			switch i := slices.IndexFunc(saved, func(t checkpoint.Turn) bool { return t.ID == r.TurnID && t.Key == key }); {
			case len(numbers) == 0:
				wrong(Lost, "turn %d was answered and is not in the checkpoint, which is at turn %d", r.Turn, view.Turn)
			case i < 0 || saved[i].Number != r.Turn:
				wrong(Forked, "the turn that was answered as number %d (%s) is saved as number %d", r.Turn, r.TurnID, numbers[0])
			case !bytes.Equal(saved[i].Reply, r.Reply):
				wrong(Torn, "turn %d was answered with %s and is saved with %s", r.Turn, brief(r.Reply), brief(saved[i].Reply))
			}
		}
		if len(a.results) == 0 && !a.open && len(numbers) > 0 {
			wrong(Doubled, "turn %d is saved, and its client was told that it is not", numbers[0])
		}
	}
	if len(out) > 0 || len(saved) == 0 {
		return out
	}
	if what := tornMessages(view.Messages, said(l, view)); what != "" {
		wrong(Torn, "turn %d is committed, and %s", len(saved), what)
	}
	return out
}

// keys are those of the attempts, in the order in which they were made.
func (l *ledger) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []string
	for _, a := range l.attempts {
		keys = append(keys, a.key)
	}
	return keys
}

// committed are the turns that count, in the order of the file.
func committed(view checkpoint.View) []checkpoint.Turn {
	return slices.DeleteFunc(slices.Clone(view.Turns), func(t checkpoint.Turn) bool { return t.State != turn.Committed })
}

// said is what was said in a session: input and reply of each committed turn.
func said(l *ledger, view checkpoint.View) []json.RawMessage {
	known := l.byKey()
	var all []json.RawMessage
	for _, t := range committed(view) {
		all = append(all, known[t.Key].input, t.Reply)
	}
	return all
}

// tornMessages says what the messages lack of the last turn. A commit ends in
// the reply, and has the input before it.
func tornMessages(messages []checkpoint.Message, said []json.RawMessage) string {
	reply := said[len(said)-1]
	switch {
	case len(messages) == 0:
		return "there are no messages"
	case !bytes.Equal(messages[len(messages)-1].Content, reply):
		return "the last message is " + brief(messages[len(messages)-1].Content) + " and not its reply"
	case missing(messages, said) > len(said)-2:
		return "its input is not among the messages"
	}
	return ""
}

// missing is how much of what was said is not in the messages, counted from the
// beginning. An agent's code may leave out what is old, and add its own.
func missing(messages []checkpoint.Message, said []json.RawMessage) int {
	left := len(said)
	for _, m := range slices.Backward(messages) {
		if left > 0 && sameValue(m.Content, said[left-1]) {
			left--
		}
	}
	return left
}

// gone are the parts of what was said that are not among the messages, by their
// places.
func gone(messages []checkpoint.Message, said []json.RawMessage) []int {
	var out []int
	left := messages
	for i, part := range slices.Backward(said) {
		at := len(left) - 1
		for at >= 0 && !sameValue(left[at].Content, part) {
			at--
		}
		if at < 0 {
			out = append(out, i)
		} else {
			left = left[:at]
		}
	}
	slices.Reverse(out)
	return out
}

// grown compares two looks at a session between which one turn was in flight,
// under a key, and nothing else happened. It says what of the earlier look is
// not as it was, "" when all is; and whether every message is, which an agent's
// code may change when a turn of it is committed.
func grown(before, after checkpoint.View, key string) (what string, kept bool) {
	a, b := committed(before), committed(after)
	switch {
	case len(b) < len(a), !slices.EqualFunc(a, b[:len(a)], sameTurn):
		return "the turns before it are not as they were", false
	case len(b) == len(a):
		return difference(before, after), true
	case len(b) > len(a)+1, b[len(a)].Key != key:
		return fmt.Sprintf("%s were added, and one was in flight", count(len(b)-len(a), "turn")), false
	}
	n := len(before.Messages)
	return "", len(after.Messages) >= n && slices.EqualFunc(before.Messages, after.Messages[:n], sameMessage)
}

// difference says what is not the same in two looks at a session between which
// no turn ran; "" when all is.
func difference(before, after checkpoint.View) string {
	a, b := committed(before), committed(after)
	switch {
	case before.Turn != after.Turn:
		return fmt.Sprintf("it was at turn %d and is at turn %d", before.Turn, after.Turn)
	case !slices.EqualFunc(a, b, sameTurn):
		return "its turns are others than before"
	case !slices.EqualFunc(before.Messages, after.Messages, sameMessage):
		return fmt.Sprintf("it had %s and has %d that differ", count(len(before.Messages), "message"), len(after.Messages))
	case !bytes.Equal(before.State, after.State):
		return "its state was " + brief(before.State) + " and is " + brief(after.State)
	}
	return ""
}

func sameMessage(a, b checkpoint.Message) bool {
	return a.Role == b.Role && bytes.Equal(a.Content, b.Content)
}

// sameTurn compares what a client may rely on; that a reply was delivered may be
// noted late.
func sameTurn(a, b checkpoint.Turn) bool {
	return a.ID == b.ID && a.Number == b.Number && a.Key == b.Key && a.InputHash == b.InputHash && bytes.Equal(a.Reply, b.Reply)
}

// sameValue reports whether two JSON values mean the same, however they are
// written: an agent may store an input in another way than it was sent in.
// Numbers are compared by their text, so that none is rounded into another one.
func sameValue(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	va, errA := decode(a)
	vb, errB := decode(b)
	return errA == nil && errB == nil && reflect.DeepEqual(va, vb)
}

// decode reads a JSON value, with its numbers as text.
func decode(value json.RawMessage) (v any, err error) {
	from := json.NewDecoder(bytes.NewReader(value))
	from.UseNumber()
	return v, from.Decode(&v)
}

// brief is a JSON value as a part of a sentence.
func brief(value json.RawMessage) string {
	const most = 80
	text := []rune(string(value))
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	if len(text) == 0 {
		return "nothing"
	}
	return string(text)
}
