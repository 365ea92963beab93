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
	Snippet      string // the line, and a caret under the column; "" when there is no such line
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
func (ps Problems) fault(path string) *fault.Fault {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	f := &fault.Fault{Kind: fault.Usage, Hint: "edit " + path, Err: ps}
	if len(ps) == 1 {
		f.Message, f.Detail = ps[0].String(), ps[0].Snippet
		return f
	}
	f.Message = fmt.Sprintf("%s has %d problems", FileName, len(ps))
	var blocks []string
	for _, p := range ps {
		blocks = append(blocks, strings.TrimSuffix(p.String()+"\n"+p.Snippet, "\n"))
	}
	f.Detail = strings.Join(blocks, "\n")
	return f
}

// snippetWidth keeps a snippet, its gutter included, on one terminal line.
const snippetWidth = 64

// snippet shows a line with a caret below a column:
//
//	12 |   prot: 8080
//	   |   ^
//
// Of a long line the part around the column is shown. What could move or hide
// text on a terminal is replaced, one character by one, so that the caret stays
// where it belongs.
func snippet(lines []string, line, column int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	text := []rune(lines[line-1])
	at := max(0, min(column-1, len(text)))
	from := 0
	if len(text) > snippetWidth && at > snippetWidth/2 {
		from = at - snippetWidth/2
	}
	shown := text[from:min(len(text), from+snippetWidth)]
	visible := strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, string(shown))
	number := fmt.Sprintf("%4d", line)
	return fmt.Sprintf("%s | %s\n%s | %s^", number, visible, strings.Repeat(" ", len(number)), strings.Repeat(" ", at-from))
}
