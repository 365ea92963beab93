package agent

import (
	"encoding/json"
	"strings"
	"testing"
)

// msgs makes one message a word; "x'" and the like are just other words.
func msgs(words string) []Message {
	var out []Message
	for word := range strings.FieldsSeq(words) {
		content, _ := json.Marshal(word)
		out = append(out, Message{Role: "m", Content: content})
	}
	return out
}

func words(messages []Message) string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Text())
	}
	return strings.Join(out, " ")
}

func TestWeave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, earlier, left, want string }{
		{"first turn", "", "", "IN OUT"},
		{"first turn with tools", "", "t u", "IN t u OUT"},
		{"nothing appended", "a b", "a b", "a b IN OUT"},
		{"appended", "a b", "a b t u", "a b IN t u OUT"},
		{"appended what looks like an earlier one", "a b", "a b a b", "a b IN a b OUT"},
		{"head trimmed", "a b c d", "c d t", "c d IN t OUT"},
		{"head replaced by a summary", "a b c d", "S c d t", "S c d IN t OUT"},
		{"one in the middle changed", "a b c", "a b' c t", "a b' c IN t OUT"},
		{"one in the middle dropped", "a b c", "a c t", "a c IN t OUT"},
		{"tail dropped", "a b c", "a b", "a b IN OUT"},
		{"tail replaced", "a b c", "a b t", "a b IN t OUT"},
		{"all replaced", "a b", "S T", "S T IN OUT"},
		{"all dropped", "a b", "", "IN OUT"},
		{"repeated earlier messages", "a a a", "a a a a", "a a a IN a OUT"},
		{"reordered", "a b", "b a", "b IN a OUT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			earlier := msgs(c.earlier)
			kept, added, err := weave(earlier, msgs(c.left), msgs("IN")[0], msgs("OUT")[0])
			if got := words(append(earlier[:kept:kept], added...)); err != nil || got != c.want {
				t.Errorf("weave(%q, %q) = %q, %v, want %q", c.earlier, c.left, got, err, c.want)
			}
			if kept < len(earlier) && strings.HasPrefix(c.want, c.earlier+" ") {
				t.Errorf("weave(%q, %q) keeps only %d", c.earlier, c.left, kept)
			}
		})
	}
}

func TestWeaveChecksNewMessages(t *testing.T) {
	t.Parallel()
	in, out := msgs("IN")[0], msgs("OUT")[0]
	for name, m := range map[string]Message{
		"no role":    {Content: json.RawMessage(`1`)},
		"odd role":   {Role: "to\xffol", Content: json.RawMessage(`1`)},
		"no content": {Role: "tool"},
		"not JSON":   {Role: "tool", Content: json.RawMessage(`hello`)},
		"not UTF-8":  {Role: "tool", Content: json.RawMessage("\"\xff\"")},
		"two values": {Role: "tool", Content: json.RawMessage(`1 2`)},
	} {
		if _, got, err := weave(nil, []Message{m}, in, out); err == nil {
			t.Errorf("%s: accepted as %v", name, got)
		}
	}
	_, got, err := weave(nil, []Message{{Role: "tool", Content: json.RawMessage("{ \"a\" : 1.0 }")}}, in, out)
	if err != nil || string(got[1].Content) != `{"a":1.0}` {
		t.Errorf("weave = %v, %v, want the content compacted", got, err)
	}
}
