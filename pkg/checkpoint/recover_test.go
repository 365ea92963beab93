package checkpoint

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/turn"
)

var testWho = identity{volume: "v-1", agent: "bot", name: fileName("s"), session: "s"}

// made is a session file in the making, with control over every line.
type made struct {
	data   []byte
	n, s   uint64
	ends   []int // of each line, the header first
	state  *state
	length int64 // the header's len
}

func newMade(length int64) *made {
	m := &made{state: newState("s"), length: length}
	m.data = appendLine(nil, []byte(testWho.volume), 0, 0, testTime, header{V: 1, Volume: testWho.volume, Agent: testWho.agent, Session: "s", Salt: hex.EncodeToString(testSalt), Len: length})
	m.ends = []int{len(m.data)}
	return m
}

func (m *made) add(p payload) *made {
	m.n++
	m.data = appendLine(m.data, testSalt, m.n, m.s, testTime, p)
	m.ends = append(m.ends, len(m.data))
	if err := m.state.apply(m.n, p); err != nil {
		panic(err)
	}
	return m
}

func (m *made) begin(key string) *made {
	b, err := m.state.start(testWho.name, m.n+1, Begin{Key: key, InputHash: "h" + key, Input: quoted("in " + key)})
	if err != nil {
		panic(err)
	}
	return m.add(b).add(attempt{Replica: "4c5f0a3e-0000-4000-8000-000000000000", Number: 1})
}

func (m *made) commit(c Commit) *made {
	if c.Reply == nil {
		c.Reply = quoted(fmt.Sprint("reply ", m.state.committed+1))
	}
	if c.Messages == nil {
		c.Messages = m.state.messages
		c.Add = []Message{{Role: "user", Content: m.state.input}, {Role: "assistant", Content: c.Reply}}
	}
	p, err := m.state.prepare(c)
	if err != nil {
		panic(err)
	}
	return m.add(p)
}

func (m *made) mark() *made { m.s = m.n; return m.add(note{kindMark}) }

// turn is a whole acknowledged turn.
func (m *made) turn(key string) *made { return m.begin(key).commit(Commit{}).mark() }

