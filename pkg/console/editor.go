package console

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// editor edits one line on a terminal in raw mode. It counts in characters as
// people see them, each with the columns that it takes: what an editor that
// counts code points draws falls apart where a wide character or a combining one
// is near the edge. It breaks the line itself and never relies on how a terminal
// wraps.
//
// It reads what [keyFilter] lets through, and is for one goroutine.
type editor struct {
	in      io.Reader
	out     io.Writer
	columns func() int // of the terminal; below 1 there is no limit

	prompt string
	line   []string // characters
	at     int      // the cursor is before line[at]
	pasted bool     // between the marks of a paste

	rest    []byte // read, and not a whole key yet or behind a line that ended
	chunk   [256]byte
	history []string // the latest last
	back    int      // how far back in the history the line is from; 0 is not at all
	pending string   // the line that was left for that

	shown string // what is on the screen behind the prompt
	ended bool   // the cursor is behind all of it
	row   int    // of the cursor, from that of the prompt
	begun bool   // the prompt is on the screen
}

// maxHistory is how many lines come back.
const maxHistory = 100

// readLine returns the next line, and whether its end was pasted rather than
// typed. At the end of the input or on Ctrl-D in an empty line it is io.EOF. What
// was typed so far stays in the line when there is an error.
func (e *editor) readLine() (line string, pasted bool, err error) {
	for {
		for {
			key, n := nextKey(e.rest)
			if n == 0 {
				break
			}
			e.rest = e.rest[n:]
			switch {
			case key == pasteStart:
				e.pasted = true
			case key == pasteEnd:
				e.pasted = false
			case key == "\r" || key == "\n":
				if key == "\r" && strings.HasPrefix(string(e.rest), "\n") {
					e.rest = e.rest[1:]
				}
				return e.enter(), e.pasted, nil
			case key == "\x04" && len(e.line) == 0:
				return "", false, io.EOF
			case e.pasted:
				e.insert(key)
			default:
				e.press(key)
			}
		}
		if !e.pasted || !e.begun { // a long paste is drawn once
			e.paint()
		}
		n, err := e.in.Read(e.chunk[:])
		e.rest = append(e.rest, e.chunk[:n]...)
		if n == 0 && err != nil {
			return "", false, err
		}
	}
}

