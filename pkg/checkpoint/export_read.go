package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Errors of an export. They are wrapped with what is wrong.
var (
	ErrExport      = errors.New("the export is damaged")
	ErrNotExport   = errors.New("this is not an export of sessions")
	ErrNewerExport = errors.New("the export was written by a newer version of flisk")
)

// maxExportLine bounds a line of an export, in bytes: what an [ExportWriter]
// makes of what fits into a line of a session file.
const maxExportLine = MaxLine + 64<<10

// maxElement bounds a turn or a message by itself: with what a snapshot's line
// puts around it, it must fit into one.
const maxElement = MaxLine - 512 - around

// around is what surrounds a turn's reply or a message's content in a line, at
// most.
const around = 256

// Export is an export that was checked: it is whole, and every session in it can
// be written. Its methods may be called at once, as far as reading may.
type Export struct {
	from     io.ReaderAt
	sessions []ExportedSession
}

// ExportedSession describes one session of an export.
type ExportedSession struct {
	Agent    string
	Session  string
	Turns    int   // committed turns
	Messages int   // of the conversation
	Bytes    int64 // that it takes in the export

	at   int64 // where it begins
	line int   // the lines before it
	sum  [sha256.Size]byte
}

// OpenExport checks an export of the given size: first that not a byte of it has
// changed, then that its sessions can be imported: that turns could have left
// them, and that a store that gets one would load exactly what is here. It holds
// one session in memory at a time. from must stay readable, and unchanged, until the last
// [File.Import]; a session that did change meanwhile is refused there.
//
// Errors: [ErrExport], [ErrNotExport], [ErrNewerExport], those of from, and
// ctx's cause.
func OpenExport(ctx context.Context, from io.ReaderAt, size int64) (*Export, error) {
	body, err := checkExport(ctx, from, size)
	if err != nil {
		return nil, err
	}
	x := &Export{from: from}
	in := newExportReader(io.NewSectionReader(from, 0, body))
	if _, err := in.next(); err != nil { // the head
		return nil, err
	}
	seen := map[[2]string]bool{}
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s, one, err := in.session()
		if err == io.EOF {
			return x, nil
		}
		if err != nil {
			return nil, err
		}
		if name := [2]string{one.Agent, s.session}; seen[name] {
			return nil, in.wrong("session %q of agent %q is in it twice", s.session, one.Agent)
		} else {
			seen[name] = true
		}
		if err := s.loadsAsItIs(); err != nil {
			return nil, in.wrong("session %q: %w", s.session, err)
		}
		x.sessions = append(x.sessions, one)
	}
}

// loadsAsItIs makes a session file of an exported session and loads that as a
// store does: for whatever the checks of its lines have not thought of.
func (s *state) loadsAsItIs() error {
	last, err := turnLine(s.turns[len(s.turns)-1].ID)
	if err != nil {
		return err
	}
	file := image{who: identity{agent: "export", name: fileName(s.session), session: s.session}, salt: newSalt(), state: s}
	parts := file.parts()
	file.last = max(last, uint64(len(parts)))
	l, err := recoverLog(file.encodeParts(parts), file.who, hint{hintSynced, file.last})
	if err != nil {
		return err
	}
	loaded, err := l.replay(file.who, false)
	if err != nil {
		return err
	}
	sameTurn := func(a, b Turn) bool {
		return a.ID == b.ID && a.Number == b.Number && a.Key == b.Key && a.InputHash == b.InputHash && a.State == b.State &&
			a.Reason == b.Reason && a.Delivered == b.Delivered && bytes.Equal(a.Reply, b.Reply)
	}
	switch {
	case !slices.EqualFunc(s.turns, loaded.turns, sameTurn):
		return errors.New("its turns would be loaded as others")
	case !slices.EqualFunc(s.messages, loaded.messages, sameMessage):
		return errors.New("its messages would be loaded as others")
	case !bytes.Equal(s.value, loaded.value):
		return errors.New("its state would be loaded as another")
	}
	return nil
}

// Sessions lists what is in the export, in its order.
func (x *Export) Sessions() []ExportedSession { return x.sessions }

