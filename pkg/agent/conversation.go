package agent

import (
	"bytes"
	"errors"
	"fmt"
)

// weave builds the conversation as it is after a turn: what runTurn left of and
// added to the earlier messages, with the input directly behind the last one it
// kept and the reply at the end. If it kept none of several, everything it left
// stands for the past and comes before the input.
//
// Messages that were not there before are checked and compacted: the store must
// never get something that is not JSON.
func weave(earlier, left []Message, input, reply Message) ([]Message, error) {
	kept, past := matchEarlier(earlier, left)
	out := make([]Message, 0, len(left)+2)
	for i, m := range left {
		if i == past {
			out = append(out, input)
		}
		if !kept(i) {
			var err error
			if m, err = checkMessage(m); err != nil {
				return nil, fmt.Errorf("message %d of the conversation: %w", i+1, err)
			}
		}
		out = append(out, m)
	}
	if past == len(left) {
		out = append(out, input)
	}
	return append(out, reply), nil
}

// matchEarlier finds the earlier messages in left, in order, each at the first
// place that follows the previous find. It returns which elements of left are
// earlier ones, and how many elements belong to the past.
func matchEarlier(earlier, left []Message) (kept func(int) bool, past int) {
	prefix := 0 // the usual turn only appends: one pass and no allocation
	for prefix < min(len(earlier), len(left)) && sameMessage(earlier[prefix], left[prefix]) {
		prefix++
	}
	others := map[int]bool{}
	past = prefix
	next := prefix // the first earlier message that may still be found
	for i := prefix; i < len(left) && next < len(earlier); i++ {
		for j := next; j < len(earlier); j++ {
			if sameMessage(earlier[j], left[i]) {
				others[i], past, next = true, i+1, j+1
				break
			}
		}
	}
	if past == 0 && len(earlier) > 0 {
		past = len(left)
	}
	return func(i int) bool { return i < prefix || others[i] }, past
}

func sameMessage(a, b Message) bool {
	return a.Role == b.Role && bytes.Equal(a.Content, b.Content)
}

func checkMessage(m Message) (Message, error) {
	if m.Role == "" {
		return m, errors.New("it has no role")
	}
	content, err := compactJSON(m.Content)
	if err != nil {
		return m, fmt.Errorf("the content of role %q is not JSON: %w", m.Role, err)
	}
	return Message{Role: m.Role, Content: content}, nil
}
