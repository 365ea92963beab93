package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Reasons of turns that failed without runTurn saying so.
const (
	reasonGone       = "its process ended before the turn did"
	reasonSuperseded = "its process ended before the turn did, and a later turn took its place"
)

// state is what the lines of one session add up to. It knows nothing of files:
// the file store and the memory store put the same payloads into it. A state is
// for one goroutine.
type state struct {
	session  string
	messages []Message       // handed out with its capacity cut off, so appending in place is seen by nobody
	value    json.RawMessage // the agent's state; nil until a turn set it
	turns    []Turn          // in file order
	byKey    map[string]int  // the newest turn with a key
	size     int64           // rough bytes of turns and value
	talk     int64           // rough bytes of messages

	committed int // number of the last committed turn
	newest    int // its index in turns; -1 when there is none

	open  int // index of the turn that was begun and has not ended; -1 when there is none
	openN uint64
	input json.RawMessage
	owner string // the replica that took it up last; "" when it was given back

	partial bool // the rest of a snapshot is still to come

	attached      any // what a holder keeps here; it is not part of the session
	attachedBytes int64
}

func newState(session string) *state {
	return &state{session: session, byKey: map[string]int{}, newest: -1, open: -1}
}

// checkpoint is the state as it is handed out.
func (s *state) checkpoint() Checkpoint {
	n := len(s.messages)
	return Checkpoint{Session: s.session, Turn: s.committed, Messages: s.messages[:n:n], State: s.value}
}

// turn returns a turn as its reader sees it. The one that is open runs only if
// alive says so.
func (s *state) turn(i int, alive bool) Turn {
	t := s.turns[i]
	if i == s.open && !alive {
		t.State, t.Reason = turn.Failed, reasonGone
	}
	return t
}

func (s *state) findID(id string) (int, bool) {
	for i := len(s.turns) - 1; i >= 0; i-- {
		if s.turns[i].ID == id {
			return i, true
		}
	}
	return 0, false
}

// start is the begin of the next turn, which gets its id from line n of the
// file that has the given name.
func (s *state) start(name string, n uint64, b Begin) (begin, error) {
	if b.Key != "" {
		if err := turn.CheckKey(b.Key); err != nil {
			return begin{}, err
		}
	}
	if !utf8.ValidString(b.InputHash) {
		return begin{}, errors.New("the input hash is not text")
	}
	input, err := oneLine("the input", b.Input)
	return begin{Turn: s.committed + 1, TurnID: name + "-" + strconv.FormatUint(n, 10), Key: b.Key, Hash: b.InputHash, Input: input}, err
}

// fail is the end of the open turn with runTurn's own error, of which the file
// keeps the beginning.
func (s *state) fail(reason string) ended {
	const maxReason = 1 << 10
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	return ended{as: kindFailed, TurnID: s.turns[s.open].ID, Reason: reason}
}

// apply adds one line. An error means that the lines cannot have been written
// in this order; the state is then of no use.
func (s *state) apply(n uint64, p payload) error {
	if _, ok := p.(snapshot); s.partial && !ok {
		return fmt.Errorf("a %s line interrupts a snapshot", p.kind())
	}
	switch p := p.(type) {
	case snapshot:
		return s.applySnapshot(p)
	case begin:
		return s.applyBegin(n, p)
	case attempt:
		if s.open < 0 {
			return errors.New("an attempt at no turn")
		}
		s.owner = p.Replica
		return nil
	case commit:
		return s.applyCommit(p)
	case ended:
		return s.applyEnd(p)
	case note:
		if p.as == kindDelivered {
			if s.newest < 0 {
				return errors.New("no turn could be delivered")
			}
			s.turns[s.newest].Delivered = true
		}
		return nil
	}
	return fmt.Errorf("a second %s line", p.kind())
}

func (s *state) applyBegin(n uint64, b begin) error {
	if b.Turn != s.committed+1 {
		return fmt.Errorf("turn %d begins after turn %d", b.Turn, s.committed)
	}
	if s.open >= 0 {
		s.turns[s.open].State, s.turns[s.open].Reason = turn.Failed, reasonSuperseded
	}
	s.open, s.openN, s.input, s.owner = len(s.turns), n, b.Input, ""
	s.addTurn(Turn{ID: b.TurnID, Number: b.Turn, Key: b.Key, InputHash: b.Hash, State: turn.Running})
	return nil
}

func (s *state) applyCommit(c commit) error {
	if s.open < 0 || s.turns[s.open].ID != c.TurnID || c.Turn != s.committed+1 {
		return fmt.Errorf("turn %q is committed and was not begun", c.TurnID)
	}
	if len(c.Reply) == 0 {
		return fmt.Errorf("turn %q has no reply", c.TurnID)
	}
	messages, err := s.rebuild(c)
	if err != nil {
		return fmt.Errorf("turn %q: %w", c.TurnID, err)
	}
	s.messages = messages
	if c.State != nil {
		s.size += int64(len(c.State) - len(s.value))
		s.value = c.State
	}
	t := &s.turns[s.open]
	t.State, t.Reply = turn.Committed, c.Reply
	s.size += int64(len(c.Reply))
	s.committed, s.newest = c.Turn, s.open
	s.close()
	return nil
}

