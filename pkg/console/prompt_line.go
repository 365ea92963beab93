package console

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// ErrInterrupt says that Ctrl-C was typed instead of a line.
var ErrInterrupt = errors.New("interrupted")

// LineReader reads what a person types, a line at a time. On a terminal that can
// redraw, the line can be edited, and the arrow keys bring earlier ones back. It
// is for one goroutine; the terminal is in its usual state between two calls, so
// that Ctrl-C is a signal then.
type LineReader struct {
	in       Input
	out      *Output
	prompt   string
	terminal *term.Terminal // nil: the terminal's own line editing has to do
	history  term.History
	source   *typed
}

// NewLineReader reads lines from in and draws them on out, both of a terminal.
// The prompt must be one line.
func NewLineReader(in Input, out *Output, prompt string) *LineReader {
	l := &LineReader{in: in, out: out, prompt: prompt}
	if out.Redraw {
		l.restart()
	}
	return l
}

// restart begins with an empty line and the history that there was.
func (l *LineReader) restart() {
	l.source = &typed{out: l.out}
	l.terminal = term.NewTerminal(l.source, l.styled(l.prompt))
	if l.history != nil {
		l.terminal.History = l.history
	}
	l.history = l.terminal.History
}

func (l *LineReader) styled(prompt string) string {
	if !l.out.Colour {
		return prompt
	}
	return Accent.Render(prompt)
}

// Read returns the next line, without its line break. Several lines that are
// pasted at once are one: it is complete when Enter is pressed.
//
// Errors: [ErrInterrupt] for Ctrl-C, io.EOF for Ctrl-D on an empty line and for
// the end of the input, ctx's cause.
func (l *LineReader) Read(ctx context.Context) (string, error) {
	in := Patient(ctx, l.in.Reader)
	defer in.Close()
	if l.terminal == nil {
		if _, err := io.WriteString(l.out, l.prompt); err != nil {
			return "", err
		}
		return readTypedLine(in)
	}
	if file, ok := l.in.Reader.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		was, err := term.MakeRaw(int(file.Fd()))
		if err != nil {
			return "", err
		}
		defer func() { _ = term.Restore(int(file.Fd()), was) }()
		l.terminal.SetBracketedPasteMode(true)
		defer l.terminal.SetBracketedPasteMode(false)
	}
	l.source.in = in
	var pasted []string
	for {
		l.terminal.SetPrompt(l.promptAfter(pasted))
		if columns := l.out.Columns(); columns > 0 {
			const height = 24                       // has no effect
			_ = l.terminal.SetSize(columns, height) // draws nothing on an empty line
		}
		line, err := l.terminal.ReadLine()
		switch {
		case err == nil:
			return strings.Join(append(pasted, line), "\n"), nil
		case errors.Is(err, term.ErrPasteIndicator):
			pasted = append(pasted, line)
		default:
			interrupted := l.source.filter.interrupted
			l.restart() // or the next call would go on with this line
			_, _ = io.WriteString(l.out.Raw(), "\r\n")
			if interrupted && err == io.EOF {
				err = ErrInterrupt
			}
			return "", err
		}
	}
}

// promptAfter is the prompt below the lines of a paste.
func (l *LineReader) promptAfter(pasted []string) string {
	if len(pasted) == 0 {
		return l.styled(l.prompt)
	}
	return l.styled(strings.Repeat(".", max(1, len([]rune(strings.TrimRight(l.prompt, " "))))) + " ")
}

// typed is what a line editor reads and draws on.
type typed struct {
	in      io.Reader
	out     *Output
	filter  pasteFilter
	chunk   [256]byte
	pending []byte // passed the filter, and was not read yet
}

func (t *typed) Write(p []byte) (int, error) { return t.out.Raw().Write(p) }

func (t *typed) Read(p []byte) (int, error) {
	for len(t.pending) == 0 {
		n, err := t.in.Read(t.chunk[:])
		t.pending = t.filter.pass(t.pending[:0], t.chunk[:n])
		if err != nil && len(t.pending) == 0 {
			return 0, err
		}
	}
	n := copy(p, t.pending)
	t.pending = t.pending[n:]
	return n, nil
}

// pasteFilter takes out of what a terminal sends whatever the editor must not
// draw: the control characters that no key makes and, in a paste, all but line
// breaks. Without it, an escape character at the end of a paste would also hide
// that end from the editor, and Ctrl-C with it.
type pasteFilter struct {
	pasting     bool   // between the marks of a paste
	held        string // the beginning of what may be the mark that ends it
	seen        int    // bytes of the mark that begins one
	lead        bool   // the last byte was 0xc2 and is held back: a C1 control character may follow
	cr          bool   // the last byte of a paste was a carriage return
	interrupted bool   // Ctrl-C was typed, not pasted
}

// What a terminal sends around a paste.
const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// pass adds what may pass to dst.
func (f *pasteFilter) pass(dst, p []byte) []byte {
	for _, b := range p {
		if f.pasting {
			dst = f.pasted(dst, b)
		} else {
			dst = f.typed(dst, b)
		}
	}
	return dst
}

func (f *pasteFilter) typed(dst []byte, b byte) []byte {
	switch {
	case b == pasteStart[f.seen]:
		f.seen++
	case b == pasteStart[0]:
		f.seen = 1
	default:
		f.seen = 0
	}
	if f.seen == len(pasteStart) {
		f.pasting, f.seen = true, 0
	}
	const ctrlC = 3
	f.interrupted = f.interrupted || b == ctrlC
	return f.text(dst, b)
}

func (f *pasteFilter) pasted(dst []byte, b byte) []byte {
	if b == pasteEnd[len(f.held)] {
		if f.held += string(rune(b)); f.held == pasteEnd {
			f.pasting, f.held = false, ""
			dst = append(dst, pasteEnd...)
		}
		return dst
	}
	if f.held != "" { // it was no mark, and goes without the escape character
		dst, f.held = append(dst, f.held[1:]...), ""
		return f.pasted(dst, b)
	}
	cr := f.cr
	f.cr = b == '\r'
	if b < ' ' && b != '\r' && b != '\n' || b == 0x7f || b == '\n' && cr {
		return dst
	}
	return f.text(dst, b)
}

// text leaves C1 control characters out: 0xc2 and a byte below 0xa0.
func (f *pasteFilter) text(dst []byte, b byte) []byte {
	const lead = 0xc2
	held := f.lead
	if f.lead = b == lead; f.lead {
		return dst
	}
	if held && b >= 0x80 && b < 0xa0 {
		return dst
	}
	if held {
		dst = append(dst, lead)
	}
	return append(dst, b)
}
