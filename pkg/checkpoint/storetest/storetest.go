// Package storetest is the conformance suite of [checkpoint.Store]: a case for
// each sentence of its contract, run on every implementation.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// Run runs the suite. open makes an empty store and closes it at the end of the
// test; a second Close must do no harm.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Store) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.waits {
				synctest.Test(t, func(t *testing.T) { c.run(T{t, open(t)}) })
			} else {
				c.run(T{t, open(t)})
			}
		})
	}
}

// A case that waits runs in a bubble of testing/synctest, where time passes only
// when every goroutine is blocked: so it knows who waits, without guessing.
var cases = []struct {
	name  string
	waits bool
	run   func(T)
}{
	{"TestC29_BadIDsAreRefused", false, badIDs},
	{"TestC29_OddIDsAreTheirOwnSessions", false, oddIDs},
	{"NewSessionIsEmpty", false, newSession},
	{"TurnFromBeginToCommit", false, oneTurn},
	{"CommitSetsTheWholeConversation", false, wholeConversation},
	{"StateIsKeptUnlessGiven", false, stateKept},
	{"BytesAreKept", false, bytesKept},
	{"BadJSONIsRefused", false, badJSON},
	{"TooLargeIsRefused", false, tooLarge},
	{"CheckpointsDoNotChange", false, checkpointsDoNotChange},
	{"OnlyOneTurnIsBegun", false, onlyOneBegun},
	{"FailCommitsNothing", false, failCommitsNothing},
	{"UnfinishedTurnIsFailedAndSuperseded", false, unfinished},
	{"ByKeyFindsTheNewest", false, byKey},
	{"DeliveredIsNoted", false, delivered},
	{"PointsArePassedInOrder", false, points},
	{"AcquireKeepsTheOrder", true, acquireOrder},
	{"AcquireGivesUpAtOnce", true, acquireGivesUp},
	{"SessionsDoNotBlockEachOther", false, independent},
	{"TestC30_TwentyAtOnceAllCount", false, twentyAtOnce},
	{"ReplayNeedsNoLock", false, replay},
	{"ViewNeedsNoLock", false, view},
	{"TurnNeedsNoLock", false, turnByID},
	{"ListPages", false, listPages},
	{"DeleteEmptiesTheID", false, deleteEmpties},
	{"DeleteWaitsForTheLock", true, deleteWaits},
	{"ReleaseMayBeRepeated", true, releaseTwice},
	{"InfoDescribesTheVolume", false, info},
	{"ClosedStoreRefuses", false, closed},
	{"CloseWaitsForHolders", true, closeWaits},
}

// T is a test with its store.
type T struct {
	*testing.T
	store checkpoint.Store
}

func quoted(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

func (t T) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t T) acquire(id string) checkpoint.Session {
	t.Helper()
	s, err := t.store.Acquire(t.Context(), id)
	t.must(err)
	return s
}

func (t T) begin(s checkpoint.Session, key, input string) checkpoint.Turn {
	t.Helper()
	turn, err := s.Begin(checkpoint.Begin{Key: key, InputHash: "hash of " + input, Input: quoted(input)})
	t.must(err)
	return turn
}

// pair is what a turn usually adds.
func pair(input, reply string) []checkpoint.Message {
	return []checkpoint.Message{{Role: "user", Content: quoted(input)}, {Role: "assistant", Content: quoted(reply)}}
}

func (t T) commit(s checkpoint.Session, input, reply string) checkpoint.Turn {
	t.Helper()
	turn, err := s.Commit(checkpoint.Commit{Messages: s.Checkpoint().Messages, Add: pair(input, reply), Reply: quoted(reply)})
	t.must(err)
	return turn
}

// turn runs a whole turn.
func (t T) turn(id, key, input, reply string) checkpoint.Turn {
	t.Helper()
	s := t.acquire(id)
	defer s.Release()
	t.begin(s, key, input)
	return t.commit(s, input, reply)
}

// texts are the contents of a conversation.
func texts(messages []checkpoint.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Role+":"+m.Text())
	}
	return out
}

