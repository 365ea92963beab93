package console

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

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
			return replaced(strings.Join(append(pasted, line), "\n")), nil
		case errors.Is(err, term.ErrPasteIndicator):
			pasted = append(pasted, line)
		default:
			l.restart() // or the next call would go on with this line
			_, _ = io.WriteString(l.out.Raw(), "\r\n")
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

// typed is what a line editor reads and draws on. What it hands to the editor,
// the editor understands without waiting for more: an editor that waits in the
// middle of a key would hear no other.
type typed struct {
	in      keySource
	out     *Output
	filter  keyFilter
	chunk   [256]byte
	pending []byte // passed the filter, and was not read yet
}

// keySource is a [PatientReader].
type keySource interface {
	io.Reader
	Within(time.Duration) (bool, error)
}

// Write draws.
func (t *typed) Write(p []byte) (int, error) {
	if _, err := io.WriteString(t.out.Raw(), replaced(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// keyPause is longer than a terminal takes between two bytes of one key, and
// shorter than a person between two keys.
const keyPause = 50 * time.Millisecond

// Read is [io.Reader]. Its error for Ctrl-C is [ErrInterrupt].
func (t *typed) Read(p []byte) (int, error) {
	for len(t.pending) == 0 {
		if t.filter.interrupted {
			return 0, ErrInterrupt
		}
		if t.filter.unsure() {
			more, err := t.in.Within(keyPause)
			if err != nil {
				return 0, err
			}
			if !more {
				t.filter.silence()
				continue
			}
		}
		n, err := t.in.Read(t.chunk[:])
		t.pending = t.filter.pass(t.pending[:0], t.chunk[:n])
		if err != nil && len(t.pending) == 0 {
			if t.filter.silence(); t.filter.interrupted {
				return 0, ErrInterrupt
			}
			return 0, err
		}
	}
	n := copy(p, t.pending)
	t.pending = t.pending[n:]
	return n, nil
}
