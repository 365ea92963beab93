package checkpoint

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/flisk-go/flisk/pkg/turn"
)

// An export is sessions as text that a person can read, JSON Lines:
//
//	{"kind":"flisk-sessions","version":1}
//	{"kind":"session","agent":"bot","session_id":"s1","turns":1,"messages":2}
//	{"kind":"turn","turn":1,"turn_id":"…","outcome":"committed","key":"…","input_hash":"…","messages":[…],"reply":"…"}
//	{"kind":"state","state":{…}}
//	{"kind":"end","sessions":1,"lines":4,"sha256":"…"}
//
// The last line covers every byte before it, and is itself what these bytes say
// it must be, so no byte can change without being noticed. Nothing of a volume
// is in an export: no salt, no line hash, no secret. Equal sessions give equal
// bytes.
//
// The messages of a session are those of its turns in a row. Which turn a
// message is shown with is for the reader: it is the first whose reply follows
// it. Messages that do not fit into a turn's line go on in lines of the kind
// "messages".
const (
	exportHead    = `{"kind":"flisk-sessions","version":`
	exportVersion = 1

	exportSession  = "session"
	exportTurn     = "turn"
	exportMessages = "messages"
	exportState    = "state"
)

// reasonExported is why a turn that runs during an export is not in it.
const reasonExported = "it had not ended when its session was exported"

// ExportWriter writes an export. Nothing that was written is an export before
// Close returned nil. It is for one goroutine.
type ExportWriter struct {
	out      *bufio.Writer
	sum      hash.Hash
	sessions int
	lines    int
	bytes    int64
	buf      []byte
	err      error // of the first write that failed; nothing is written after it
}

// NewExportWriter begins an export on w, which it does not close.
func NewExportWriter(w io.Writer) *ExportWriter {
	x := &ExportWriter{out: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	x.line(fmt.Appendf(nil, "%s%d}", exportHead, exportVersion))
	return x
}

// Session adds one session: every turn whose commit is in its file, whether
// anybody was told of it or not. A turn that has not ended is written as one
// that failed; running reports that its process is alive, so that the export
// lacks what is about to be committed. The result says what was written.
//
// A session that cannot be read adds nothing, and the writer can go on.
//
// Errors: those of [Reader.View]; after an error of writing every call returns
// that one.
func (x *ExportWriter) Session(ctx context.Context, from *Reader, id string) (one ExportedSession, running bool, err error) {
	if x.err != nil {
		return one, false, x.err
	}
	if err := checkCall(ctx, id); err != nil {
		return one, false, err
	}
	s, running, err := from.r.whole(id)
	if err != nil {
		return one, false, sessionError(id, err)
	}
	before := x.bytes
	x.session(from.r.agent, s)
	return ExportedSession{
		Agent: from.r.agent, Session: id, Turns: s.committed, Messages: len(s.messages), Bytes: x.bytes - before,
	}, running, x.err
}

// Close writes the last line. It must not be called when something that belongs
// into the export could not be read and its reader would take it for whole.
func (x *ExportWriter) Close() error {
	x.write(exportEnd(x.sessions, x.lines, x.sum))
	if x.err == nil {
		x.err = x.out.Flush()
	}
	return x.err
}

// exportEnd is the line that an export of these lines ends with.
func exportEnd(sessions, lines int, sum hash.Hash) []byte {
	end := appendKind(nil, "end")
	end = appendIntField(end, "sessions", int64(sessions))
	end = appendIntField(end, "lines", int64(lines))
	end = appendStringField(end, "sha256", hex.EncodeToString(sum.Sum(nil)))
	return append(end, '}', '\n')
}

// line adds a line and its newline, which raw lacks.
func (x *ExportWriter) line(raw []byte) {
	raw = append(raw, '\n')
	x.sum.Write(raw)
	x.lines++
	x.write(raw)
}

func (x *ExportWriter) write(raw []byte) {
	if x.err == nil {
		x.bytes += int64(len(raw))
		_, x.err = x.out.Write(raw)
	}
}

func (x *ExportWriter) session(agent string, s *state) {
	x.sessions++
	head := appendStringField(appendKind(x.buf[:0], exportSession), "agent", agent)
	head = appendStringField(head, "session_id", s.session)
	head = appendIntField(head, "turns", int64(s.committed))
	x.line(append(appendIntField(head, "messages", int64(len(s.messages))), '}'))
	messages := s.byTurn()
	for i, t := range s.turns {
		x.turn(t, messages[i])
	}
	if s.value != nil {
		x.line(append(append(appendField(appendKind(x.buf[:0], exportState), "state"), s.value...), '}'))
	}
}

// turn writes one turn, in as many lines as its messages need.
func (x *ExportWriter) turn(t Turn, messages []Message) {
	line := appendIntField(appendKind(x.buf[:0], exportTurn), "turn", int64(t.Number))
	line = appendStringField(line, "turn_id", t.ID)
	line = appendStringField(line, "outcome", string(t.State))
	line = appendStringField(line, "reason", t.Reason)
	line = appendStringField(line, "key", t.Key)
	line = appendStringField(line, "input_hash", t.InputHash)
	if t.Delivered {
		line = append(appendField(line, "delivered"), "true"...)
	}
	n := fitting(messages, MaxLine-len(line)-len(t.Reply))
	line = appendMessages(line, messages[:n])
	if t.Reply != nil {
		line = append(appendField(line, "reply"), t.Reply...)
	}
	x.line(append(line, '}'))
	x.buf = line[:0]
	for messages = messages[n:]; len(messages) > 0; messages = messages[n:] {
		n = max(1, fitting(messages, MaxLine))
		line = appendMessages(appendKind(x.buf[:0], exportMessages), messages[:n])
		x.line(append(line, '}'))
		x.buf = line[:0]
	}
}

// fitting is how many of the messages fit into so many bytes.
func fitting(messages []Message, room int) int {
	var role []byte
	for i, m := range messages {
		role = appendString(role[:0], m.Role)
		if room -= len(role) + len(m.Content) + len(`,{"role":,"content":}`); room < 0 {
			return i
		}
	}
	return len(messages)
}

func appendMessages(dst []byte, messages []Message) []byte {
	if len(messages) == 0 {
		return dst
	}
	dst = append(appendField(dst, "messages"), '[')
	for i, m := range messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = stored{Role: m.Role, Content: m.Content}.appendJSON(dst)
	}
	return append(dst, ']')
}

