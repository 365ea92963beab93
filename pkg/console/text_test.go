package console

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextMakesForeignTextHarmless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, text, line string }{
		{"plain", "hello, wörld 日本 👩‍💻", "hello, wörld 日本 👩‍💻", "hello, wörld 日本 👩‍💻"},
		{"colour", "\x1b[31mred\x1b[m", `\x1b[31mred\x1b[m`, `\x1b[31mred\x1b[m`},
		{"window title", "\x1b]0;pwned\x07", `\x1b]0;pwned\x07`, `\x1b]0;pwned\x07`},
		{"C1 in UTF-8", "\u009b31m", `\x9b31m`, `\x9b31m`},
		{"C1 as a byte", "\x9b31m", `\x9b31m`, `\x9b31m`},
		{"bidi", "a\u202eb\u2066c\u200f", `a\u202eb\u2066c\u200f`, `a\u202eb\u2066c\u200f`},
		{"separators", "a\u2028b", `a\u2028b`, `a\u2028b`},
		{"tags", "a\U000e0041", `a\ue0041`, `a\ue0041`},
		{"breaks", "a\r\nb\tc\rd", "a\nb    c" + `\x0dd`, `a\r\nb\tc\rd`},
		{"delete", "a\x7fb\x00", `a\x7fb\x00`, `a\x7fb\x00`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Text(c.in); got != strings.ReplaceAll(c.text, `\x0d`, `\r`) {
				t.Errorf("Text(%q) = %q, want %q", c.in, got, c.text)
			}
			if got := Line(c.in); got != c.line {
				t.Errorf("Line(%q) = %q, want %q", c.in, got, c.line)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b[2J\u202e\r\n\x9b")
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{Text(s), Line(s)} {
			if !utf8.ValidString(got) {
				t.Errorf("%q is not UTF-8", got)
			}
			if i := strings.IndexFunc(got, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || hidden(r) }); i >= 0 {
				t.Errorf("%q lets a control through at %d", got, i)
			}
		}
		if strings.Contains(Line(s), "\n") {
			t.Errorf("Line(%q) has a line break", s)
		}
	})
}

func TestElideKeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in      string
		columns int
		want    string
	}{
		{"short", 10, "short"},
		{"abcdefghij", 10, "abcdefghij"},
		{"abcdefghijk", 10, "abcd…ghijk"},
		{"abcdefghijk", 4, "abc…"},
		{"日本語日本語日本語", 10, "日本…本語"},
		{"x", 0, "x"},
	} {
		if c.columns == 0 {
			c.want = ""
		}
		if got := Elide(c.in, c.columns); got != c.want || Width(got) > c.columns {
			t.Errorf("Elide(%q, %d) = %q (%d columns), want %q", c.in, c.columns, got, Width(got), c.want)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in      string
		columns int
		indent  string
		want    string
	}{
		{"one two three", 0, "  ", "one two three"},
		{"one two three", 9, "  ", "one two\n  three"},
		{"one two three", 10, "  ", "one two\n  three"},
		{"a\nb", 0, "  ", "a\n  b"},
		{"abcdefghijkl", 7, "  ", "abcde\n  fghij\n  kl"},
		{"日本語日本語", 6, "", "日本語\n日本語"},
		{"  indented text that goes on", 14, "", "  indented\ntext that goes\non"},
		{"", 5, "", ""},
		{"日", 1, "", "日"},
	} {
		if got := Fold(c.in, c.columns, c.indent); got != c.want {
			t.Errorf("Fold(%q, %d, %q) = %q, want %q", c.in, c.columns, c.indent, got, c.want)
		}
	}
}

func FuzzFoldFits(f *testing.F) {
	f.Add("one two three 日本語 four", 11)
	f.Fuzz(func(t *testing.T, s string, columns int) {
		if columns < 4 || columns > 200 {
			t.Skip()
		}
		s = Text(s)
		folded := Fold(s, columns, "  ")
		for i, line := range strings.Split(folded, "\n") {
			if i == 0 {
				line = "  " + line
			}
			if Width(line) > columns {
				t.Errorf("Fold(%q, %d): line %q has %d columns", s, columns, line, Width(line))
			}
		}
		squeeze := strings.NewReplacer(" ", "", "\n", "").Replace
		if squeeze(folded) != squeeze(s) {
			t.Errorf("Fold(%q, %d) = %q lost text", s, columns, folded)
		}
	})
}

func TestFoldParts(t *testing.T) {
	t.Parallel()
	parts := []string{"detect 104 ms", "build 1.2 s", "start 31 ms"}
	for columns, want := range map[int]string{
		0:  "detect 104 ms · build 1.2 s · start 31 ms",
		41: "detect 104 ms · build 1.2 s · start 31 ms",
		40: "detect 104 ms · build 1.2 s\nstart 31 ms",
		26: "detect 104 ms\nbuild 1.2 s · start 31 ms",
		5:  "detect 104 ms\nbuild 1.2 s\nstart 31 ms",
	} {
		if got := FoldParts(parts, " · ", columns); got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
	if got := FoldParts(nil, " · ", 80); got != "" {
		t.Errorf("nothing: %q", got)
	}
}
