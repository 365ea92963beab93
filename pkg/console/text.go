package console

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Text makes foreign text harmless on a terminal and keeps its line breaks:
// control characters (so every escape sequence), bidirectional controls, other
// characters that move or hide text, and bytes that are not UTF-8 become visible
// escapes such as \x1b and \u202e. A tab becomes four spaces, a carriage return
// before a line break goes.
func Text(s string) string {
	return visible(strings.ReplaceAll(s, "\r\n", "\n"), true)
}

// Line is [Text] for a place that has one line: line breaks and tabs become
// visible, too.
func Line(s string) string { return visible(s, false) }

func visible(s string, multiline bool) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case multiline && r == '\n':
			out.WriteByte('\n')
		case multiline && r == '\t':
			out.WriteString("    ")
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == '\r':
			out.WriteString(`\r`)
		case r < 0x100 && unicode.IsControl(r):
			fmt.Fprintf(&out, `\x%02x`, r)
		case hidden(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteString(s[i : i+size])
		}
		i += size
	}
	return out.String()
}

// hidden reports characters that change how other text is shown, or carry text
// that is not shown. Joiners are not among them: emoji and several scripts need
// them.
func hidden(r rune) bool {
	switch {
	case r == 0x061c || r == 0x200e || r == 0x200f, // Arabic, left and right marks
		r >= 0x202a && r <= 0x202e, // embeddings and overrides
		r >= 0x2066 && r <= 0x2069, // isolates
		r == 0x2028 || r == 0x2029, // line and paragraph separators
		r == 0xfeff,
		r >= 0xe0000 && r <= 0xe007f: // tags: a second, invisible ASCII
		return true
	}
	return false
}

// Width counts the terminal columns of a line, without style sequences.
func Width(s string) int { return lipgloss.Width(s) }

const ellipsis = "…"

// Cut shortens a line to at most columns, the end giving way.
func Cut(s string, columns int) string {
	if columns < 1 {
		return ""
	}
	return ansi.Truncate(s, columns, ellipsis)
}

// Elide shortens a line to at most columns, the middle giving way: of a path or
// an id both ends say something.
func Elide(s string, columns int) string {
	full := Width(s)
	if full <= columns {
		return s
	}
	if columns < 5 {
		return Cut(s, columns)
	}
	left := (columns - 1) / 2
	right := columns - 1 - left
	tail := ansi.TruncateLeft(s, full-right, "")
	if Width(tail) > right { // the cut went through a wide character, which stayed
		tail = ansi.TruncateLeft(s, full-right+1, "")
	}
	return ansi.Truncate(s, left, "") + ellipsis + tail
}

// Fold breaks each line of text at spaces so that it fits columns when it is
// printed behind something as wide as indent, which begins every following line.
// A word that is wider than a line is broken anywhere. Without a limit (columns
// 0) only the indent is added.
func Fold(text string, columns int, indent string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		room := columns - Width(indent)
		if columns > 0 && room > 0 {
			line = strings.Join(foldLine(line, room), "\n"+indent)
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n"+indent)
}

// foldLine breaks one line into pieces of at most room columns.
func foldLine(line string, room int) []string {
	var pieces []string
	for Width(line) > room {
		head := ansi.Truncate(line, room, "")
		// The space right behind the head is a break, too.
		at := strings.LastIndexByte(line[:min(len(line), len(head)+1)], ' ')
		if strings.TrimSpace(line[:max(at, 0)]) == "" {
			at = len(head)
		}
		if at == 0 { // not even one character fits
			break
		}
		pieces = append(pieces, strings.TrimRight(line[:at], " "))
		line = strings.TrimLeft(line[at:], " ")
	}
	return append(pieces, line)
}

// FoldParts joins parts of a line, and breaks it between them so that it fits
// columns. Without a limit (columns 0) it is one line.
func FoldParts(parts []string, separator string, columns int) string {
	var lines []string
	for i, part := range parts {
		if i > 0 {
			if last := lines[len(lines)-1] + separator + part; columns == 0 || Width(last) <= columns {
				lines[len(lines)-1] = last
				continue
			}
		}
		lines = append(lines, part)
	}
	return strings.Join(lines, "\n")
}
