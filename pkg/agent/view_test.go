package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/flisk-go/flisk/pkg/turn"
)

// TestViewOfALongConversation: whatever a turn does to the messages that it got,
// the next one sees what is stored, and a turn that left them alone passes its
// copy on.
func TestViewOfALongConversation(t *testing.T) {
	t.Parallel()
	var at *Message // the first element of what the last run got
	runs := 0
	a := serveAgent(t, func(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
		runs++
		if len(cp.Messages) > 0 {
			at = unsafe.SliceData(cp.Messages)
		}
		for i, m := range cp.Messages {
			if i%2 == 0 && m.Text() != fmt.Sprint("n", i/2+1) && m.Text() != "drop" {
				t.Errorf("turn %d: message %d is %s", cp.Turn, i, m.Content)
			}
		}
		switch input.Text() {
		case "spoil":
			for i := range cp.Messages {
				cp.Messages[i].Content = json.RawMessage(`"spoilt"`)
			}
			return Reply{}, errors.New("it went wrong")
		case "append":
			m, err := NewMessage("tool", "x")
			cp.Messages = append(cp.Messages, m)
			return Text("no"), errors.Join(err, errors.New("nor does this count"))
		case "panic":
			cp.Messages[0] = Message{}
			panic("it went wrong")
		}
		return Text("ok"), nil
	})
	n := 0
	next := func() {
		t.Helper()
		n++
		a.turn(t.Context(), "s", "", fmt.Sprint("n", n)).want(t, 200, "")
	}
	for range viewFrom / 2 {
		next()
	}
	copies := 0 // it moves when it grows
	for range 20 {
		last := at
		if next(); at != last {
			copies++
		}
	}
	if copies > 5 {
		t.Errorf("the conversation was copied at %d of 20 turns that changed nothing", copies)
	}
	for _, input := range []string{"spoil", "append", "panic"} {
		a.turn(t.Context(), "s", "", input).want(t, 500, turn.RunFailed)
		next()
		next()
	}
	if view := a.view(t, "s"); view.Turns != n || len(view.Messages) != 2*n {
		t.Errorf("%d turns, %d messages, want %d turns", view.Turns, len(view.Messages), n)
	}
}

// TestViewAfterAnEdit: a turn that edits messages in place and succeeds has
// edited the conversation, and the next turn sees it so.
func TestViewAfterAnEdit(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, func(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
		if input.Text() == "edit" {
			cp.Messages[5].Content = json.RawMessage(`"edited"`)
		}
		if len(cp.Messages) > 5 {
			return Text(cp.Messages[5].Text()), nil
		}
		return Text("ok"), nil
	})
	for range viewFrom {
		a.turn(t.Context(), "s", "", "x").want(t, 200, "")
	}
	for _, c := range []struct{ input, reply string }{{"x", "ok"}, {"edit", "edited"}, {"x", "edited"}, {"x", "edited"}} {
		if got := a.turn(t.Context(), "s", "", c.input); got.text() != c.reply {
			t.Errorf("%s: the reply is %q, want %q", c.input, got.text(), c.reply)
		}
	}
	if got := a.view(t, "s").Messages[5].Text(); got != "edited" {
		t.Errorf("message 5 is stored as %q", got)
	}
}

// TestViewHasNoRoom: what a turn appends to its messages goes elsewhere, also
// when it does so twice.
func TestViewHasNoRoom(t *testing.T) {
	t.Parallel()
	a := serveAgent(t, func(_ context.Context, cp *Checkpoint[memory], _ Input) (Reply, error) {
		if len(cp.Messages) > 0 && cp.Messages[len(cp.Messages)-2].Text() == "two" {
			t.Errorf("turn %d sees what the one before took back", cp.Turn)
		}
		one := append(cp.Messages, Message{Role: "tool", Content: json.RawMessage(`"one"`)})
		_ = append(cp.Messages, Message{Role: "tool", Content: json.RawMessage(`"two"`)})
		if cp.Turn%2 == 0 {
			cp.Messages = one
		}
		return Text("ok"), nil
	})
	for range viewFrom {
		a.turn(t.Context(), "s", "", "x").want(t, 200, "")
	}
	for i, m := range a.view(t, "s").Messages {
		if m.Text() == "two" {
			t.Errorf("message %d is one that was taken back", i)
		}
	}
}

// TestViewOfAnotherWriter: a view does not outlive what it was made of.
func TestViewOfAnotherWriter(t *testing.T) {
	t.Parallel()
	const at = 3 // the message that is written to, at every turn
	code := func(_ context.Context, cp *Checkpoint[memory], input Input) (Reply, error) {
		if len(cp.Messages) <= at {
			return Text("none"), nil
		}
		was := cp.Messages[at].Text()
		if input.Text() != "look" {
			cp.Messages[at].Content = json.RawMessage(input)
		}
		return Text(was), nil
	}
	dir := t.TempDir()
	one, two := serveAgentOn(t, dir, code), serveAgentOn(t, dir, code)
	for range viewFrom {
		one.turn(t.Context(), "s", "", "look").want(t, 200, "")
	}
	want := one.turn(t.Context(), "s", "", "look").text()
	for i := range 20 {
		edit := fmt.Sprint("edit ", i)
		for _, step := range []struct {
			by    *testAgent
			input string
		}{{one, "look"}, {two, "look"}, {two, edit}, {one, "look"}, {one, "look"}} {
			got := step.by.turn(t.Context(), "s", "", step.input)
			got.want(t, 200, "")
			if got.text() != want {
				t.Errorf("round %d, %s: saw %q, want %q", i, step.input, got.text(), want)
			}
			if step.input == edit {
				want = edit
			}
		}
	}
}
