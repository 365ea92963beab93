package agent

import (
	"bytes"
	"unsafe"
)

// viewFrom is the length from which a conversation's view is kept.
const viewFrom = 128

// view is the copy of a conversation that the agent's code gets, so that a turn
// which changes messages in place and then fails has changed nothing that the
// store keeps. If the code left it as it was, the next turn gets it again with
// what was added: to copy ten thousand messages takes longer than all else that
// a turn does beside its sync.
type view struct {
	stored []Message // the store's own, whose elements never change
	copied []Message // the same in an array of our own, which may have room
}

// next is the view of a conversation, made from that of the last turn if there
// is one, which is then used up.
func (last *view) next(stored []Message) *view {
	if last == nil || !goesOn(stored, last.stored) {
		last = &view{}
	}
	return &view{stored, append(last.copied, stored[len(last.copied):]...)}
}

// messages are what the agent's code gets. What it appends goes elsewhere.
func (v *view) messages() []Message { return v.copied[:len(v.copied):len(v.copied)] }

// worthKeeping reports whether the next turn would save more than it costs to
// keep the view.
func (v *view) worthKeeping() bool { return len(v.stored) >= viewFrom }

// bytes is the memory that a view keeps: its copy, and the store's array, which
// the store itself may have left for a larger one.
func (v *view) bytes() int64 {
	return int64(cap(v.copied)+cap(v.stored)) * int64(unsafe.Sizeof(Message{}))
}

// untouched reports whether the agent's code left what it got, and nothing else.
func (v *view) untouched(left []Message) bool {
	if len(left) != len(v.stored) {
		return false
	}
	return len(left) == 0 || unsafe.SliceData(left) == unsafe.SliceData(v.copied) && identical(left, v.stored)
}

// goesOn reports whether a slice is an earlier one, grown within its array.
func goesOn(s, earlier []Message) bool {
	return len(earlier) > 0 && len(earlier) <= len(s) && unsafe.SliceData(earlier) == unsafe.SliceData(s)
}

// identical reports whether two slices of the same length, at least one, are the
// same in memory. Their contents are not looked at.
func identical(a, b []Message) bool { return bytes.Equal(inMemory(a), inMemory(b)) }

// inMemory is what a slice of at least one message consists of.
func inMemory(m []Message) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(m))), len(m)*int(unsafe.Sizeof(m[0])))
}
