package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// exportAll exports sessions of agent bot of a volume.
func exportAll(tb testing.TB, dir string, ids ...string) []byte {
	tb.Helper()
	r, err := OpenReader(dir, "bot")
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	x := NewExportWriter(&b)
	var wrote []ExportedSession
	for _, id := range ids {
		one, _, err := x.Session(tb.Context(), r, id)
		if err != nil {
			tb.Fatal(err)
		}
		wrote = append(wrote, one)
	}
	if err := x.Close(); err != nil {
		tb.Fatal(err)
	}
	checked, err := openExport(b.Bytes())
	if err != nil {
		tb.Fatal(err)
	}
	for i, one := range checked.Sessions() {
		one.at, one.line, one.sum = 0, 0, [32]byte{}
		if one != wrote[i] {
			tb.Errorf("the export holds %+v, and the writer said %+v", one, wrote[i])
		}
	}
	return b.Bytes()
}

func openExport(data []byte) (*Export, error) {
	return OpenExport(context.Background(), bytes.NewReader(data), int64(len(data)))
}

// importAll imports an export into agent bot of a new volume.
func importAll(tb testing.TB, data []byte) (dir string, f *File) {
	tb.Helper()
	x, err := openExport(data)
	if err != nil {
		tb.Fatal(err)
	}
	dir = tb.TempDir()
	f = openStore(tb, dir, Options{})
	for i := range x.Sessions() {
		if err := f.Import(tb.Context(), x, i); err != nil {
			tb.Fatal(err)
		}
	}
	return dir, f
}

// oddText is text that has broken a parser somewhere.
func oddText(r *rand.Rand) string {
	parts := []string{
		"plain", "zwölf", "日本語", "👩‍👩‍👧", "\x00", "\x1b[31m", "\u2028", "\u202e", `"quoted"`, "\\", "<&>", "line\nbreak", "\r", "{\"kind\":\"session\"", "\ufeff", "\x7f",
	}
	var s strings.Builder
	for range 1 + r.IntN(4) {
		s.WriteString(parts[r.IntN(len(parts))])
	}
	return s.String()
}

func oddJSON(r *rand.Rand) json.RawMessage {
	switch r.IntN(6) {
	case 0:
		return json.RawMessage(`{"b": 1.0, "a":[1e400, -0, null], "b":2 }`)
	case 1:
		return json.RawMessage(`12345678901234567890.10`)
	case 2:
		return json.RawMessage("\"raw \xff byte\"")
	case 3:
		return quoted(strings.Repeat("x", r.IntN(70<<10)))
	default:
		return quoted(oddText(r))
	}
}

