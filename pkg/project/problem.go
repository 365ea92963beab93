package project

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Problem is one thing that is wrong with flisk.yaml.
type Problem struct {
	Line, Column int // from 1; Column counts characters. Line 0 is the file as a whole
	Message      string
	Source       string // the line itself; "" when there is no such line
}

// Warning is a problem that keeps nothing from running.
type Warning = Problem

// String is "flisk.yaml:12:3: message".
func (p Problem) String() string {
	if p.Line == 0 {
		return FileName + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", FileName, p.Line, p.Column, p.Message)
}

// Problems is every problem of one file, in the order of the lines. It is the
// cause of the fault that [Load] returns.
type Problems []Problem

func (ps Problems) Error() string {
	var lines []string
	for _, p := range ps {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// fault shows one problem as the message itself, and several below a count.
func (ps Problems) fault() *fault.Fault {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	f := &fault.Fault{Kind: fault.Usage, Message: ps.Summary(), Detail: ps.Detail(0), Err: ps}
	if len(ps) == 1 {
		f.Message = ps[0].String()
	}
	return f
}

// Summary says how many problems there are.
func (ps Problems) Summary() string {
	if len(ps) == 1 {
		return FileName + " has 1 problem"
	}
	return fmt.Sprintf("%s has %d problems", FileName, len(ps))
}

// Detail is what a fault shows below its message: the snippets, with the
// problems themselves when there are several. A snippet is at most columns wide;
// 0 is no limit.
func (ps Problems) Detail(columns int) string {
	if len(ps) == 1 {
		return ps[0].Snippet(columns)
	}
	var blocks []string
	for _, p := range ps {
		blocks = append(blocks, strings.TrimSuffix(p.String()+"\n"+p.Snippet(columns), "\n"))
	}
	return strings.Join(blocks, "\n")
}

// gutter is how wide what stands before a snippet's text is.
const gutter = len("1234 | ")

// Snippet shows the line with a caret below the column:
//
//	12 |   prot: 8080
//	   |   ^
//
// or "" when there is no such line. It is at most columns wide (0 is no limit):
// of a longer line the part around the column is shown, with "…" for what is
// left out. What could move or hide text on a terminal is replaced, one
// character by one, so that the caret stays where it belongs.
func (p Problem) Snippet(columns int) string {
	if p.Source == "" {
		return ""
	}
	text := []rune(strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, p.Source))
	at := max(0, min(p.Column-1, len(text)))
	if room := columns - gutter; columns > 0 && len(text) > max(room, 1) {
		room = max(room, 1)
		from := 0
		if at > room/2 {
			from = min(at-room/2, len(text)-room)
		}
		shown := slices.Clone(text[from:min(len(text), from+room)])
		if from > 0 {
			shown[0] = '…'
		}
		if from+room < len(text) {
			shown[len(shown)-1] = '…'
		}
		text, at = shown, at-from
	}
	number := fmt.Sprintf("%4d", p.Line)
	return fmt.Sprintf("%s | %s\n%s | %s^", number, string(text), strings.Repeat(" ", len(number)), strings.Repeat(" ", at))
}
