// Package storetest is the conformance suite of [checkpoint.Store]: a case for
// each sentence of its contract, run on every implementation.
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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

func info(t T) {
	i := t.store.Info()
	if i.Volume == "" || len(i.Secret) < 16 || i.Replica == "" || !i.Writable {
		t.Fatalf("info is %+v", i)
	}
}