// read reads a session again, and checks that it is the one that was checked.
func (x *Export) read(i int) (*state, error) {
	one := x.sessions[i]
	in := newExportReader(io.NewSectionReader(x.from, one.at, one.Bytes))
	in.lines = one.line
	s, again, err := in.session()
	if err == nil && again.sum != one.sum {
		err = fmt.Errorf("%w: session %q has changed since it was checked", ErrExport, one.Session)
	}
	return s, err
}

// checkExport reads an export once and returns where its last line begins. That
// line must be, byte for byte, what the others add up to.
func checkExport(ctx context.Context, from io.ReaderAt, size int64) (body int64, err error) {
	in := newExportReader(io.NewSectionReader(from, 0, size))
	head, err := in.next()
	if err != nil || !bytes.HasPrefix(head, []byte(exportHead)) {
		if err == nil || errors.Is(err, ErrExport) || err == io.EOF {
			err = ErrNotExport
		}
		return 0, err
	}
	version := strings.TrimSuffix(string(head[len(exportHead):]), "}\n")
	if n, err := strconv.Atoi(version); err == nil && n > exportVersion {
		return 0, fmt.Errorf("%w: it has format %d, and this version reads format %d", ErrNewerExport, n, exportVersion)
	} else if version != strconv.Itoa(exportVersion) {
		return 0, fmt.Errorf("%w: its first line is not one of an export", ErrExport)
	}
	sum, sessions := sha256.New(), 0
	sum.Write(head)
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		line, err := in.next()
		if err == io.EOF {
			return 0, fmt.Errorf("%w: it ends behind line %d, before its last line", ErrExport, in.lines)
		}
		if err != nil {
			return 0, err
		}
		if in.at+int64(len(line)) < size {
			sum.Write(line)
			if isKind(line, exportSession) {
				sessions++
			}
			continue
		}
		if !bytes.Equal(line, exportEnd(sessions, in.lines-1, sum)) {
			return 0, fmt.Errorf("%w: its checksum does not fit: it was changed, or it is not whole", ErrExport)
		}
		return in.at, nil
	}
}

// exportReader reads an export line by line.
type exportReader struct {
	in    *bufio.Reader
	at    int64 // where the line that was read last begins
	read  int64 // bytes that were read
	lines int   // lines that were read
	buf   []byte
	again bool // the next line is the one that was read last
}

func newExportReader(from io.Reader) *exportReader {
	return &exportReader{in: bufio.NewReaderSize(from, 64<<10)}
}

// next returns a line with its newline, valid until the next call, or io.EOF.
func (r *exportReader) next() ([]byte, error) {
	if r.again {
		r.again = false
		return r.buf, nil
	}
	r.buf = r.buf[:0]
	r.at = r.read
	for {
		part, err := r.in.ReadSlice('\n')
		r.buf = append(r.buf, part...)
		r.read += int64(len(part))
		if len(r.buf) > maxExportLine {
			return nil, fmt.Errorf("%w: line %d is longer than any line of an export", ErrExport, r.lines+1)
		}
		switch {
		case err == nil:
			r.lines++
			return r.buf, nil
		case err == bufio.ErrBufferFull:
		case err == io.EOF && len(r.buf) > 0:
			return nil, fmt.Errorf("%w: it ends in the middle of line %d", ErrExport, r.lines+1)
		default:
			return nil, err
		}
	}
}

// back makes the line that was read last the next one.
func (r *exportReader) back() { r.again = true }

// wrong is an error in the line that was read last.
func (r *exportReader) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %w", ErrExport, r.lines, fmt.Errorf(format, args...))
}

// The lines of a session. decode is strict: a field that is not here would be
// lost.
type (
	exportedSession struct {
		Kind     string `json:"kind"`
		Agent    string `json:"agent"`
		Session  string `json:"session_id"`
		Turns    int    `json:"turns"`
		Messages int    `json:"messages"`
	}
	exportedTurn struct {
		Kind      string          `json:"kind"`
		Turn      int             `json:"turn"`
		TurnID    string          `json:"turn_id"`
		Outcome   turn.State      `json:"outcome"`
		Reason    string          `json:"reason"`
		Key       string          `json:"key"`
		InputHash string          `json:"input_hash"`
		Delivered bool            `json:"delivered"`
		Messages  []Message       `json:"messages"`
		Reply     json.RawMessage `json:"reply"`
	}
	exportedMessages struct {
		Kind     string    `json:"kind"`
		Messages []Message `json:"messages"`
	}
	exportedState struct {
		Kind  string          `json:"kind"`
		State json.RawMessage `json:"state"`
	}
)

