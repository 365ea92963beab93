package checkpoint

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomEdit makes a conversation out of another one, the way agents do:
// append, trim, summarise, reorder, copy.
func randomEdit(r *rand.Rand, old []Message) []Message {
	edited := old
	switch r.IntN(8) {
	case 0: // trim the front
		edited = edited[r.IntN(len(edited)+1):]
	case 1: // trim the end
		edited = edited[:r.IntN(len(edited)+1)]
	case 2: // keep the system prompt, drop what follows it
		if len(edited) > 3 {
			edited = append(slices.Clone(edited[:1]), edited[2+r.IntN(len(edited)-2):]...)
		}
	case 3: // a summary in the middle
		if len(edited) > 3 {
			i := 1 + r.IntN(len(edited)-2)
			edited = slices.Concat(edited[:1], []Message{{Role: "system", Content: quoted(fmt.Sprint("summary ", r.IntN(5)))}}, edited[i:])
		}
	case 4: // all is copied
		edited = slices.Clone(edited)
		for i := range edited {
			edited[i].Content = slices.Clone(edited[i].Content)
		}
	case 5: // another order
		edited = slices.Clone(edited)
		r.Shuffle(len(edited), func(i, j int) { edited[i], edited[j] = edited[j], edited[i] })
	case 6: // nothing is left
		edited = nil
	}
	for range r.IntN(4) {
		edited = append(edited[:len(edited):len(edited)], Message{Role: []string{"user", "tool"}[r.IntN(2)], Content: quoted(fmt.Sprint("text ", r.IntN(6)))})
	}
	return edited
}

func sameMessages(a, b []Message) bool { return slices.EqualFunc(a, b, sameMessage) }

// TestCommitKeepsAnyEdit: what a commit line says, applied, is what was
// committed, for a thousand conversations of random edits.
func TestCommitKeepsAnyEdit(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		live, read := newState("s"), newState("s")
		for n := range uint64(20) {
			b, err := live.start("name", n, Begin{Input: quoted(fmt.Sprint("text ", r.IntN(6)))})
			if err != nil {
				t.Fatal(err)
			}
			want := randomEdit(r, live.messages)
			split := r.IntN(len(want) + 1)
			if err := live.apply(n, b); err != nil {
				t.Fatal(err)
			}
			c, err := live.prepare(Commit{Messages: want[:split:split], Add: want[split:], Reply: quoted(fmt.Sprint("text ", r.IntN(6)))})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*state{live, read} {
				if s == read { // through the file
					if err := s.apply(n, b); err != nil {
						t.Fatal(err)
					}
					p, err := decodePayload(kindCommit, c.appendJSON(nil))
					if err != nil {
						t.Fatal(err)
					}
					c = p.(commit)
				}
				if err := s.apply(n, c); err != nil {
					t.Fatal(err)
				}
				if !sameMessages(s.messages, want) {
					t.Fatalf("committed %v\ngot %v\nby %s", want, s.messages, c.appendJSON(nil))
				}
			}
		}
	}
}

// TestTrimmingStaysSmall: what is kept is not written again, also behind a
// system prompt or a summary.
func TestTrimmingStaysSmall(t *testing.T) {
	t.Parallel()
	big := func(i int) Message {
		return Message{Role: "user", Content: quoted(fmt.Sprintf("%d %01000d", i, 0))}
	}
	var old []Message
	for i := range 100 {
		old = append(old, big(i))
	}
	clone := func(m []Message) []Message {
		m = slices.Clone(m)
		for i := range m {
			m[i].Content = slices.Clone(m[i].Content)
		}
		return m
	}
	summary := Message{Role: "system", Content: quoted("in short")}
	for name, messages := range map[string][]Message{
		"as it is":            old,
		"copied":              clone(old),
		"front trimmed":       old[2:],
		"front trimmed, copy": clone(old[2:]),
		"end trimmed":         old[:90],
		"prompt kept":         slices.Concat(old[:1], old[3:]),
		"prompt kept, copy":   clone(slices.Concat(old[:1], old[3:])),
		"summary":             slices.Concat(old[:1], []Message{summary}, old[50:]),
	} {
		s := newState("s")
		s.messages = old
		b, _ := s.start("name", 1, Begin{Input: quoted("in")})
		if err := s.apply(1, b); err != nil {
			t.Fatal(err)
		}
		c, err := s.prepare(Commit{Messages: messages, Add: []Message{{Role: "user", Content: quoted("in")}, {Role: "assistant", Content: quoted("out")}}, Reply: quoted("out")})
		if err != nil {
			t.Fatal(err)
		}
		if line := c.appendJSON(nil); len(line) > 400 {
			t.Errorf("%s: the commit takes %d bytes", name, len(line))
		}
	}
}

func TestCommitThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	good := func() *state {
		s := newState("s")
		for i := range 2 {
			b, _ := s.start("name", uint64(i), Begin{Input: quoted("in")})
			if err := s.apply(uint64(i), b); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if err := s.apply(0, commit{Turn: 1, TurnID: b.TurnID, Reply: quoted("r"), Add: []stored{{Role: "a", Ref: refReply}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return s
	}
	base := commit{Turn: 2, TurnID: "name-1", Reply: quoted("r")}
	if err := good().apply(2, base); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*commit){
		"number":   func(c *commit) { c.Turn = 3 },
		"id":       func(c *commit) { c.TurnID = "name-7" },
		"reply":    func(c *commit) { c.Reply = nil },
		"keep":     func(c *commit) { c.Keep = 2 },
		"negative": func(c *commit) { c.Keep = -1 },
		"ref":      func(c *commit) { c.Add = []stored{{Ref: "else"}} },
		"range":    func(c *commit) { c.Add = []stored{{Ref: refOld, From: 1, Count: 1}} },
		"overflow": func(c *commit) { c.Add = []stored{{Ref: refOld, From: 1, Count: 1 << 62}} },
		"count":    func(c *commit) { c.Add = []stored{{Ref: refOld, From: 0, Count: 0}} },
		"content":  func(c *commit) { c.Add = []stored{{Role: "x"}} },
	} {
		c := base
		change(&c)
		if err := good().apply(2, c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for name, p := range map[string]payload{
		"begin":    begin{Turn: 3, TurnID: "x", Input: json.RawMessage(`1`)},
		"end":      ended{as: kindFailed, TurnID: "other"},
		"snapshot": snapshot{Turn: 1},
		"header":   header{V: 1},
	} {
		if err := good().apply(2, p); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if newState("s").apply(1, attempt{}) == nil || newState("s").apply(1, note{kindDelivered}) == nil {
		t.Error("a line about no turn was taken")
	}
}
