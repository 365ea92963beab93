package agent

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// weave says what the conversation is after a turn: the first kept of the
// earlier messages, then added. added is what runTurn left behind those, with
// the input directly behind the last earlier message that is still there and the
// reply at the end. If none of several is, everything that runTurn left stands
// for the past and comes before the input.
//
// Messages that were not there before are checked and compacted: the store must
// never get something that is not JSON.
func weave(earlier, left []Message, input, reply Message) (kept int, added []Message, err error) {
	kept, moved, past := matchEarlier(earlier, left)
	added = make([]Message, 0, len(left)-kept+2)
	for i, m := range left[kept:] {
		i += kept
		if i == past {
			added = append(added, input)
		}
		if !moved[i] {
			if m, err = checkMessage(m); err != nil {
				return 0, nil, fmt.Errorf("message %d of the conversation: %w", i+1, err)
			}
		}
		added = append(added, m)
	}
	if past == len(left) {
		added = append(added, input)
	}
	return kept, append(added, reply), nil
}

// matchEarlier finds the earlier messages in left, in order, each at the first
// place that follows the previous find. It returns how many stayed where they
// were, at the beginning; which elements of left are others of them; and how
// many elements belong to the past.
func matchEarlier(earlier, left []Message) (kept int, moved map[int]bool, past int) {
	kept = sameStart(earlier, left)
	for kept < min(len(earlier), len(left)) && sameMessage(earlier[kept], left[kept]) {
		kept++
	}
	moved = map[int]bool{}
	past = kept
	next := kept // the first earlier message that may still be found
	for i := kept; i < len(left) && next < len(earlier); i++ {
		for j := next; j < len(earlier); j++ {
			if sameMessage(earlier[j], left[i]) {
				moved[i], past, next = true, i+1, j+1
				break
			}
		}
	}
	if past == 0 && len(earlier) > 0 {
		past = len(left)
	}
	return kept, moved, past
}

// sameStart is a number of messages at the beginning that were not even moved,
// found without looking at them one by one: a turn that only appends leaves a
// long conversation as it was.
func sameStart(a, b []Message) int {
	const chunk = 64
	n := 0
	for n+chunk <= min(len(a), len(b)) && identical(a[n:n+chunk], b[n:n+chunk]) {
		n += chunk
	}
	return n
}

func sameMessage(a, b Message) bool {
	return a.Role == b.Role && bytes.Equal(a.Content, b.Content)
}

func checkMessage(m Message) (Message, error) {
	if m.Role == "" {
		return m, errors.New("it has no role")
	}
	if !utf8.ValidString(m.Role) {
		return m, fmt.Errorf("its role %q: %w", m.Role, errNotUTF8)
	}
	content, err := compactJSON(m.Content)
	if err != nil {
		return m, fmt.Errorf("the content of role %q is not JSON: %w", m.Role, err)
	}
	return Message{Role: m.Role, Content: content}, nil
}
