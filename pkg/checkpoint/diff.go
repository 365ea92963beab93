package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// maxRefRole bounds the role of a message that refers to an input or a reply:
// a snapshot may have to write the same message out, and must find room.
const maxRefRole = 64

// prepare works out what a commit of the open turn has to say. The cost is that
// of what is new, when the conversation before it is kept whole.
func (s *state) prepare(c Commit) (commit, error) {
	t := s.turns[s.open]
	out := commit{Turn: t.Number, TurnID: t.ID, Key: t.Key, Hash: t.InputHash}
	var err error
	if out.Reply, err = oneLine("the reply", c.Reply); err != nil {
		return commit{}, err
	}
	if c.State != nil && !bytes.Equal(c.State, s.value) {
		if out.State, err = oneLine("the state", c.State); err != nil {
			return commit{}, err
		}
	}
	d := differ{old: s.messages, parts: [2][]Message{c.Messages, c.Add}, input: s.input, reply: c.Reply}
	out.Keep = d.prefix()
	if out.Add, err = d.rest(out.Keep); err != nil {
		return commit{}, err
	}
	if talk := s.talkAfter(out); talk > MaxConversation && talk > s.talk {
		return commit{}, fmt.Errorf("%w: the conversation takes %d bytes, at most %d are allowed", ErrTooLarge, talk, MaxConversation)
	}
	return out, nil
}

// talkAfter is what the conversation will take after a commit. A few references
// can make a great deal of it, and all of that has to be written when the file
// is.
func (s *state) talkAfter(c commit) int64 {
	talk := s.talk
	for _, m := range s.messages[c.Keep:] {
		talk -= messageSize(m)
	}
	for _, m := range c.Add {
		switch m.Ref {
		case refInput:
			talk += messageSize(Message{Content: s.input})
		case refReply:
			talk += messageSize(Message{Content: c.Reply})
		case refOld:
			for _, old := range s.messages[m.From : m.From+m.Count] {
				talk += messageSize(old)
			}
		default:
			talk += messageSize(Message{Content: m.Content})
		}
	}
	return talk
}

// rebuild is what prepare took apart: the conversation after a commit.
func (s *state) rebuild(c commit) ([]Message, error) {
	old := s.messages
	if c.Keep < 0 || c.Keep > len(old) {
		return nil, fmt.Errorf("it keeps %d of %d messages", c.Keep, len(old))
	}
	out := old
	if c.Keep < len(old) {
		// Whoever has the old conversation must not see it overwritten.
		out = make([]Message, c.Keep, c.Keep+len(c.Add)+16)
		copy(out, old)
		for _, m := range old[c.Keep:] {
			s.talk -= messageSize(m)
		}
	}
	for _, m := range c.Add {
		content := m.Content
		switch m.Ref {
		case "":
		case refInput:
			content = s.input
		case refReply:
			content = c.Reply
		case refOld:
			if m.From < 0 || m.Count < 1 || m.From > len(old)-m.Count {
				return nil, fmt.Errorf("it refers to messages %d to %d of %d", m.From, m.From+m.Count, len(old))
			}
			for _, o := range old[m.From : m.From+m.Count] {
				out = append(out, o)
				s.talk += messageSize(o)
			}
			continue
		default:
			return nil, fmt.Errorf("it refers to %q", m.Ref)
		}
		if len(content) == 0 {
			return nil, errors.New("it adds a message without content")
		}
		added := Message{Role: m.Role, Content: content}
		out = append(out, added)
		s.talk += messageSize(added)
	}
	return out, nil
}

// differ finds the messages of a new conversation in the old one.
type differ struct {
	old          []Message
	parts        [2][]Message // the new conversation
	input, reply json.RawMessage

	places map[string][]int // where a message is in old; made when it is needed
}

func (d *differ) len() int { return len(d.parts[0]) + len(d.parts[1]) }

func (d *differ) at(i int) Message {
	if i < len(d.parts[0]) {
		return d.parts[0][i]
	}
	return d.parts[1][i-len(d.parts[0])]
}

// prefix is how many messages stay at the beginning.
func (d *differ) prefix() int {
	if start, ok := d.reslice(); ok && start == 0 {
		return len(d.parts[0]) // the very slice that was handed out
	}
	return d.run(0, 0)
}

// reslice finds where in old's own array the new conversation begins.
func (d *differ) reslice() (start int, ok bool) {
	if len(d.parts[0]) == 0 {
		return 0, false
	}
	first := unsafe.SliceData(d.parts[0])
	for i := range d.old {
		if &d.old[i] == first {
			return i, i+len(d.parts[0]) <= len(d.old)
		}
	}
	return 0, false
}

// run is how many messages from old[from] and the new i on are equal.
func (d *differ) run(from, i int) int {
	n := 0
	for from+n < len(d.old) && i+n < d.len() && sameMessage(d.old[from+n], d.at(i+n)) {
		n++
	}
	return n
}

// rest says what follows the first keep messages.
func (d *differ) rest(keep int) ([]stored, error) {
	add := make([]stored, 0, 2)
	for i := keep; i < d.len(); {
		if from, n := d.find(i, keep); n > 0 {
			add = append(add, stored{Ref: refOld, From: from, Count: n})
			i += n
			continue
		}
		m, err := d.store(i)
		if err != nil {
			return nil, err
		}
		add = append(add, m)
		i++
	}
	return add, nil
}

// store says what a message is that is not in the old conversation.
func (d *differ) store(i int) (stored, error) {
	m := d.at(i)
	m.Role = strings.ToValidUTF8(m.Role, "\uFFFD") // as JSON will have it
	if len(m.Role) <= maxRefRole {
		switch {
		case bytes.Equal(m.Content, d.reply):
			return stored{Role: m.Role, Ref: refReply}, nil
		case bytes.Equal(m.Content, d.input):
			return stored{Role: m.Role, Ref: refInput}, nil
		}
	}
	content, err := oneLine(fmt.Sprintf("message %d", i+1), m.Content)
	return stored{Role: m.Role, Content: content}, err
}

// find looks for the longest of some runs of old messages that the new ones go
// on with from i. A run must be worth the reference.
func (d *differ) find(i, keep int) (from, n int) {
	if keep == len(d.old) {
		return 0, 0 // nothing was taken out, so nothing comes back
	}
	if start, ok := d.reslice(); ok && i < len(d.parts[0]) {
		return start + i, len(d.parts[0]) - i
	}
	if d.places == nil {
		d.places = make(map[string][]int, len(d.old))
		for j, m := range d.old {
			d.places[messageKey(m)] = append(d.places[messageKey(m)], j)
		}
	}
	const tries = 8 // a conversation of a thousand equal messages must not cost a million comparisons
	places := d.places[messageKey(d.at(i))]
	for _, j := range places[max(0, len(places)-tries):] {
		if r := d.run(j, i); r > n {
			from, n = j, r
		}
	}
	const reference = 40 // bytes that a reference takes
	if n == 1 && len(d.at(i).Content) < reference {
		return 0, 0
	}
	return from, n
}

func messageKey(m Message) string { return m.Role + "\x00" + string(m.Content) }

// sameMessage compares the addresses of the contents first: an agent that left
// a message alone still has the bytes that it was given.
func sameMessage(a, b Message) bool {
	if a.Role != b.Role || len(a.Content) != len(b.Content) {
		return false
	}
	return unsafe.SliceData(a.Content) == unsafe.SliceData(b.Content) || bytes.Equal(a.Content, b.Content)
}