func appendKind(dst []byte, kind string) []byte {
	return appendStringField(append(dst, '{'), "kind", kind)
}

// whole reads all that a session will be when somebody takes it next: a commit
// that nobody was told of counts, as it does then. Its open turn is ended.
func (r *reader) whole(id string) (s *state, running bool, err error) {
	w := r.identify(id)
	for gone := false; ; gone = true {
		l, _, err := r.load(w)
		if err != nil {
			return nil, false, err
		}
		if s, err = l.replay(w, true); err != nil || s.open < 0 {
			return s, false, err
		}
		// A process may commit between the look at the file and the look for it,
		// and only after it is gone the file says how the turn ended.
		if running = r.runs(w, s); running || gone {
			break
		}
	}
	t := &s.turns[s.open]
	t.State, t.Reason = turn.Failed, reasonGone
	if running {
		t.Reason = reasonExported
	}
	s.close()
	return s, running, nil
}

// byTurn distributes the messages over the turns, in order: a message goes to
// the first turn whose reply is that message or one behind it, and what follows
// the last reply to the last committed turn. Replies are known by their bytes'
// place, as in a snapshot.
func (s *state) byTurn() [][]Message {
	out := make([][]Message, len(s.turns))
	if s.newest < 0 {
		return out // no commit, no message
	}
	replies := make(map[*byte]int, s.committed)
	for i, t := range s.turns {
		if t.State == turn.Committed {
			replies[&t.Reply[0]] = i
		}
	}
	start, last := 0, -1
	for at, m := range s.messages {
		if i, ok := replies[&m.Content[0]]; ok && i > last {
			out[i] = s.messages[start : at+1]
			start, last = at+1, i
		}
	}
	if last == s.newest {
		start -= len(out[last])
	}
	out[s.newest] = s.messages[start:]
	return out
}