// randomTurn takes a session one turn further, or tries to: it fails, it is
// left behind by its process, it trims and rewrites the conversation.
func randomTurn(tb testing.TB, r *rand.Rand, f *File, id string) {
	tb.Helper()
	s, err := f.Acquire(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Release()
	b := Begin{InputHash: oddText(r), Input: oddJSON(r)}
	if key := fmt.Sprint("key ", r.IntN(12)); r.IntN(3) > 0 {
		if t, ok := s.ByKey(key); !ok || t.State != turn.Committed { // which is not run again
			b.Key = key
		}
	}
	if _, err := s.Begin(b); err != nil {
		tb.Fatal(err)
	}
	switch r.IntN(10) {
	case 0:
		if err := s.Fail(oddText(r)); err != nil {
			tb.Fatal(err)
		}
		return
	case 1:
		return // begun, and never ended
	}
	c := Commit{Messages: randomEdit(r, s.Checkpoint().Messages), Reply: oddJSON(r)}
	c.Add = []Message{{Role: "user", Content: b.Input}, {Role: oddText(r), Content: oddJSON(r)}}
	if r.IntN(4) > 0 {
		c.Add = append(c.Add, Message{Role: "assistant", Content: c.Reply})
	}
	if r.IntN(3) == 0 {
		c.State = oddJSON(r)
	}
	if _, err := s.Commit(c); err != nil {
		tb.Fatal(err)
	}
	if r.IntN(2) == 0 {
		if err := s.Delivered(); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestExportImportKeepsEverySession: into an empty volume, random conversations
// arrive as they were, and so do their turns; what is imported exports to the
// same bytes; and the next turn goes on as it would have.
func TestExportImportKeepsEverySession(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	from := t.TempDir()
	f := openStore(t, from, Options{})
	var ids []string
	for i := range 40 {
		id := fmt.Sprintf("s%d@x", i)
		ids = append(ids, id)
		for range 1 + r.IntN(12) {
			randomTurn(t, r, f, id)
		}
	}
	if err := f.Close(); err != nil { // so that no turn runs
		t.Fatal(err)
	}
	f = openStore(t, from, Options{})
	data := exportAll(t, from, ids...)
	to, g := importAll(t, data)
	for _, id := range ids {
		sameView(t, mustView(t, f, id), mustView(t, g, id))
	}
	if again := exportAll(t, to, ids...); !bytes.Equal(again, data) {
		t.Error("exporting what was imported gives other bytes")
	}
	for _, id := range ids {
		before := mustView(t, g, id).Turns
		next := mustTurn(t, g, id, "a new key", "in", "out")
		if slices.ContainsFunc(before, func(old Turn) bool { return old.ID == next.ID }) {
			t.Errorf("%s: turn %s has the id of an earlier one", id, next.ID)
		}
	}
	// A process that has none of it loaded reads the same.
	h := openStore(t, to, Options{})
	for _, id := range ids {
		if v := mustView(t, h, id); v.Turn != mustView(t, f, id).Turn+1 {
			t.Errorf("%s: it has %d turns", id, v.Turn)
		}
	}
}

// sameView compares all but the size of the file.
func sameView(t *testing.T, was, is View) {
	t.Helper()
	if was.Session != is.Session || was.Turn != is.Turn || string(was.State) != string(is.State) || !sameMessages(was.Messages, is.Messages) {
		t.Errorf("session %q: the checkpoint of turn %d with %d messages is another one, of turn %d with %d", was.Session, was.Turn, len(was.Messages), is.Turn, len(is.Messages))
	}
	if len(was.Turns) != len(is.Turns) {
		t.Fatalf("session %q: %d turns became %d", was.Session, len(was.Turns), len(is.Turns))
	}
	for i := range was.Turns {
		if !reflect.DeepEqual(was.Turns[i], is.Turns[i]) {
			t.Errorf("session %q: turn %.500v\nbecame %.500v", was.Session, was.Turns[i], is.Turns[i])
		}
	}
}

func mustView(tb testing.TB, s Store, id string) View {
	tb.Helper()
	v, err := s.View(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// TestExportKeepsTurnKeys: a turn that was answered before an export is answered
// with the same reply after the import.
func TestExportKeepsTurnKeys(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	old := mustTurn(t, openStore(t, from, Options{}), "s1", "order-4711", "pay", "paid")
	_, g := importAll(t, exportAll(t, from, "s1"))
	s, err := g.Acquire(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	got, ok := s.ByKey("order-4711")
	if !ok || !reflect.DeepEqual(got, old) {
		t.Errorf("the key finds %+v (%v), want %+v", got, ok, old)
	}
	if got, ok := g.Replay("s1", "order-4711"); !ok || !reflect.DeepEqual(got, old) {
		t.Errorf("a replay finds %+v (%v), want %+v", got, ok, old)
	}
}

// TestExportOfLargeMessages: what fits into a session file fits into an export,
// at the limit too, and comes back.
func TestExportOfLargeMessages(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	f := openStore(t, from, Options{})
	s, err := f.Acquire(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	role := strings.Repeat("\x01", maxRefRole)
	commit := func(input, reply json.RawMessage, add ...Message) {
		t.Helper()
		if _, err := s.Begin(Begin{Input: input}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(Commit{Messages: s.Checkpoint().Messages, Add: add, Reply: reply}); err != nil {
			t.Fatal(err)
		}
	}
	small := quoted("ok")
	input := quoted(strings.Repeat("x", writeLimit-250))
	commit(input, small, Message{Role: role, Content: input}) // the input by reference, with the longest role
	commit(small, quoted("a reply"), Message{Role: role, Content: quoted("a reply")}, Message{Role: "user", Content: small})
	var many []Message
	for range 3000 {
		many = append(many, Message{Role: strings.Repeat("\x02", 200), Content: small})
	}
	commit(small, small, many...)
	s.Release()
	data := exportAll(t, from, "s1")
	_, g := importAll(t, data)
	sameView(t, mustView(t, f, "s1"), mustView(t, g, "s1"))
}

// TestExportHidesTheVolume: nothing that proves a line or a volume leaves.
func TestExportHidesTheVolume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s1", "k", "hello", "there")
	data := exportAll(t, dir, "s1")
	head, _, _ := bytes.Cut(readFile(t, pathOf(dir, "s1")), []byte("\n"))
	l, err := decodeLine(append(head, '\n'), []byte(f.volume))
	if err != nil {
		t.Fatal(err)
	}
	h, err := decode[header](l.d)
	if err != nil {
		t.Fatal(err)
	}
	for what, secret := range map[string]string{"salt": h.Salt, "volume": f.volume, "secret": fmt.Sprintf("%x", f.secret), "line hash": `"h":`} {
		if strings.Contains(string(data), secret) {
			t.Errorf("the export shows the %s", what)
		}
	}
	want := []string{`"kind":"session","agent":"bot","session_id":"s1","turns":1,"messages":2`, `"outcome":"committed","key":"k"`, `"role":"user","content":"hello"`, `"reply":"there"`}
	for _, part := range want {
		if !strings.Contains(string(data), part) {
			t.Errorf("the export does not show %s:\n%s", part, data)
		}
	}
}

// TestExportNoticesEveryFlippedByte: every bit of a short export, and every
// length that it could be cut to.
func TestExportNoticesEveryFlippedByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s1", "k", "hello", "there")
	mustTurn(t, f, "s2", "", "wer", "da")
	data := exportAll(t, dir, "s1", "s2")
	if _, err := openExport(data); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, data []byte) {
		t.Helper()
		_, err := openExport(data)
		if !errors.Is(err, ErrExport) && !errors.Is(err, ErrNotExport) && !errors.Is(err, ErrNewerExport) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			refused(fmt.Sprintf("bit %d of byte %d", bit, i), bad)
		}
		refused(fmt.Sprintf("cut at %d", i), data[:i])
	}
	refused("a byte more", append(bytes.Clone(data), '\n'))
	refused("twice", append(bytes.Clone(data), data...))
	_, err := openExport([]byte("{\"kind\":\"flisk-sessions\",\"version\":2}\n"))
	if !errors.Is(err, ErrNewerExport) {
		t.Errorf("version 2: %v", err)
	}
	for _, other := range []string{"", "\n", "hello", "{}\n", strings.Repeat("x", 100)} {
		if _, err := openExport([]byte(other)); !errors.Is(err, ErrNotExport) {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// sealed makes an export of lines that nobody wrote.
func sealed(lines ...string) []byte {
	var b bytes.Buffer
	x := NewExportWriter(&b)
	for _, line := range lines {
		if strings.HasPrefix(line, `{"kind":"session",`) {
			x.sessions++
		}
		x.line([]byte(line))
	}
	_ = x.Close() // a buffer takes all
	return b.Bytes()
}

// TestExportIsNotTrusted: whoever can compute a checksum cannot make the store
// write what it could not have written itself.
func TestExportIsNotTrusted(t *testing.T) {
	t.Parallel()
	name := fileName("s1")
	session := func(turns, messages int) string {
		return fmt.Sprintf(`{"kind":"session","agent":"bot","session_id":"s1","turns":%d,"messages":%d}`, turns, messages)
	}
	one := `{"kind":"turn","turn":1,"turn_id":"` + name + `-1","outcome":"committed","messages":[{"role":"user","content":1}],"reply":1}`
	state := `{"kind":"state","state":1}`
	if _, err := openExport(sealed(session(1, 1), one, state)); err != nil {
		t.Fatal(err)
	}
	keyed := func(n, number int, outcome string) string {
		line := fmt.Sprintf(`{"kind":"turn","turn":%d,"turn_id":"%s-%d","outcome":"%s","key":"k"`, number, name, n, outcome)
		if outcome != "committed" {
			return line + `,"reason":"no"}`
		}
		return line + `,"messages":[{"role":"user","content":1}],"reply":1}`
	}
	for what, data := range map[string][]byte{
		"a key that failed": sealed(session(1, 1), keyed(1, 1, "failed"), keyed(2, 1, "failed"), keyed(3, 1, "committed")),
		"null everywhere":   sealed(session(1, 1), strings.NewReplacer(`"content":1`, `"content":null`, `"reply":1`, `"reply":null`).Replace(one), `{"kind":"state","state":null}`),
	} {
		if _, err := openExport(data); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	replace := func(old, with string) []byte { return sealed(session(1, 1), strings.ReplaceAll(one, old, with)) }
	for what, data := range map[string][]byte{
		"no session":            sealed(one),
		"no turn":               sealed(session(0, 0)),
		"another count":         sealed(session(2, 1), one),
		"another message count": sealed(session(1, 2), one),
		"twice":                 sealed(session(1, 1), one, session(1, 1), one),
		"bad agent":             sealed(strings.ReplaceAll(session(1, 1), "bot", "../x"), one),
		"bad session":           sealed(strings.ReplaceAll(session(1, 1), "s1", "../x"), one),
		"unknown field":         replace(`"turn":1`, `"new":1,"turn":1`),
		"unknown kind":          sealed(session(1, 1), one, `{"kind":"step"}`),
		"another's turn":        replace(name, fileName("s2")),
		"no turn id":            replace(name+"-1", name),
		"odd turn id":           replace(name+"-1", name+"-01"),
		"no reply":              replace(`,"reply":1`, ``),
		"not JSON":              replace(`"reply":1`, `"reply":1x`),
		"deep":                  replace(`"reply":1`, `"reply":`+deep),
		"running":               replace("committed", "running"),
		"failed with a reply":   replace("committed", "failed"),
		"a reason":              replace(`"outcome"`, `"reason":"x","outcome"`),
		"bad key":               replace(`"outcome"`, `"key":"ö","outcome"`),
		"number":                replace(`"turn":1`, `"turn":2`),
		"the same id again":     sealed(session(2, 2), one, strings.ReplaceAll(one, `"turn":1`, `"turn":2`)),
		"no content":            replace(`"content":1`, `"content":`),
		"content left out":      replace(`,"content":1`, ``),
		"two states":            sealed(session(1, 1), one, state, state),
		"state first":           sealed(session(1, 1), state, one),
		"messages of none":      sealed(session(0, 1), `{"kind":"turn","turn":1,"turn_id":"`+name+`-1","outcome":"failed","messages":[{"role":"user","content":1}]}`),
		"messages first":        sealed(session(1, 2), `{"kind":"messages","messages":[{"role":"user","content":1}]}`, one),
		"a key again":           sealed(session(2, 2), keyed(1, 1, "committed"), keyed(2, 2, "committed")),
		"a key after a parked":  sealed(session(1, 1), keyed(1, 1, "parked"), keyed(2, 1, "committed")),
		"a failure of a known":  sealed(session(1, 1), keyed(1, 1, "committed"), keyed(2, 2, "failed")),
		"a hole":                sealed(session(2, 2), keyed(1, 1, "committed"), strings.ReplaceAll(one, `"turn":1,"turn_id":"`+name+`-1`, `"turn":3,"turn_id":"`+name+`-2`)),
		"a number again":        sealed(session(2, 2), one, strings.ReplaceAll(one, name+"-1", name+"-2")),
		"an older turn":         sealed(session(2, 2), strings.ReplaceAll(one, name+"-1", name+"-7"), strings.ReplaceAll(one, `"turn":1,"turn_id":"`+name+`-1`, `"turn":2,"turn_id":"`+name+`-6`)),
		"no role":               replace(`"role":"user",`, ``),
		"an empty role":         replace(`"user"`, `""`),
		"state of no turn":      sealed(session(0, 0), keyed(1, 1, "failed"), state),
		"behind its state":      sealed(session(1, 2), one, state, `{"kind":"messages","messages":[{"role":"user","content":1}]}`),
		"of a failed turn":      sealed(session(1, 2), one, keyed(2, 2, "failed"), `{"kind":"messages","messages":[{"role":"user","content":1}]}`),
		"a long line":           sealed(session(1, 1), one+strings.Repeat(" ", maxExportLine)),
		"a large reply":         replace(`"reply":1`, `"reply":"`+strings.Repeat("x", maxElement)+`"`),
		"a large message":       replace(`"content":1`, `"content":"`+strings.Repeat("x", maxElement)+`"`),
	} {
		if _, err := openExport(data); !errors.Is(err, ErrExport) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWhatIsImportedLoads: a session that its own file would not give back is
// refused, whatever let it through.
func TestWhatIsImportedLoads(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(*state){
		"":                    func(*state) {},
		"a number is skipped": func(s *state) { s.turns[0].Number = 2 },
		"no id":               func(s *state) { s.turns[0].ID = "x" },
		"another reason":      func(s *state) { s.turns[0].State, s.turns[0].Reason = turn.Parked, "\xff" },
		"another role":        func(s *state) { s.messages[0].Role = "\xff" },
		"another state":       func(s *state) { s.value = json.RawMessage("1 ") },
	} {
		s := newState("s1")
		b, err := s.start(fileName("s1"), 1, Begin{Input: quoted("in")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.apply(1, b); err != nil {
			t.Fatal(err)
		}
		c, err := s.prepare(Commit{Add: []Message{{Role: "user", Content: quoted("in")}}, State: json.RawMessage("1"), Reply: quoted("out")})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.apply(3, c); err != nil {
			t.Fatal(err)
		}
		spoil(s)
		if err := s.loadsAsItIs(); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// TestImportRefusesWhatIsThere: a session, one that is damaged, and one that was
// deleted and begun again; an id whose session was deleted is free, and its old
// turn ids are not given out again.
func TestImportRefusesWhatIsThere(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	mustTurn(t, openStore(t, from, Options{}), "s1", "k", "hello", "there")
	x, err := openExport(exportAll(t, from, "s1"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f := openStore(t, dir, Options{CacheBytes: -1})
	mustTurn(t, f, "s1", "mine", "mine", "mine")
	var last Turn
	for i := range 5 {
		last = mustTurn(t, f, "s1", "", fmt.Sprint(i), "mine")
	}
	before := readFile(t, pathOf(dir, "s1"))
	if err := f.Import(t.Context(), x, 0); !errors.Is(err, ErrSessionExists) {
		t.Errorf("over a session: %v", err)
	}
	if !bytes.Equal(before, readFile(t, pathOf(dir, "s1"))) {
		t.Error("the refused import changed the file")
	}
	bad := bytes.Clone(before)
	bad[len(bad)/2] ^= 1
	writeFile(t, pathOf(dir, "s1"), bad)
	if err := f.Import(t.Context(), x, 0); !errors.Is(err, ErrSessionExists) {
		t.Errorf("over a damaged session: %v", err)
	}
	if err := f.Delete(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	if err := f.Import(t.Context(), x, 0); err != nil {
		t.Fatalf("after a delete: %v", err)
	}
	next := mustTurn(t, f, "s1", "", "more", "more")
	n, _ := turnLine(next.ID)
	if old, _ := turnLine(last.ID); n <= old {
		t.Errorf("turn %s was given out before, up to %s", next.ID, last.ID)
	}
}

// TestImportUnderTheLock: while somebody has the session an import waits, and
// then finds that it is there.
func TestImportUnderTheLock(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	mustTurn(t, openStore(t, from, Options{}), "s1", "k", "hello", "there")
	x, err := openExport(exportAll(t, from, "s1"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	running, importing := openStore(t, dir, Options{}), openStore(t, dir, Options{})
	s, err := running.Acquire(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	var got error
	done.Go(func() { got = importing.Import(context.Background(), x, 0) })
	if _, err := s.Begin(Begin{Input: quoted("mine")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(Commit{Reply: quoted("mine")}); err != nil {
		t.Fatal(err)
	}
	s.Release()
	done.Wait()
	// Whoever came first has the id; never both.
	v := mustView(t, running, "s1")
	if !errors.Is(got, ErrSessionExists) || v.Turn != 1 || string(v.Turns[0].Reply) != `"mine"` {
		t.Errorf("the import said %v, and the session is %+v", got, v)
	}
}

// TestImportSurvivesFaults: whatever call fails, the session is there whole or
// not there, for the store that met the fault and for the next one; and when it
// is not, it can be imported again.
func TestImportSurvivesFaults(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	old := openStore(t, from, Options{})
	mustTurn(t, old, "s1", "k", "hello", "there")
	mustTurn(t, old, "s1", "l", "more", "less")
	want := mustView(t, old, "s1")
	x, err := openExport(exportAll(t, from, "s1"))
	if err != nil {
		t.Fatal(err)
	}
	trial, ops := twin(t, t.TempDir(), Options{})
	if err := trial.Import(t.Context(), x, 0); err != nil {
		t.Fatal(err)
	}
	calls := ops.Ops()
	for i, op := range calls {
		nth := durabletest.Count(calls[:i+1], op)
		t.Run(fmt.Sprintf("%s.%d", op, nth), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f, fsys := twin(t, dir, Options{})
			fsys.Fail(durabletest.Fault{Op: op, Nth: nth, Err: syscall.EIO})
			err := f.Import(t.Context(), x, 0)
			for _, s := range []*File{f, openStore(t, dir, Options{})} {
				v, viewErr := s.View(t.Context(), "s1")
				switch {
				case err != nil && !errors.Is(viewErr, ErrNoSession):
					t.Errorf("the import said %v, and the session is %+v (%v)", err, v, viewErr)
				case err == nil && (viewErr != nil || !reflect.DeepEqual(v.Checkpoint, want.Checkpoint)):
					t.Errorf("the import went well, and the session is %+v (%v)", v, viewErr)
				}
			}
			if err != nil {
				if err := f.Import(t.Context(), x, 0); err != nil {
					t.Errorf("again: %v", err)
				}
			}
		})
	}
}

// TestImportChecksAgain: an export that changes between its check and the import
// of a session is refused.
func TestImportChecksAgain(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	mustTurn(t, openStore(t, from, Options{}), "s1", "k", "hello", "there")
	data := exportAll(t, from, "s1")
	x, err := openExport(data)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[bytes.Index(data, []byte("hello")):], "jello")
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	if err := f.Import(t.Context(), x, 0); !errors.Is(err, ErrExport) {
		t.Errorf("a changed export: %v", err)
	}
	if _, err := f.View(t.Context(), "s1"); !errors.Is(err, ErrNoSession) {
		t.Errorf("the session is there: %v", err)
	}
}

// TestExportOfAnOpenTurn: the turn that runs is not in it, and says so; the one
// whose commit was written and not marked is.
func TestExportOfAnOpenTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s1", "", "hello", "there")
	s, err := f.Acquire(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if _, err := s.Begin(Begin{Key: "k", Input: quoted("more")}); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(dir, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	export := func() (data []byte, running bool) {
		var b bytes.Buffer
		x := NewExportWriter(&b)
		_, running, err := x.Session(t.Context(), r, "s1")
		if err = errors.Join(err, x.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes(), running
	}
	if data, running := export(); !running || !strings.Contains(string(data), reasonExported) {
		t.Errorf("running %v, export\n%s", running, data)
	}
	var unmarked []byte
	_, err = s.Commit(Commit{Reply: quoted("less"), At: func(p turn.Point) {
		if p == turn.PointWritten {
			unmarked, _ = export()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if data, running := export(); running || !bytes.Equal(data, unmarked) {
		t.Errorf("running %v, export\n%s\nand before the mark\n%s", running, data, unmarked)
	}
}

// TestExportGoesOnBehindADamagedSession, and ends with the first failed write.
func TestExportGoesOnBehindADamagedSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s1", "", "hello", "there")
	mustTurn(t, f, "s2", "", "hello", "there")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	bad := readFile(t, pathOf(dir, "s1"))
	bad[len(bad)/2] ^= 1
	writeFile(t, pathOf(dir, "s1"), bad)
	r, err := OpenReader(dir, "bot")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	x := NewExportWriter(&b)
	_, _, err = x.Session(t.Context(), r, "s1")
	if _, damaged := errors.AsType[*DamagedError](err); !damaged {
		t.Errorf("a damaged session: %v", err)
	}
	if _, _, err := x.Session(t.Context(), r, "s2"); err != nil {
		t.Error(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := openExport(b.Bytes()); err != nil || len(got.Sessions()) != 1 || got.Sessions()[0].Session != "s2" {
		t.Errorf("the export holds %+v (%v)", got, err)
	}
	in, out := io.Pipe()
	_ = in.CloseWithError(errFull) // never fails
	x = NewExportWriter(out)
	_, _, _ = x.Session(t.Context(), r, "s2") // may fit into the buffer
	if err := x.Close(); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("no space left")