// isKind reports whether a line is of a kind, which every line begins with.
func isKind(raw []byte, kind string) bool {
	return bytes.HasPrefix(raw, append(appendKind(nil, kind), ','))
}

// session reads a session to its end: where the next one begins, or the export
// ends. io.EOF means that there is none.
func (r *exportReader) session() (*state, ExportedSession, error) {
	raw, err := r.next()
	if err != nil {
		return nil, ExportedSession{}, err
	}
	if !isKind(raw, exportSession) {
		return nil, ExportedSession{}, r.wrong("no session begins here")
	}
	head, err := decode[exportedSession](raw)
	if err != nil {
		return nil, ExportedSession{}, r.wrong("%w", err)
	}
	one := ExportedSession{Agent: head.Agent, Session: head.Session, Turns: head.Turns, Messages: head.Messages, at: r.at, line: r.lines - 1}
	if !turn.ValidAgent(head.Agent) {
		return nil, one, r.wrong("invalid agent name %q", head.Agent)
	}
	if err := turn.CheckSessionID(head.Session); err != nil {
		return nil, one, r.wrong("%w", err)
	}
	s := newState(head.Session)
	sum := sha256.New()
	sum.Write(raw)
	for {
		raw, err := r.next()
		if err == io.EOF || err == nil && isKind(raw, exportSession) {
			one.Bytes = r.read - one.at
			if err == nil {
				one.Bytes = r.at - one.at
				r.back()
			}
			break
		}
		if err != nil {
			return nil, one, err
		}
		sum.Write(raw)
		if err := s.addExported(raw); err != nil {
			return nil, one, r.wrong("%w", err)
		}
	}
	sum.Sum(one.sum[:0])
	switch {
	case len(s.turns) == 0:
		return nil, one, r.wrong("session %q has no turn", s.session)
	case s.committed != one.Turns || len(s.messages) != one.Messages:
		return nil, one, r.wrong("session %q has %d turns and %d messages instead of %d and %d", s.session, s.committed, len(s.messages), one.Turns, one.Messages)
	}
	return s, one, nil
}

// addExported adds a line of an export to the state of its session. What passes
// can be written, and will be read again.
func (s *state) addExported(raw []byte) error {
	switch {
	case isKind(raw, exportTurn):
		l, err := decode[exportedTurn](raw)
		if err != nil {
			return err
		}
		return s.addExportedTurn(l)
	case isKind(raw, exportMessages):
		l, err := decode[exportedMessages](raw)
		if err != nil {
			return err
		}
		return s.addExportedMessages(l.Messages)
	case isKind(raw, exportState):
		l, err := decode[exportedState](raw)
		if err != nil {
			return err
		}
		if s.value != nil {
			return errors.New("a second state")
		}
		if s.newest < 0 {
			return errors.New("a state that no committed turn left")
		}
		s.value, err = exported("the state", l.State)
		s.size += int64(len(s.value))
		return err
	}
	return errors.New("it is of no kind that stands in a session")
}

func (s *state) addExportedTurn(l exportedTurn) error {
	t := Turn{
		ID: l.TurnID, Number: l.Turn, Key: l.Key, InputHash: l.InputHash,
		State: l.Outcome, Reason: l.Reason, Delivered: l.Delivered,
	}
	if err := s.follows(t); err != nil {
		return err
	}
	if size := len(l.Reply) + len(l.Key) + len(l.InputHash) + len(l.Reason); size > maxElement {
		return fmt.Errorf("the turn takes %d bytes, at most %d are allowed", size, maxElement)
	}
	switch l.Outcome {
	case turn.Committed:
		if l.Reason != "" {
			return errors.New("a committed turn has no reason")
		}
		var err error
		if t.Reply, err = exported("the reply", l.Reply); err != nil {
			return err
		}
		s.committed, s.newest = t.Number, len(s.turns)
	case turn.Failed, turn.Parked:
		if l.Reply != nil || l.Delivered {
			return errors.New("a turn that was not committed has no reply")
		}
	default:
		return fmt.Errorf("a turn cannot be %q in an export", l.Outcome)
	}
	s.addTurn(t)
	if len(l.Messages) == 0 {
		return nil
	}
	return s.addExportedMessages(l.Messages)
}