func (s *state) applyEnd(e ended) error {
	if s.open < 0 || s.turns[s.open].ID != e.TurnID {
		return fmt.Errorf("turn %q ends and was not begun", e.TurnID)
	}
	t := &s.turns[s.open]
	switch e.as {
	case kindReleased:
		s.owner = ""
		return nil
	case kindParked:
		t.State = turn.Parked
	default:
		t.State = turn.Failed
	}
	t.Reason = e.Reason
	s.close()
	return nil
}

// close forgets the open turn: it has ended.
func (s *state) close() {
	s.open, s.openN, s.input, s.owner = -1, 0, nil, ""
}

func (s *state) addTurn(t Turn) {
	t.Session = s.session
	if t.Key != "" {
		s.byKey[t.Key] = len(s.turns)
	}
	s.turns = append(s.turns, t)
	const perTurn = 256 // the struct, its id, and its share of the index
	s.size += int64(perTurn + len(t.Key) + len(t.InputHash) + len(t.Reply))
}

// bytes is the memory that a state takes, roughly.
func (s *state) bytes() int64 { return s.size + s.talk + s.attachedBytes }

// messageSize counts a reply once more that a turn has counted: rather too much
// than too little.
func messageSize(m Message) int64 {
	const perMessage = 64
	return int64(perMessage + len(m.Content))
}

func (s *state) applySnapshot(p snapshot) error {
	if !s.partial && len(s.turns) > 0 {
		return errors.New("a snapshot that is not at the beginning")
	}
	s.partial = p.More
	for _, t := range p.Turns {
		out := Turn{ID: t.TurnID, Number: t.Turn, Key: t.Key, InputHash: t.Hash, State: turn.State(t.End), Reply: t.Reply, Reason: t.Reason, Delivered: t.Delivered}
		switch t.End {
		case "":
			if len(t.Reply) == 0 {
				return fmt.Errorf("turn %d in a snapshot has no reply", t.Turn)
			}
			out.State = turn.Committed
			s.newest = len(s.turns)
			if s.committed++; t.Turn != s.committed {
				return fmt.Errorf("turn %d follows turn %d in a snapshot", t.Turn, s.committed-1)
			}
		case kindFailed, kindParked:
		default:
			return fmt.Errorf("a turn in a snapshot ended as %q", t.End)
		}
		s.addTurn(out)
	}
	for _, m := range p.Messages {
		out := Message{Role: m.Role, Content: m.Content}
		if m.Ref != "" {
			i, ok := s.committedTurn(m.Turn)
			if m.Ref != refReply || !ok {
				return fmt.Errorf("a message in a snapshot refers to %q of turn %d", m.Ref, m.Turn)
			}
			out.Content = s.turns[i].Reply
		}
		if len(out.Content) == 0 {
			return errors.New("a message in a snapshot without content")
		}
		s.messages = append(s.messages, out)
		s.talk += messageSize(out)
	}
	if p.State != nil {
		s.value = p.State
		s.size += int64(len(p.State))
	}
	if !p.More && p.Turn != s.committed {
		return fmt.Errorf("a snapshot of turn %d ends with turn %d", p.Turn, s.committed)
	}
	return nil
}

// committedTurn finds a committed turn by its number. Numbers never fall, and
// the committed turn is the last one with its number.
func (s *state) committedTurn(number int) (int, bool) {
	i := sort.Search(len(s.turns), func(i int) bool { return s.turns[i].Number > number }) - 1
	return i, i >= 0 && s.turns[i].Number == number && s.turns[i].State == turn.Committed
}

// snapshots are the state without its open turn, in as many parts as lines of
// at most limit bytes need. A state of no turns needs none.
func (s *state) snapshots(limit int) []snapshot {
	turns := s.turns
	if s.open >= 0 {
		turns = turns[:s.open] // the open turn is the newest
	}
	if len(turns) == 0 {
		return nil
	}
	parts := []snapshot{{Turn: s.committed}}
	used := 0
	room := func(size int) *snapshot {
		last := &parts[len(parts)-1]
		if used > 0 && used+size > limit {
			last.More = true
			parts = append(parts, snapshot{Turn: s.committed})
			last, used = &parts[len(parts)-1], 0
		}
		used += size
		return last
	}
	replies := make(map[*byte]int, len(turns)) // first byte of a reply → its turn
	var scratch []byte
	for _, t := range turns {
		out := storedTurn{Turn: t.Number, TurnID: t.ID, Key: t.Key, Hash: t.InputHash, Reason: t.Reason, Delivered: t.Delivered}
		switch t.State {
		case turn.Committed:
			out.Reply = t.Reply
			replies[&t.Reply[0]] = t.Number
		case turn.Parked:
			out.End = kindParked
		default:
			out.End = kindFailed
		}
		scratch = out.appendJSON(scratch[:0])
		part := room(len(scratch) + 1)
		part.Turns = append(part.Turns, out)
	}
	for _, m := range s.messages {
		out := stored{Role: m.Role, Content: m.Content}
		if number, ok := replies[&m.Content[0]]; ok {
			out = stored{Role: m.Role, Ref: refReply, Turn: number}
		}
		scratch = out.appendJSON(scratch[:0])
		part := room(len(scratch) + 1)
		part.Messages = append(part.Messages, out)
	}
	if s.value != nil {
		room(len(s.value)).State = s.value
	}
	return parts
}