func TestRecoveryTable(t *testing.T) {
	t.Parallel()
	three := func() *made { return newMade(0).turn("a").turn("b").turn("c") }
	flip := func(b []byte, i int) []byte { b = bytes.Clone(b); b[i] ^= 4; return b }
	none := hint{kind: hintNone}
	at := func(n uint64) hint { return hint{hintSynced, n} }
	full := three()
	commit3 := full.ends[11-1] // end of the line before the third commit (n 11)
	unmarked := newMade(0).turn("a").begin("b").commit(Commit{})

	for _, c := range []struct {
		name     string
		data     []byte
		h        hint
		turns    int    // -1: refused
		cut      bool   // something is cut off
		unmarked bool   // the last commit has to be made sure
		reason   string // part of a refusal
	}{
		{name: "all valid", data: full.data, h: at(11), turns: 3},
		{name: "all valid without a hint", data: full.data, h: none, turns: 3},
		{name: "all valid, hint lags", data: full.data, h: at(3), turns: 3},
		{name: "empty", data: nil, h: none, turns: -1, reason: "empty"},
		{name: "zeros", data: make([]byte, 4096), h: none, turns: -1, reason: "first line"},
		{name: "zeros with a line break", data: append(make([]byte, 100), '\n'), h: none, turns: -1, reason: "not a header"},
		{name: "header rotten", data: flip(full.data, 50), h: none, turns: -1, reason: "not a header"},
		{name: "header torn", data: full.data[:60], h: none, turns: -1, reason: "not whole"},
		{name: "hint above the last line", data: full.data[:full.ends[4]], h: at(7), turns: -1, reason: "line 7 was known"},
		{name: "rot below F", data: flip(full.data, full.ends[2]+60), h: none, turns: -1, reason: "damaged"},
		{name: "rot in the last commit, the mark tells", data: flip(full.data, commit3+60), h: none, turns: -1, reason: "damaged"},
		{name: "rot in the last commit, only the hint tells", data: flip(full.data[:full.ends[11]], commit3+60), h: at(11), turns: -1, reason: "damaged"},
		{name: "rot in the last commit, nothing tells: the known limit", data: flip(full.data[:full.ends[11]], commit3+60), h: none, turns: 2, cut: true},
		{name: "rot in the line break before the mark", data: flip(full.data, full.ends[11]-1), h: none, turns: -1, reason: "damaged"},
		{name: "rot in the last mark", data: flip(full.data, full.ends[11]+60), h: at(11), turns: 3, cut: true},
		{name: "rot in the last mark, no hint", data: flip(full.data, full.ends[11]+60), h: none, turns: 3, cut: true, unmarked: true},
		{name: "a torn commit", data: unmarked.data[:len(unmarked.data)-10], h: at(3), turns: 1, cut: true},
		{name: "a torn commit and zeros", data: append(bytes.Clone(unmarked.data[:len(unmarked.data)-10]), make([]byte, 9000)...), h: at(3), turns: 1, cut: true},
		{name: "a commit without a mark", data: unmarked.data, h: at(3), turns: 2, unmarked: true},
		{name: "a commit without a mark, the hint has it", data: unmarked.data, h: at(7), turns: 2},
		{name: "a torn begin, then garbage with line breaks", data: append(bytes.Clone(full.data), "{\"h\":\"xx\n\n\nyy\n"...), h: at(11), turns: 3, cut: true},
		{name: "a line twice", data: append(bytes.Clone(full.data), full.data[full.ends[11]:]...), h: at(11), turns: 3, cut: true},
		{name: "a line missing below F", data: append(bytes.Clone(full.data[:full.ends[1]]), full.data[full.ends[2]:]...), h: none, turns: -1, reason: "line 3 follows line 1"},
		{name: "shorter than the header's len", data: newMade(4000).turn("a").data, h: none, turns: -1, reason: "bytes are whole"},
		{name: "hint of a deletion says nothing about lines", data: full.data, h: hint{kind: hintDeleted}, turns: 3},
	} {
		l, err := recoverLog(c.data, testWho, c.h)
		var s *state
		if err == nil {
			s, err = l.replay(testWho, true)
		}
		if c.turns < 0 {
			damaged, ok := errors.AsType[*DamagedError](err)
			if !ok || damaged.Newer || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s: error is %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if s.committed != c.turns || len(l.cut) > 0 != c.cut || l.unmarked() != c.unmarked {
			t.Errorf("%s: %d turns, cut %d bytes, unmarked %v", c.name, s.committed, len(l.cut), l.unmarked())
		}
		shown, err := l.replay(testWho, false)
		if err != nil || shown.committed != c.turns-map[bool]int{true: 1}[c.unmarked] {
			t.Errorf("%s: a reader sees turn %d, %v", c.name, shown.committed, err)
		}
	}
	if err := testWho.absent(at(1)); err == nil {
		t.Error("no file and a hint that names a line: not refused")
	}
	if testWho.absent(none) != nil || testWho.absent(hint{kind: hintDeleted}) != nil {
		t.Error("no file and no hint: refused")
	}
}

func TestRecoveryRefusesWhatIsNotThisSession(t *testing.T) {
	t.Parallel()
	data := newMade(0).turn("a").data
	for name, change := range map[string]func(*identity){
		"volume":  func(w *identity) { w.volume = "other" },
		"agent":   func(w *identity) { w.agent = "other" },
		"name":    func(w *identity) { w.name = fileName("other") },
		"session": func(w *identity) { w.session = "other" },
	} {
		w := testWho
		change(&w)
		if _, err := recoverLog(data, w, hint{kind: hintNone}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	w := testWho
	w.session = "" // whoever comes from a listing does not know it
	if _, err := recoverLog(data, w, hint{kind: hintNone}); err != nil {
		t.Error(err)
	}
}

// TestC36_NewerFilesAreLeftAlone: an unknown version, kind or field is no
// damage, and no reason to cut.
func TestC36_NewerFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	newer := func(data []byte) {
		t.Helper()
		l, err := recoverLog(data, testWho, hint{kind: hintNone})
		if err == nil {
			_, err = l.replay(testWho, true)
		}
		if damaged, ok := errors.AsType[*DamagedError](err); !ok || !damaged.Newer {
			t.Errorf("error is %v", err)
		}
	}
	m := newMade(0).turn("a")
	newer(appendLine(bytes.Clone(m.data), testSalt, m.n+1, m.s, testTime, ended{as: "waiting"}))
	newer(appendLine(nil, []byte(testWho.volume), 0, 0, testTime, header{V: 2, Volume: testWho.volume, Agent: "bot", Session: "s", Salt: hex.EncodeToString(testSalt)}))
	raw := appendLine(nil, testSalt, m.n+1, m.s, testTime, note{kindMark})
	raw = bytes.Replace(raw, []byte("{}"), []byte(`{"later":1}`), 1)
	sealLine(raw[:len(raw)-1], testSalt)
	newer(append(bytes.Clone(m.data), raw...))
}

// random makes files of every shape that the store writes.
func random(r *rand.Rand, turns int) *made {
	m := newMade(0)
	for i := range turns {
		m.begin([]string{"", fmt.Sprint("k", r.IntN(turns))}[r.IntN(2)])
		switch r.IntN(6) {
		case 0: // left open
		case 1:
			m.add(m.state.fail("it broke"))
		case 2:
			m.add(ended{as: kindReleased, TurnID: m.state.turns[m.state.open].ID})
		case 3:
			m.add(ended{as: kindParked, TurnID: m.state.turns[m.state.open].ID, Reason: "three crashes"})
		default:
			c := Commit{Messages: randomEdit(r, m.state.messages), Reply: quoted(fmt.Sprint("reply ", i))}
			if len(c.Messages) == 0 {
				c.Messages = []Message{}
			}
			c.Add = []Message{{Role: "user", Content: m.state.input}, {Role: "assistant", Content: c.Reply}}
			if r.IntN(3) == 0 {
				c.State = json.RawMessage(fmt.Sprint(r.IntN(3)))
			}
			m.commit(c).mark()
			if r.IntN(2) == 0 {
				m.add(note{kindDelivered})
			}
		}
	}
	return m
}

// comparable is a state without what memory layout decides.
func comparable(s *state) string {
	open := ""
	if s.open >= 0 {
		open = fmt.Sprint(s.open, s.openN, string(s.input), s.owner)
	}
	b, err := json.Marshal([]any{s.checkpoint(), s.turns, s.byKey, s.newest, open})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestRewriteKeepsTheState: state(rewrite(f)) == state(f) for every f, at every
// line boundary, and n goes on.
func TestRewriteKeepsTheState(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 30 {
		m := random(r, 12)
		for _, end := range m.ends {
			data := m.data[:end]
			l, err := recoverLog(data, testWho, hint{kind: hintNone})
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.replay(testWho, true)
			if err != nil {
				t.Fatal(err)
			}
			limit := []int{1, 300, MaxLine}[r.IntN(3)] // parts of one item, of a few, of all
			live := l.live(data, s)
			file := image{who: testWho, salt: []byte("fedcba9876543210"), now: testTime, state: s, last: l.last - uint64(len(live)), live: live}
			parts := s.snapshots(limit)
			if uint64(len(parts)) > file.last {
				parts = s.snapshots(MaxLine)
			}
			again := file.encodeParts(parts)
			l2, err := recoverLog(again, testWho, hint{hintSynced, l.last})
			if err != nil {
				t.Fatalf("%v\n%s", err, again)
			}
			s2, err := l2.replay(testWho, false)
			if err != nil {
				t.Fatalf("%v\n%s", err, again)
			}
			if a, b := comparable(s), comparable(s2); a != b {
				t.Fatalf("state\n%s\nbecame\n%s\nin %s", a, b, again)
			}
			if l2.last != l.last || l2.unmarked() || l2.head.Len != int64(len(again)) || len(live) > 0 && l2.floor != l.last {
				t.Fatalf("the rewritten file goes on at %d after %d, F %d, len %d of %d", l2.last, l.last, l2.floor, l2.head.Len, len(again))
			}
		}
	}
}

// TestRewriteStoresAReplyOnce: C35's other half: a file does not grow by being
// rewritten.
func TestC35_RewriteStoresAReplyOnce(t *testing.T) {
	t.Parallel()
	m := newMade(0).begin("k")
	reply := quoted(strings.Repeat("long reply ", 1000))
	m.commit(Commit{Messages: []Message{}, Add: []Message{{Role: "assistant", Content: reply}}, Reply: reply}).mark()
	file := image{who: testWho, salt: testSalt, now: testTime, state: m.state, last: m.n}
	for name, data := range map[string][]byte{"file": m.data, "rewritten": file.encode()} {
		if n := bytes.Count(data, reply); n != 1 {
			t.Errorf("the %s has the reply %d times", name, n)
		}
	}
}

// TestSnapshotsOfGreatConversations: what does not fit into a line goes on in
// the next.
func TestSnapshotsOfGreatConversations(t *testing.T) {
	t.Parallel()
	m := newMade(0)
	for i := range 2 {
		m.begin(fmt.Sprint(i)).commit(Commit{Reply: quoted(strings.Repeat("x", 4<<20)), Messages: m.state.messages, Add: []Message{{Role: "user", Content: quoted(strings.Repeat("y", 4<<20))}}}).mark()
	}
	file := image{who: testWho, salt: testSalt, now: testTime, state: m.state, last: m.n}
	data := file.encode()
	l, err := recoverLog(data, testWho, hint{hintSynced, m.n})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.replay(testWho, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.lines) < 3 || s.committed != 2 || !reflect.DeepEqual(s.messages, m.state.messages) {
		t.Fatalf("%d lines, %d turns, %d messages", len(l.lines), s.committed, len(s.messages))
	}
}

// TestTailCountsAsTheWhole: the cheap count of a listing is right whenever it
// gives one.
func TestTailCountsAsTheWhole(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	counted := 0
	for range 20 {
		m := random(r, 10)
		for _, end := range m.ends {
			data := m.data[:end]
			l, err := recoverLog(data, testWho, hint{kind: hintNone})
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.replay(testWho, false)
			if err != nil {
				t.Fatal(err)
			}
			tail := data[len(data)-min(len(data), 200+r.IntN(2000)):]
			head := &fileLog{}
			if err := head.readHeader(data, testWho); err != nil {
				t.Fatal(err)
			}
			turns, ok := head.turnsOfTail(tail, int64(len(data)), hint{kind: hintNone})
			if !ok {
				continue
			}
			counted++
			if turns != s.committed {
				t.Fatalf("counted %d turns of %d", turns, s.committed)
			}
		}
	}
	if counted < 100 {
		t.Fatalf("counted %d times only", counted)
	}
}

// TestOpenTurnIsSeenByReaders: lines above F are shown, only commits wait.
func TestOpenTurnIsSeenByReaders(t *testing.T) {
	t.Parallel()
	m := newMade(0).turn("a").begin("b")
	l, err := recoverLog(m.data, testWho, hint{kind: hintNone})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.replay(testWho, false)
	if err != nil || s.open < 0 || s.turn(s.open, true).State != turn.Running || s.turn(s.open, false).State != turn.Failed {
		t.Fatalf("open %d, %v", s.open, err)
	}
}

func TestHintIsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, h := range []hint{{hintNone, 0}, {hintSynced, 1}, {hintSynced, 1<<63 - 1}, {hintDeleted, 0}} {
		b := h.append(nil, testWho)
		if len(b) != hintSize || decodeHint(testWho, b) != h {
			t.Errorf("%+v became %q", h, b)
		}
		other := testWho
		other.name = fileName("other")
		if decodeHint(other, b).kind != hintNone {
			t.Error("another session's hint was believed")
		}
		for i := range b {
			bad := bytes.Clone(b)
			bad[i] ^= 1
			if got := decodeHint(testWho, bad); got.kind != hintNone && got != h {
				t.Errorf("%q was read as %+v", bad, got)
			}
			if got := decodeHint(testWho, b[:i]); got.kind != hintNone {
				t.Errorf("%q was read as %+v", b[:i], got)
			}
		}
	}
}

func FuzzRecover(f *testing.F) {
	m := newMade(0).turn("a").turn("b").begin("c")
	f.Add(m.data, uint16(0), byte(0), uint16(len(m.data)), uint8(7))
	f.Add(m.data, uint16(700), byte(1), uint16(len(m.data)-5), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, xor byte, length uint16, synced uint8) {
		data = bytes.Clone(data)
		if int(at) < len(data) {
			data[at] ^= xor
		}
		data = data[:min(len(data), int(length))]
		h := hint{kind: hintNone}
		if synced > 0 {
			h = hint{hintSynced, uint64(synced)}
		}
		l, err := recoverLog(data, testWho, h)
		if err != nil {
			if _, ok := errors.AsType[*DamagedError](err); !ok {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if l.good+len(l.cut) != len(data) || l.last < l.floor {
			t.Fatalf("%d good and %d cut of %d bytes, last %d, F %d", l.good, len(l.cut), len(data), l.last, l.floor)
		}
		_, _ = l.replay(testWho, true)
	})
}

// TestLinesShareABuffer: the buffer of a session's lines is used again, however
// they come, and what is kept does not point into it.
func TestLinesShareABuffer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	long := strings.Repeat("l", scratchMost)
	for i, input := range []string{"a", long, "b", "c"} {
		mustTurn(t, f, "s", fmt.Sprint("k", i), input, "out "+input)
	}
	s := f.entries[fileName("s")].file
	if c := cap(s.scratch); c == 0 || c > scratchMost {
		t.Errorf("%d bytes are kept for lines", c)
	}
	clear(s.scratch[:cap(s.scratch)])
	for _, f := range []*File{f, openStore(t, dir, Options{CacheBytes: -1})} {
		for i, input := range []string{"a", long, "b", "c"} {
			s, err := f.Acquire(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			got, ok := s.ByKey(fmt.Sprint("k", i))
			messages := s.Checkpoint().Messages
			if !ok || string(got.Reply) != string(quoted("out "+input)) || string(messages[2*i].Content) != string(quoted(input)) {
				t.Errorf("turn %d is %.100v", i+1, got)
			}
			s.Release()
		}
	}
}
