package console

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer may be written by the goroutine that draws while a test reads it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

// screen is an output of 80 columns over a buffer.
func screen(colour bool) (*Output, *buffer) {
	var buf buffer
	return NewOutput(&buf, OutputOptions{Terminal: true, Redraw: true, Colour: colour, Width: func() int { return 80 }}), &buf
}

func pipe() (*Output, *buffer) {
	var buf buffer
	return NewOutput(&buf, OutputOptions{}), &buf
}

func TestColourIsDecidedByStreamAndEnvironment(t *testing.T) {
	t.Parallel()
	type want struct{ colour, redraw bool }
	for _, c := range []struct {
		name     string
		terminal bool
		environ  string
		want     want
	}{
		{"terminal", true, "TERM=xterm", want{true, true}},
		{"no terminal", false, "TERM=xterm", want{false, false}},
		{"NO_COLOR", true, "TERM=xterm NO_COLOR=1", want{false, true}},
		{"empty NO_COLOR counts as absent", true, "TERM=xterm NO_COLOR=", want{true, true}},
		{"dumb", true, "TERM=dumb", want{false, false}},
		{"no TERM", true, "", want{false, false}},
		{"CLICOLOR=0", true, "TERM=xterm CLICOLOR=0", want{false, true}},
		{"forced on a pipe", false, "CLICOLOR_FORCE=1", want{true, false}},
		{"forced with 0", false, "CLICOLOR_FORCE=0", want{false, false}},
		{"NO_COLOR beats force", true, "TERM=xterm CLICOLOR_FORCE=1 NO_COLOR=1", want{false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := decide(c.terminal, strings.Fields(c.environ))
			if got := (want{o.Colour, o.Redraw}); got != c.want || o.Terminal != c.terminal {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAFileIsNoTerminal(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o := NewOutput(f, Detect(f, []string{"TERM=xterm"}))
	if o.Terminal || o.Colour || o.Columns() != 0 {
		t.Errorf("a file was taken for a terminal: %+v", o.OutputOptions)
	}
}

func TestWriteDropsStylesAndRawDoesNot(t *testing.T) {
	t.Parallel()
	styled := Good.Render("ok") + "\n"
	o, buf := pipe()
	if _, err := o.Write([]byte(styled)); err != nil || buf.String() != "ok\n" {
		t.Errorf("a pipe got %q (%v)", buf, err)
	}
	buf.Reset()
	if _, err := o.Raw().Write([]byte("\x1b[31m\x00")); err != nil || buf.String() != "\x1b[31m\x00" {
		t.Errorf("raw bytes became %q (%v)", buf, err)
	}
	o, buf = screen(true)
	if _, err := o.Write([]byte(styled)); err != nil || !strings.HasPrefix(buf.String(), "\x1b[32mok") {
		t.Errorf("a colour terminal got %q (%v)", buf, err)
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestAFailedWriteIsRemembered(t *testing.T) {
	t.Parallel()
	o := NewOutput(fullDisk{}, OutputOptions{})
	o.Table(Table{Columns: []Column{{Title: "A"}}})
	if err := o.Failed(); !errors.Is(err, errFull) {
		t.Errorf("Failed() = %v", err)
	}
}

func sample() Table {
	return Table{
		Columns: []Column{{Title: "SESSION", Shrink: Middle}, {Title: "TURNS", Right: true}, {Title: "WHY", Shrink: End}},
		Rows: [][]Cell{
			{{Text: "s1", Style: Strong}, {Text: "3"}, {Text: "fine"}},
			{{Text: strings.Repeat("ab", 64)}, {Text: "12345"}, {Text: "a longer story about what is wrong \x1b[31mhere"}},
			{{Text: "日本"}, {Text: "1"}, {Text: ""}},
		},
	}
}

func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, colour := range []bool{false, true} {
		o, buf := screen(colour)
		o.Table(sample())
		for line := range strings.Lines(buf.String()) {
			if w := Width(strings.TrimSuffix(line, "\n")); w > 80 {
				t.Errorf("%d columns: %q", w, line)
			}
		}
	}
	o, buf := screen(false)
	o.Table(sample())
	want := `SESSION                              TURNS  WHY
s1                                       3  fine
ababababababababa…babababababababab  12345  a longer story about what is wrong …
日本                                     1
`
	if got := buf.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Ids are for copying: other columns go before one is cut.
func TestTableSparesIDs(t *testing.T) {
	t.Parallel()
	uuid := "0f8fad5b-d9cb-469f-a165-70867728950e"
	for _, c := range []struct {
		width int
		id    string
		want  string
	}{
		{80, uuid, "SESSION|TURNS|LAST ACTIVITY|SIZE"},
		{60, uuid, "SESSION|TURNS|LAST ACTIVITY"},
		{50, uuid, "SESSION|TURNS"},
		{40, uuid, "SESSION|TURNS"}, // which cut it all the same
		{80, strings.Repeat("ab", 64), "SESSION|TURNS|LAST ACTIVITY|SIZE"},
		{70, strings.Repeat("ab", 64), "SESSION|TURNS|LAST ACTIVITY|SIZE"},
		{60, strings.Repeat("ab", 64), "SESSION|TURNS|LAST ACTIVITY"},
		{30, "s1", "SESSION|TURNS|LAST ACTIVITY"},
	} {
		var buf buffer
		o := NewOutput(&buf, OutputOptions{Terminal: true, Width: func() int { return c.width }})
		o.Table(Table{
			Columns: []Column{{Title: "SESSION", Shrink: Middle}, {Title: "TURNS", Right: true}, {Title: "LAST ACTIVITY", Shrink: Drop}, {Title: "SIZE", Right: true, Shrink: Drop}},
			Rows:    [][]Cell{{{Text: c.id}, {Text: "3"}, {Text: "5 min ago"}, {Text: "900 B"}}},
		})
		lines := strings.Split(buf.String(), "\n")
		titles := strings.Join(strings.Fields(strings.ReplaceAll(lines[0], "LAST ACTIVITY", "LAST_ACTIVITY")), "|")
		if strings.ReplaceAll(titles, "_", " ") != c.want {
			t.Errorf("%d columns, id of %d: %q, want %q", c.width, len(c.id), titles, c.want)
		}
		for _, line := range lines {
			if Width(line) > c.width {
				t.Errorf("%d columns: %q", c.width, line)
			}
		}
		if len(c.id) <= c.width-7 && !strings.HasPrefix(lines[1], c.id) {
			t.Errorf("%d columns cut the id: %q", c.width, lines[1])
		}
	}
}

func TestFreshLine(t *testing.T) {
	t.Parallel()
	o, buf := screen(false)
	if o.FreshLine(); buf.String() != "\r\x1b[K" {
		t.Errorf("a terminal got %q", buf)
	}
	o, buf = pipe()
	if o.FreshLine(); buf.String() != "" {
		t.Errorf("a pipe got %q", buf)
	}
	var dumb buffer
	if NewOutput(&dumb, OutputOptions{Terminal: true}).FreshLine(); dumb.String() != "\n" {
		t.Errorf("a dumb terminal got %q", &dumb)
	}
}

func TestTableOnAPipeIsWhole(t *testing.T) {
	t.Parallel()
	o, buf := pipe()
	o.Table(sample())
	if !strings.Contains(buf.String(), strings.Repeat("ab", 64)) || strings.Contains(buf.String(), "\x1b") {
		t.Errorf("got\n%s", buf)
	}
}

func TestFieldsAlignAndFold(t *testing.T) {
	t.Parallel()
	o, buf := screen(false)
	o.Fields(
		Field{Label: "gateway", Value: Cell{"http://127.0.0.1:8080", Accent}},
		Field{Label: "in", Value: Cell{"/home/ann/" + strings.Repeat("deep/", 20) + "bot", Plain}, Shrink: Middle},
		Field{Label: "why", Value: Cell{strings.Repeat("word ", 20) + "end", Plain}},
	)
	want := `gateway  http://127.0.0.1:8080
in       /home/ann/deep/deep/deep/deep/deep/…p/deep/deep/deep/deep/deep/deep/bot
why      word word word word word word word word word word word word word word
         word word word word word word end
`
	if got := buf.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	f := Failure{
		Message: `cannot build agent "bot"`,
		Detail:  "./turn.go:12:2: undefined: answer\n\tin this file\n",
		Hint:    "mend the file, then run flisk up again; whatever ran before goes on running untouched",
	}
	o, buf := pipe()
	o.Failure(f)
	if want := `flisk: cannot build agent "bot"
  ./turn.go:12:2: undefined: answer
      in this file
hint: mend the file, then run flisk up again; whatever ran before goes on running untouched
`; buf.String() != want {
		t.Errorf("on a pipe:\n%s\nwant\n%s", buf, want)
	}
	o, buf = screen(false)
	o.Failure(f)
	if want := `flisk: cannot build agent "bot"
  ./turn.go:12:2: undefined: answer
      in this file
hint: mend the file, then run flisk up again; whatever ran before goes on
      running untouched
`; buf.String() != want {
		t.Errorf("on a terminal:\n%s\nwant\n%s", buf, want)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{Span(14 * time.Millisecond), "14 ms"},
		{Span(999 * time.Millisecond), "999 ms"},
		{Span(1234 * time.Millisecond), "1.2 s"},
		{Span(9999 * time.Millisecond), "9.9 s"},
		{Span(59 * time.Second), "59 s"},
		{Span(200 * time.Second), "3 min 20 s"},
		{Span(125 * time.Minute), "2 h 05 min"},
		{Span(72 * time.Hour), "3 d"},
		{Ago(time.Time{}, now), "never"},
		{Ago(now.Add(time.Hour), now), "just now"},
		{Ago(now.Add(-5*time.Second), now), "5 s ago"},
		{Ago(now.Add(-5*time.Minute), now), "5 min ago"},
		{Ago(now.Add(-47*time.Hour), now), "47 h ago"},
		{Ago(now.Add(-49*time.Hour), now), "2 d ago"},
		{Size(0), "0 B"}, {Size(1023), "1023 B"}, {Size(1434), "1.4 KiB"},
		{Size(1<<20 - 1), "1.0 MiB"}, {Size(5 << 30), "5.0 GiB"},
		{Count(1, "session"), "1 session"}, {Count(0, "session"), "0 sessions"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// A sentence that wraps is whole, below itself, and no word of it is broken.
func TestTableWrapsItsLastColumn(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	o := NewOutput(&b, OutputOptions{Terminal: true, Width: func() int { return 30 }})
	o.Table(Table{
		Columns: []Column{{Title: "DO"}, {Title: "WITH"}, {Title: "BECAUSE", Shrink: Wrap}},
		Rows:    [][]Cell{{{Text: "start"}, {Text: "bot-1.2"}, {Text: "gateway.hosts changed and more"}}},
	})
	want := "DO     WITH     BECAUSE\nstart  bot-1.2  gateway.hosts\n                changed and\n                more\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