// follows checks that a turn can be the next one.
func (s *state) follows(t Turn) error {
	if s.value != nil {
		return errors.New("a turn stands behind the state")
	}
	if t.Number != s.committed+1 {
		return fmt.Errorf("turn %d follows turn %d", t.Number, s.committed)
	}
	name, ok := sessionOfTurn(t.ID)
	if !ok || name != fileName(s.session) {
		return fmt.Errorf("%q is not the id of a turn of session %q", t.ID, s.session)
	}
	n, err := turnLine(t.ID)
	if err != nil {
		return err
	}
	if len(s.turns) > 0 {
		if before, err := turnLine(s.turns[len(s.turns)-1].ID); err != nil || n <= before {
			return fmt.Errorf("turn %q is not newer than the one before it", t.ID)
		}
	}
	if !utf8.ValidString(t.InputHash) || !utf8.ValidString(t.Reason) {
		return errors.New("the input hash or the reason is not text")
	}
	if t.Key == "" {
		return nil
	}
	// A key that is known gets its turn's reply; only one whose turn failed runs
	// again.
	if i, ok := s.byKey[t.Key]; ok && s.turns[i].State != turn.Failed {
		return fmt.Errorf("key %q is one of turn %d already, which is %s", t.Key, s.turns[i].Number, s.turns[i].State)
	}
	return turn.CheckKey(t.Key)
}

// maxTurnLine leaves room for many more lines behind it.
const maxTurnLine = 1 << 62

// turnLine is the n of the begin of a turn, as its id has it.
func turnLine(id string) (uint64, error) {
	_, digits, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n == 0 || n >= maxTurnLine || strconv.FormatUint(n, 10) != digits {
		return 0, fmt.Errorf("%q is not the id of a turn", id)
	}
	return n, nil
}

// addExportedMessages adds messages to the conversation. The last one of a turn,
// when it is the reply, becomes the very same bytes: it is stored once, and the
// next export shows it with the same turn.
func (s *state) addExportedMessages(messages []Message) error {
	if s.newest < 0 || s.newest != len(s.turns)-1 || s.value != nil {
		return errors.New("messages that belong to no committed turn")
	}
	reply := s.turns[s.newest].Reply
	if n := len(s.messages); n > 0 && &s.messages[n-1].Content[0] == &reply[0] {
		s.messages[n-1].Content = bytes.Clone(reply) // it was not the last one
	}
	for i, m := range messages {
		if m.Role == "" {
			return errors.New("a message without a role")
		}
		var err error
		if m.Content, err = exported("a message", m.Content); err != nil {
			return err
		}
		if size := len(appendString(nil, m.Role)) + len(m.Content); size > maxElement {
			return fmt.Errorf("a message takes %d bytes, at most %d are allowed", size, maxElement)
		}
		if i == len(messages)-1 && bytes.Equal(m.Content, reply) {
			m.Content = reply
		}
		s.messages = append(s.messages, m)
		s.talk += messageSize(m)
	}
	if s.talk > MaxConversation {
		return fmt.Errorf("the conversation takes %d bytes, at most %d are allowed", s.talk, MaxConversation)
	}
	return nil
}

// exported is a value as a state may hold it. None is no value.
func exported(what string, value json.RawMessage) (json.RawMessage, error) {
	value, err := oneLine(what, value)
	if err == nil && len(value) > maxElement {
		err = fmt.Errorf("%s takes %d bytes, at most %d are allowed", what, len(value), maxElement)
	}
	return value, err
}
