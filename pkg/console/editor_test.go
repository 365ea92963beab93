package console

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// display is a terminal: cells, a cursor, and the sequences that an editor sends.
// A character that does not fit at the edge is an error, since terminals differ
// in what they make of it.
type display struct {
	t        *testing.T
	columns  int
	rows     [][]string // a wide character is followed by an empty cell
	row, col int
}

func (d *display) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		seq, width, n, _ := ansi.DecodeSequence(text, 0, nil)
		text = text[n:]
		for len(d.rows) <= d.row {
			d.rows = append(d.rows, make([]string, d.columns))
		}
		switch {
		case seq == "\r":
			d.col = 0
		case seq == "\n":
			d.row++
		case strings.HasPrefix(seq, "\x1b["):
			d.move(seq)
		case width == 0 && d.col > 0:
			at := d.col - 1
			for d.rows[d.row][at] == "" {
				at--
			}
			d.rows[d.row][at] += seq
		case d.col+width > d.columns:
			d.t.Fatalf("%q at column %d of %d", seq, d.col, d.columns)
		default:
			d.rows[d.row][d.col] = seq
			for i := 1; i < width; i++ {
				d.rows[d.row][d.col+i] = ""
			}
			d.col += width
		}
	}
	return len(p), nil
}

func (d *display) move(seq string) {
	n := 0
	for _, c := range seq[2 : len(seq)-1] {
		n = 10*n + int(c-'0')
	}
	switch seq[len(seq)-1] {
	case 'A':
		d.row -= n
	case 'C':
		d.col += n
	case 'J':
		clear(d.rows[d.row][d.col:])
		for _, row := range d.rows[d.row+1:] {
			clear(row)
		}
	default:
		d.t.Fatalf("the editor sent %q", seq)
	}
	if d.row < 0 || d.col >= d.columns {
		d.t.Fatalf("%q led to row %d, column %d", seq, d.row, d.col)
	}
}

func (d *display) text() string {
	var lines []string
	for _, row := range d.rows {
		lines = append(lines, strings.Join(row, ""))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// typing gives an editor what was typed, a part of it at a time.
type typing struct {
	parts []string
	after func()
}

func (k *typing) Read(p []byte) (int, error) {
	k.after()
	if len(k.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, k.parts[0])
	k.parts = k.parts[1:]
	return n, nil
}

// Whatever is typed, the screen shows the prompt and the line, broken where no
// character is cut, and the cursor is where the next one goes.
func TestEditorAtTheEdge(t *testing.T) {
	t.Parallel()
	keys := []string{
		"a", "b", " ", "日", "本", "é", "e\u0301", "\u0301", "👩‍👩‍👧", "👍🏽", "ü",
		"\x7f", "\x1b[D", "\x1b[D", "\x1b[C", "\x01", "\x05", "\x17", "\x1b[3~", "\x1b[1;3D", "\x1b[1;3C", "\x1b[A", "\x1b[B", "\r",
	}
	lot := rand.New(rand.NewPCG(1, 2))
	for _, columns := range []int{5, 8, 13} {
		d := &display{t: t, columns: columns}
		var parts []string
		for range 4000 {
			n := len(keys)
			if lot.IntN(3) > 0 {
				n = 11 // more letters than other keys: lines get long
			}
			parts = append(parts, keys[lot.IntN(n)])
		}
		e := &editor{out: d, prompt: "> ", columns: func() int { return columns }}
		e.in = &typing{parts: parts, after: func() {
			fresh := &display{t: t, columns: columns}
			again := &editor{out: fresh, prompt: "> ", columns: e.columns, line: e.line, at: e.at}
			again.paint()
			if d.text() != fresh.text() || d.row != fresh.row || d.col != fresh.col {
				t.Fatalf("%q before %d shows\n%s\n(%d, %d), not\n%s\n(%d, %d)", e.line, e.at, d.text(), d.row, d.col, fresh.text(), fresh.row, fresh.col)
			}
			want := "> " + strings.Join(e.line, "")
			if got := strings.ReplaceAll(fresh.text(), "\n", ""); got != want {
				t.Fatalf("%q shows %q", want, got)
			}
		}}
		for {
			if _, _, err := e.readLine(); err != nil {
				break
			}
			*d = display{t: t, columns: columns}
		}
	}
}

// A line that ends at the edge, with a wide character that does not fit there.
func TestEditorBreaksBeforeAWideCharacter(t *testing.T) {
	t.Parallel()
	d := &display{t: t, columns: 80}
	e := &editor{out: d, prompt: "> ", columns: func() int { return 80 }}
	line := strings.Repeat("x", 77) + "日本e\u0301"
	e.in = &typing{parts: []string{line, "\x01", "\x1b[C"}, after: func() {}}
	if _, _, err := e.readLine(); err != io.EOF {
		t.Fatal(err)
	}
	if want := "> " + strings.Repeat("x", 77) + "\n日本e\u0301"; d.text() != want || d.row != 0 || d.col != 3 {
		t.Errorf("it shows\n%s\n(%d, %d)", d.text(), d.row, d.col)
	}
	if e.press("\x05"); len(e.line) != 80 || e.wordLeft() != 0 {
		t.Errorf("%d characters: %q", len(e.line), e.line)
	}
}