func (t T) wantTexts(messages []checkpoint.Message, want ...string) {
	t.Helper()
	if got := texts(messages); !slices.Equal(got, want) {
		t.Fatalf("conversation is %q, want %q", got, want)
	}
}

func (t T) wantErr(err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func badIDs(t T) {
	ctx := t.Context()
	for _, id := range []string{"", "..", "../../etc/x", "a/b", ".tmp", "-x", "a b", "ü", "ü", "a\x00b", "a\nb", strings.Repeat("x", 129), strings.Repeat("x", 5000)} {
		_, err := t.store.Acquire(ctx, id)
		t.wantErr(err, turn.ErrSessionID)
		_, err = t.store.View(ctx, id)
		t.wantErr(err, turn.ErrSessionID)
		t.wantErr(t.store.Delete(ctx, id), turn.ErrSessionID)
		if _, ok := t.store.Replay(id, "k"); ok {
			t.Fatalf("Replay(%q) found a turn", id)
		}
	}
	rows, _, err := t.store.List(ctx, "", 10)
	t.must(err)
	if len(rows) != 0 {
		t.Fatalf("there are sessions: %+v", rows)
	}
}

func oddIDs(t T) {
	ids := []string{"CON", "x.tmp", "x.lock", "A", "a", "tg:4711", "ann@example.org", strings.Repeat("x", 128), "a.jsonl", "0"}
	for _, id := range ids {
		t.turn(id, "", "I am "+id, "hello "+id)
	}
	for _, id := range ids {
		v, err := t.store.View(t.Context(), id)
		t.must(err)
		if v.Session != id {
			t.Fatalf("session is %q, want %q", v.Session, id)
		}
		t.wantTexts(v.Messages, "user:I am "+id, "assistant:hello "+id)
	}
}

func newSession(t T) {
	s := t.acquire("new")
	cp := s.Checkpoint()
	if cp.Session != "new" || cp.Turn != 0 || len(cp.Messages) != 0 || cp.State != nil {
		t.Fatalf("a new session has %+v", cp)
	}
	if _, ok := s.Last(); ok {
		t.Fatal("a new session has a last turn")
	}
	if _, ok := s.ByKey("k"); ok {
		t.Fatal("a new session knows a key")
	}
	s.Release()
	_, err := t.store.View(t.Context(), "new")
	t.wantErr(err, checkpoint.ErrNoSession)
	rows, _, err := t.store.List(t.Context(), "", 10)
	t.must(err)
	if len(rows) != 0 {
		t.Fatalf("a session without a turn is listed: %+v", rows)
	}
}

func oneTurn(t T) {
	s := t.acquire("s")
	defer s.Release()
	for number := 1; number <= 3; number++ {
		input, reply := fmt.Sprint("in ", number), fmt.Sprint("out ", number)
		begun := t.begin(s, "", input)
		if begun.ID == "" || begun.Session != "s" || begun.Number != number || begun.State != turn.Running || begun.InputHash != "hash of "+input {
			t.Fatalf("begun turn is %+v", begun)
		}
		if last, ok := s.Last(); !ok || last.ID != begun.ID || last.State != turn.Running {
			t.Fatalf("last turn is %+v", last)
		}
		if s.Checkpoint().Turn != number-1 {
			t.Fatal("a begun turn counts")
		}
		done := t.commit(s, input, reply)
		if done.ID != begun.ID || done.Number != number || done.State != turn.Committed || string(done.Reply) != string(quoted(reply)) {
			t.Fatalf("committed turn is %+v", done)
		}
		cp := s.Checkpoint()
		if cp.Turn != number || len(cp.Messages) != 2*number {
			t.Fatalf("checkpoint after turn %d: turn %d, %d messages", number, cp.Turn, len(cp.Messages))
		}
	}
}

func wholeConversation(t T) {
	message := func(s string) checkpoint.Message { return checkpoint.Message{Role: "r", Content: quoted(s)} }
	conversations := [][]checkpoint.Message{
		{message("a"), message("b"), message("c")},
		{message("b"), message("c"), message("d")},               // the front is gone
		{message("b"), message("X"), message("d"), message("e")}, // one is another
		{message("b"), message("e"), message("b")},               // out of order, and twice
		nil, // all is gone
		{message("z")},
		{message("z"), message("in"), message("out")}, // as the input and the reply
	}
	for i, messages := range conversations {
		s := t.acquire("s")
		t.begin(s, "", "in")
		split := len(messages) / 2
		_, err := s.Commit(checkpoint.Commit{Messages: messages[:split], Add: messages[split:], Reply: quoted("out")})
		t.must(err)
		t.wantTexts(s.Checkpoint().Messages, texts(messages)...)
		s.Release()
		v, err := t.store.View(t.Context(), "s")
		t.must(err)
		t.wantTexts(v.Messages, texts(messages)...)
		if v.Turn != i+1 {
			t.Fatalf("turn is %d, want %d", v.Turn, i+1)
		}
	}
}

func stateKept(t T) {
	s := t.acquire("s")
	defer s.Release()
	for _, c := range []struct{ give, want string }{{"", ""}, {`{"a":1}`, `{"a":1}`}, {"", `{"a":1}`}, {`{"a":1}`, `{"a":1}`}, {"null", "null"}, {"", "null"}, {"7", "7"}} {
		t.begin(s, "", "in")
		commit := checkpoint.Commit{Reply: quoted("out")}
		if c.give != "" {
			commit.State = json.RawMessage(c.give)
		}
		_, err := s.Commit(commit)
		t.must(err)
		if got := string(s.Checkpoint().State); got != c.want {
			t.Fatalf("state after %q is %q, want %q", c.give, got, c.want)
		}
		v, err := t.store.View(t.Context(), "s")
		t.must(err)
		if got := string(v.State); got != c.want {
			t.Fatalf("state after %q is read as %q, want %q", c.give, got, c.want)
		}
	}
}

func bytesKept(t T) {
	for i, value := range []string{`"ü 🙂 \u00fc <&> \u2028"`, `1.0`, `1e400`, `null`, `{"b":1,"a":[{}, 2 ]}`, `"` + "\xff" + `"`, `{"h":"00000000000000000000000000000000","n":1,"s":0,"k":"commit"}`} {
		raw := json.RawMessage(value)
		id := fmt.Sprint("s", i)
		s := t.acquire(id)
		_, err := s.Begin(checkpoint.Begin{Input: raw})
		t.must(err)
		given := slices.Clone(raw)
		done, err := s.Commit(checkpoint.Commit{Add: []checkpoint.Message{{Role: "ü<&>\"", Content: raw}, {Role: "", Content: given}}, Reply: given, State: given})
		t.must(err)
		for i := range given {
			given[i] = 'x' // the store has its own copy
		}
		s.Release()
		v, err := t.store.View(t.Context(), id)
		t.must(err)
		for what, got := range map[string]json.RawMessage{"reply": done.Reply, "first": v.Messages[0].Content, "second": v.Messages[1].Content, "state": v.State, "stored reply": v.Turns[0].Reply} {
			if string(got) != value {
				t.Errorf("%s is %q, want %q", what, got, value)
			}
		}
		if v.Messages[0].Role != "ü<&>\"" || v.Messages[1].Role != "" {
			t.Errorf("roles are %q and %q", v.Messages[0].Role, v.Messages[1].Role)
		}
	}
}

func badJSON(t T) {
	s := t.acquire("s")
	defer s.Release()
	for _, bad := range []string{"", "{", `"a`, "nul", "\"a\nb\"", `1 2`} {
		if _, err := s.Begin(checkpoint.Begin{Input: json.RawMessage(bad)}); err == nil {
			t.Fatalf("input %q was taken", bad)
		}
	}
	t.begin(s, "", "in")
	for _, bad := range []string{"", "{", "\"a\nb\""} {
		raw := json.RawMessage(bad)
		for _, c := range []checkpoint.Commit{
			{Reply: raw},
			{Reply: quoted("ok"), State: raw},
			{Reply: quoted("ok"), Add: []checkpoint.Message{{Role: "user", Content: raw}}},
		} {
			if c.State != nil && bad == "" {
				continue // an empty state is none: nothing to write
			}
			if _, err := s.Commit(c); err == nil {
				t.Fatalf("commit %+v was taken", c)
			}
		}
	}
	t.commit(s, "in", "out") // still begun
	if cp := s.Checkpoint(); cp.Turn != 1 || len(cp.Messages) != 2 {
		t.Fatalf("checkpoint is %+v", cp)
	}
}

func tooLarge(t T) {
	huge := quoted(strings.Repeat("x", checkpoint.MaxLine))
	s := t.acquire("s")
	defer s.Release()
	_, err := s.Begin(checkpoint.Begin{Input: huge})
	t.wantErr(err, checkpoint.ErrTooLarge)
	t.begin(s, "", "in")
	_, err = s.Commit(checkpoint.Commit{Reply: huge})
	t.wantErr(err, checkpoint.ErrTooLarge)
	t.commit(s, "in", "out")
	t.wantTexts(s.Checkpoint().Messages, "user:in", "assistant:out")
}

func checkpointsDoNotChange(t T) {
	s := t.acquire("s")
	defer s.Release()
	var got []checkpoint.Checkpoint
	var want [][]string
	for i := range 50 {
		t.begin(s, "", "in")
		cp := s.Checkpoint()
		if cap(cp.Messages) != len(cp.Messages) {
			t.Fatalf("capacity %d, length %d", cap(cp.Messages), len(cp.Messages))
		}
		_ = append(cp.Messages, checkpoint.Message{Role: "stray", Content: quoted("stray")})
		keep := cp.Messages
		if i%7 == 6 {
			keep = keep[3:]
		}
		if i%11 == 10 {
			keep = keep[:len(keep)-2]
		}
		_, err := s.Commit(checkpoint.Commit{Messages: keep, Add: pair(fmt.Sprint("in ", i), fmt.Sprint("out ", i)), Reply: quoted("r")})
		t.must(err)
		got = append(got, cp)
		want = append(want, texts(cp.Messages))
	}
	for i := range got {
		t.wantTexts(got[i].Messages, want[i]...)
	}
}

func onlyOneBegun(t T) {
	s := t.acquire("s")
	defer s.Release()
	if _, err := s.Commit(checkpoint.Commit{Reply: quoted("x")}); err == nil {
		t.Fatal("a commit without a begin was taken")
	}
	if err := s.Fail("x"); err == nil {
		t.Fatal("a failure without a begin was taken")
	}
	t.begin(s, "", "in")
	if _, err := s.Begin(checkpoint.Begin{Input: quoted("again")}); err == nil {
		t.Fatal("a second begin was taken")
	}
	t.commit(s, "in", "out")
	if _, err := s.Commit(checkpoint.Commit{Reply: quoted("x")}); err == nil {
		t.Fatal("a second commit was taken")
	}
}

func failCommitsNothing(t T) {
	s := t.acquire("s")
	t.begin(s, "", "in")
	t.commit(s, "in", "out")
	failed := t.begin(s, "k", "bad")
	t.must(s.Fail("it broke"))
	if cp := s.Checkpoint(); cp.Turn != 1 || len(cp.Messages) != 2 {
		t.Fatalf("checkpoint is %+v", cp)
	}
	last, ok := s.Last()
	if !ok || last.ID != failed.ID || last.State != turn.Failed || last.Reason != "it broke" {
		t.Fatalf("last turn is %+v", last)
	}
	again := t.begin(s, "k", "good")
	if again.Number != failed.Number || again.ID == failed.ID {
		t.Fatalf("the next turn is %+v after %+v", again, failed)
	}
	t.commit(s, "good", "fine")
	s.Release()
	got, err := t.store.Turn(t.Context(), failed.ID)
	t.must(err)
	if got.State != turn.Failed || got.Reason != "it broke" || got.Reply != nil {
		t.Fatalf("the failed turn is %+v", got)
	}
}

func unfinished(t T) {
	s := t.acquire("s")
	first := t.begin(s, "k", "in")
	s.Release()
	got, err := t.store.Turn(t.Context(), first.ID)
	t.must(err)
	if got.State != turn.Failed || got.Reason == "" {
		t.Fatalf("a turn that nobody works on is %+v", got)
	}
	s = t.acquire("s")
	defer s.Release()
	if found, ok := s.ByKey("k"); !ok || found.State != turn.Failed || found.Reason == "" {
		t.Fatalf("by key it is %+v", found)
	}
	if last, ok := s.Last(); !ok || last.ID != first.ID || last.State != turn.Failed {
		t.Fatalf("last is %+v", last)
	}
	second := t.begin(s, "k", "in")
	if second.Number != 1 || second.ID == first.ID {
		t.Fatalf("the next turn is %+v", second)
	}
	t.commit(s, "in", "out")
	got, err = t.store.Turn(t.Context(), first.ID)
	t.must(err)
	if got.State != turn.Failed {
		t.Fatalf("a superseded turn is %+v", got)
	}
}

func byKey(t T) {
	s := t.acquire("s")
	defer s.Release()
	t.begin(s, "k", "one")
	t.must(s.Fail("no"))
	if got, ok := s.ByKey("k"); !ok || got.State != turn.Failed {
		t.Fatalf("found %+v", got)
	}
	t.begin(s, "k", "two")
	if got, ok := s.ByKey("k"); !ok || got.State != turn.Running || got.InputHash != "hash of two" {
		t.Fatalf("found %+v", got)
	}
	t.commit(s, "two", "reply")
	t.begin(s, "other", "three")
	t.commit(s, "three", "another")
	got, ok := s.ByKey("k")
	if !ok || got.State != turn.Committed || got.Key != "k" || string(got.Reply) != `"reply"` {
		t.Fatalf("found %+v", got)
	}
	if _, ok := s.ByKey("unknown"); ok {
		t.Fatal("found an unknown key")
	}
}

func delivered(t T) {
	s := t.acquire("s")
	t.must(s.Delivered()) // of nothing
	t.begin(s, "", "in")
	t.commit(s, "in", "out")
	if last, _ := s.Last(); last.Delivered {
		t.Fatal("delivered before it was")
	}
	t.must(s.Delivered())
	t.must(s.Delivered())
	if last, _ := s.Last(); !last.Delivered {
		t.Fatal("not delivered")
	}
	s.Release()
	v, err := t.store.View(t.Context(), "s")
	t.must(err)
	if !v.Turns[0].Delivered {
		t.Fatal("not delivered when read again")
	}
}

func points(t T) {
	s := t.acquire("s")
	defer s.Release()
	t.begin(s, "", "in")
	var passed []turn.Point
	_, err := s.Commit(checkpoint.Commit{Reply: quoted("out"), At: func(p turn.Point) { passed = append(passed, p) }})
	t.must(err)
	if want := []turn.Point{turn.PointWritten, turn.PointSynced, turn.PointMarked}; !slices.Equal(passed, want) {
		t.Fatalf("passed %v, want %v", passed, want)
	}
}

func acquireOrder(t T) {
	s := t.acquire("s")
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	const n = 8
	for i := range n {
		wg.Go(func() {
			own, err := t.store.Acquire(t.Context(), "s")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			own.Release()
		})
		t.settle("s")
	}
	s.Release()
	wg.Wait()
	if !slices.IsSorted(order) || len(order) != n {
		t.Fatalf("order is %v", order)
	}
}

// settle returns when all goroutines wait, and checks that the session is held.
func (t T) settle(id string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if s, err := t.store.Acquire(ctx, id); err == nil {
		s.Release()
		t.Fatal("the session is free")
	}
}

func acquireGivesUp(t T) {
	s := t.acquire("s")
	why := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error, 1)
	go func() { _, err := t.store.Acquire(ctx, "s"); result <- err }()
	t.settle("s")
	cancel(why)
	t.wantErr(<-result, why)
	if _, err := t.store.Acquire(ctx, "free"); !errors.Is(err, why) {
		t.Fatalf("Acquire with an ended context: %v", err)
	}
	next := make(chan checkpoint.Session, 1)
	go func() { s, _ := t.store.Acquire(t.Context(), "s"); next <- s }()
	s.Release()
	(<-next).Release()
}

