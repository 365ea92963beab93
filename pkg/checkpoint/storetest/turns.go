package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

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