// nextKey is the first key of what was typed: a character, a control character,
// or a sequence. Its length is 0 while it is not whole.
func nextKey(b []byte) (key string, n int) {
	if len(b) == 0 || !utf8.FullRune(b) {
		return "", 0
	}
	if b[0] != escape {
		_, n := utf8.DecodeRune(b)
		return string(b[:n]), n
	}
	for i := 2; i < len(b); i++ {
		if c := b[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '~' {
			return string(b[:i+1]), i + 1
		}
	}
	return "", 0
}

// enter ends the line.
func (e *editor) enter() string {
	e.at = len(e.line)
	e.paint()
	_, _ = io.WriteString(e.out, "\r\n") // Failed tells
	line := strings.Join(e.line, "")
	if last := len(e.history) - 1; line != "" && (last < 0 || e.history[last] != line) {
		e.history = append(e.history, line)
		e.history = e.history[max(0, len(e.history)-maxHistory):]
	}
	e.reset()
	return line
}

// reset begins an empty line, below what is on the screen.
func (e *editor) reset() {
	e.line, e.at, e.back, e.pending = nil, 0, 0, ""
	e.shown, e.row, e.begun = "", 0, false
}

// press does what a key that was typed asks for.
func (e *editor) press(key string) {
	switch key {
	case "\x7f", "\b":
		e.remove(max(0, e.at-1), e.at)
	case "\x04", "\x1b[3~":
		e.remove(e.at, min(len(e.line), e.at+1))
	case "\x17": // Ctrl-W
		e.remove(e.wordLeft(), e.at)
	case "\x15": // Ctrl-U
		e.remove(0, e.at)
	case "\x0b": // Ctrl-K
		e.remove(e.at, len(e.line))
	case "\x1b[D", "\x02":
		e.at = max(0, e.at-1)
	case "\x1b[C", "\x06":
		e.at = min(len(e.line), e.at+1)
	case "\x1b[1;3D", "\x1b[1;5D":
		e.at = e.wordLeft()
	case "\x1b[1;3C", "\x1b[1;5C":
		e.at = e.wordRight()
	case "\x1b[H", "\x1b[1~", "\x01":
		e.at = 0
	case "\x1b[F", "\x1b[4~", "\x05":
		e.at = len(e.line)
	case "\x1b[A", "\x10":
		e.recall(e.back + 1)
	case "\x1b[B", "\x0e":
		e.recall(e.back - 1)
	case "\x0c": // Ctrl-L
		_, _ = io.WriteString(e.out, "\x1b[2J\x1b[H") // Failed tells
		e.row, e.begun = 0, false
	default:
		if key >= " " {
			e.insert(key)
		}
	}
}

// insert puts a code point before the cursor.
func (e *editor) insert(key string) {
	if last := len(e.line) - 1; e.at > last && last >= 0 { // a long paste must not look at all of it for each
		e.line = append(e.line[:last], characters(e.line[last]+key)...)
		e.at = len(e.line)
		return
	}
	e.set(strings.Join(e.line[:e.at], "")+key, strings.Join(e.line[e.at:], ""))
}

func (e *editor) remove(from, to int) {
	e.set(strings.Join(e.line[:from], ""), strings.Join(e.line[to:], ""))
}

// set makes a line of what is before the cursor and behind it. What meets there
// may be one character, and is before the cursor then.
func (e *editor) set(before, behind string) {
	all := characters(before + behind)
	at := 0
	for n := 0; n < len(before); at++ {
		n += len(all[at])
	}
	e.line, e.at = all, at
}

func (e *editor) wordLeft() int {
	at := e.at
	for at > 0 && e.line[at-1] == " " {
		at--
	}
	for at > 0 && e.line[at-1] != " " {
		at--
	}
	return at
}

func (e *editor) wordRight() int {
	at := e.at
	for at < len(e.line) && e.line[at] != " " {
		at++
	}
	for at < len(e.line) && e.line[at] == " " {
		at++
	}
	return at
}

// recall brings back a line of the history, counted from the latest, which is 1.
func (e *editor) recall(back int) {
	if back < 0 || back > len(e.history) {
		return
	}
	if e.back == 0 {
		e.pending = strings.Join(e.line, "")
	}
	text := e.pending
	if back > 0 {
		text = e.history[len(e.history)-back]
	}
	e.back, e.line = back, characters(text)
	e.at = len(e.line)
}

// characters are those of a text, as people see them.
func characters(text string) (list []string) {
	for text != "" {
		one, width, n, _ := ansi.DecodeSequence(text, 0, nil)
		text = text[n:]
		if last := len(list) - 1; width == 0 && last >= 0 { // it leaves ASCII and what combines with it apart
			list[last] += one
			continue
		}
		list = append(list, one)
	}
	return list
}

// paint brings the screen up to date.
func (e *editor) paint() {
	columns := e.columns()
	var out strings.Builder
	text := strings.Join(e.line, "")
	added, onlyMore := strings.CutPrefix(text, e.shown)
	width := Width(e.prompt) + Width(text)
	switch {
	case e.begun && text == e.shown && e.ended && e.at == len(e.line):
		return
	case e.begun && onlyMore && e.ended && e.at == len(e.line) && Width(text) == Width(e.shown)+Width(added) && (columns < 1 || width < columns):
		out.WriteString(added) // as most keys do
	default:
		e.repaint(&out, columns)
	}
	e.shown, e.ended, e.begun = text, e.at == len(e.line), true
	_, _ = io.WriteString(e.out, out.String()) // Failed tells
}

// repaint draws everything anew.
func (e *editor) repaint(out *strings.Builder, columns int) {
	if e.begun {
		out.WriteString("\r")
		if e.row > 0 {
			fmt.Fprintf(out, "\x1b[%dA", e.row)
		}
		out.WriteString("\x1b[J")
	}
	out.WriteString(e.prompt)
	row, column := 0, Width(e.prompt)
	var cursorRow, cursorColumn int
	for i := 0; ; i++ {
		wide := 1 // the cursor behind the line needs a place, too
		if i < len(e.line) {
			wide = Width(e.line[i])
		}
		if columns > 0 && column+wide > columns {
			out.WriteString("\r\n")
			row, column = row+1, 0
		}
		if i == e.at {
			cursorRow, cursorColumn = row, column
		}
		if i == len(e.line) {
			break
		}
		out.WriteString(e.line[i])
		column += wide
	}
	if e.at < len(e.line) {
		if row > cursorRow {
			fmt.Fprintf(out, "\x1b[%dA", row-cursorRow)
		}
		out.WriteString("\r")
		if cursorColumn > 0 {
			fmt.Fprintf(out, "\x1b[%dC", cursorColumn)
		}
	}
	e.row = cursorRow
}