func independent(t T) {
	a := t.acquire("a")
	defer a.Release()
	t.turn("b", "", "in", "out")
}

func twentyAtOnce(t T) {
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s, err := t.store.Acquire(t.Context(), "s")
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Release()
			cp := s.Checkpoint()
			input := fmt.Sprint("in ", i)
			if _, err := s.Begin(checkpoint.Begin{Key: fmt.Sprint("k", i), Input: quoted(input)}); err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Commit(checkpoint.Commit{Messages: cp.Messages, Add: pair(input, "out"), Reply: quoted("out")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	v, err := t.store.View(t.Context(), "s")
	t.must(err)
	if v.Turn != n || len(v.Messages) != 2*n {
		t.Fatalf("%d turns, %d messages", v.Turn, len(v.Messages))
	}
	seen := map[string]bool{}
	for i, turn := range v.Turns {
		if turn.Number != i+1 {
			t.Fatalf("turn %d has number %d", i+1, turn.Number)
		}
		seen[turn.Key] = true
	}
	if len(seen) != n {
		t.Fatalf("%d different keys", len(seen))
	}
}

func replay(t T) {
	if _, ok := t.store.Replay("s", "k"); ok {
		t.Fatal("found in a session that does not exist")
	}
	want := t.turn("s", "k", "in", "out")
	s := t.acquire("s")
	defer s.Release()
	got, ok := t.store.Replay("s", "k")
	if !ok || got.ID != want.ID || string(got.Reply) != `"out"` || got.State != turn.Committed {
		t.Fatalf("found %v %+v", ok, got)
	}
	t.begin(s, "open", "in")
	for _, key := range []string{"open", "unknown", ""} {
		if _, ok := t.store.Replay("s", key); ok {
			t.Fatalf("found key %q", key)
		}
	}
}

func view(t T) {
	_, err := t.store.View(t.Context(), "s")
	t.wantErr(err, checkpoint.ErrNoSession)
	t.turn("s", "k1", "one", "uno")
	s := t.acquire("s")
	defer s.Release()
	t.begin(s, "k2", "two")
	v, err := t.store.View(t.Context(), "s")
	t.must(err)
	if v.Session != "s" || v.Turn != 1 || v.Bytes <= 0 || len(v.Turns) != 2 {
		t.Fatalf("view is %+v", v)
	}
	t.wantTexts(v.Messages, "user:one", "assistant:uno")
	if v.Turns[0].State != turn.Committed || v.Turns[1].State != turn.Running || v.Turns[1].Key != "k2" {
		t.Fatalf("turns are %+v", v.Turns)
	}
}

func turnByID(t T) {
	s := t.acquire("s")
	defer s.Release()
	begun := t.begin(s, "k", "in")
	got, err := t.store.Turn(t.Context(), begun.ID)
	t.must(err)
	if got.State != turn.Running || got.Session != "s" || got.Number != 1 {
		t.Fatalf("begun turn is %+v", got)
	}
	t.commit(s, "in", "out")
	got, err = t.store.Turn(t.Context(), begun.ID)
	t.must(err)
	if got.State != turn.Committed || string(got.Reply) != `"out"` {
		t.Fatalf("committed turn is %+v", got)
	}
	for _, id := range []string{"", "x", begun.ID + "0", "../x-1", strings.Repeat("a", 32) + "-1", begun.ID[:33]} {
		_, err := t.store.Turn(t.Context(), id)
		t.wantErr(err, checkpoint.ErrNoTurn)
	}
}

func listPages(t T) {
	want := map[string]int{}
	for i := range 7 {
		id := fmt.Sprint("s", i)
		for n := range i + 1 {
			t.turn(id, "", fmt.Sprint(n), "out")
			want[id]++
		}
	}
	half := t.acquire("half")
	t.begin(half, "", "in")
	half.Release()
	want["half"] = 0
	for _, limit := range []int{1, 3, 8, 100} {
		got := map[string]int{}
		after := ""
		for pages := 0; ; pages++ {
			rows, next, err := t.store.List(t.Context(), after, limit)
			t.must(err)
			if len(rows) > limit || pages > len(want) {
				t.Fatalf("%d rows on page %d of %d", len(rows), pages, limit)
			}
			for _, row := range rows {
				if _, twice := got[row.Session]; twice || row.Err != nil || row.Bytes <= 0 || row.Activity.IsZero() {
					t.Fatalf("row is %+v", row)
				}
				got[row.Session] = row.Turns
			}
			if after = next; next == "" {
				break
			}
		}
		for id, turns := range want {
			if got[id] != turns {
				t.Fatalf("%s has %d turns, want %d", id, got[id], turns)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d sessions, want %d", len(got), len(want))
		}
	}
}

func deleteEmpties(t T) {
	ctx := t.Context()
	t.wantErr(t.store.Delete(ctx, "s"), checkpoint.ErrNoSession)
	old := t.turn("s", "k", "in", "out")
	t.must(t.store.Delete(ctx, "s"))
	t.wantErr(t.store.Delete(ctx, "s"), checkpoint.ErrNoSession)
	_, err := t.store.View(ctx, "s")
	t.wantErr(err, checkpoint.ErrNoSession)
	_, err = t.store.Turn(ctx, old.ID)
	t.wantErr(err, checkpoint.ErrNoTurn)
	if _, ok := t.store.Replay("s", "k"); ok {
		t.Fatal("a deleted turn is replayed")
	}
	if rows, _, err := t.store.List(ctx, "", 10); err != nil || len(rows) != 0 {
		t.Fatalf("listed %+v, %v", rows, err)
	}
	if again := t.turn("s", "k", "in", "out"); again.Number != 1 {
		t.Fatalf("the id starts at turn %d", again.Number)
	}
}

func deleteWaits(t T) {
	t.turn("s", "", "in", "out")
	s := t.acquire("s")
	result := make(chan error, 1)
	go func() { result <- t.store.Delete(t.Context(), "s") }()
	t.settle("s")
	t.begin(s, "", "two")
	t.commit(s, "two", "dos")
	select {
	case err := <-result:
		t.Fatalf("deleted while it was held: %v", err)
	default:
	}
	s.Release()
	t.must(<-result)
	ctx, cancel := context.WithCancel(t.Context())
	held := t.acquire("t")
	defer held.Release()
	t.begin(held, "", "in")
	cancel()
	t.wantErr(t.store.Delete(ctx, "t"), context.Canceled)
}

func releaseTwice(t T) {
	s := t.acquire("s")
	s.Release()
	other := t.acquire("s")
	s.Release() // must not release the other's
	t.settle("s")
	if _, err := s.Begin(checkpoint.Begin{Input: quoted("x")}); err == nil {
		t.Fatal("a released session begins a turn")
	}
	if _, err := s.Commit(checkpoint.Commit{Reply: quoted("x")}); err == nil {
		t.Fatal("a released session commits")
	}
	other.Release()
}

func info(t T) {
	i := t.store.Info()
	if i.Volume == "" || len(i.Secret) < 16 || i.Replica == "" || !i.Writable {
		t.Fatalf("info is %+v", i)
	}
}

func closed(t T) {
	ctx := t.Context()
	done := t.turn("s", "k", "in", "out")
	t.must(t.store.Close())
	t.must(t.store.Close())
	_, err := t.store.Acquire(ctx, "s")
	t.wantErr(err, checkpoint.ErrClosed)
	_, err = t.store.View(ctx, "s")
	t.wantErr(err, checkpoint.ErrClosed)
	_, err = t.store.Turn(ctx, done.ID)
	t.wantErr(err, checkpoint.ErrClosed)
	_, _, err = t.store.List(ctx, "", 1)
	t.wantErr(err, checkpoint.ErrClosed)
	t.wantErr(t.store.Delete(ctx, "s"), checkpoint.ErrClosed)
	if _, ok := t.store.Replay("s", "k"); ok {
		t.Fatal("a closed store replays")
	}
}

func closeWaits(t T) {
	s := t.acquire("s")
	waiter := make(chan error, 1)
	go func() { _, err := t.store.Acquire(t.Context(), "s"); waiter <- err }()
	t.settle("s")
	done := make(chan error, 1)
	go func() { done <- t.store.Close() }()
	t.wantErr(<-waiter, checkpoint.ErrClosed)
	select {
	case err := <-done:
		t.Fatalf("closed with a holder: %v", err)
	default:
	}
	t.begin(s, "", "in")
	t.commit(s, "in", "out") // a holder may finish
	s.Release()
	t.must(<-done)
}
