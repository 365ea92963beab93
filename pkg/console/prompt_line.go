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
	in     Input
	out    *Output
	prompt string
	editor *editor // nil: the terminal's own line editing has to do
	source *typed  // what the editor reads
}

// NewLineReader reads lines from in and draws them on out, both of a terminal.
// The prompt must be one line.
func NewLineReader(in Input, out *Output, prompt string) *LineReader {
	l := &LineReader{in: in, out: out, prompt: prompt}
	if out.Redraw {
		l.source = new(typed)
		l.editor = &editor{in: l.source, out: out.Raw(), columns: out.Columns}
	}
	return l
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
	if l.editor == nil {
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
		_, _ = io.WriteString(l.out.Raw(), pasteMarksOn) // Failed tells, here and below
		defer func() { _, _ = io.WriteString(l.out.Raw(), pasteMarksOff) }()
	}
	l.source.in = in
	var pasted []string
	for {
		l.editor.prompt = l.promptAfter(pasted)
		line, more, err := l.editor.readLine()
		switch {
		case err != nil:
			*l.source = typed{} // or the next call would go on with this line
			l.editor.rest, l.editor.pasted = nil, false
			l.editor.reset()
			_, _ = io.WriteString(l.out.Raw(), "\r\n")
			return "", err
		case !more:
			return strings.Join(append(pasted, line), "\n"), nil
		}
		pasted = append(pasted, line)
	}
}

// What makes a terminal mark what is pasted, and not any more.
const (
	pasteMarksOn  = "\x1b[?2004h"
	pasteMarksOff = "\x1b[?2004l"
)

// promptAfter is the prompt below the lines of a paste.
func (l *LineReader) promptAfter(pasted []string) string {
	if len(pasted) == 0 {
		return l.styled(l.prompt)
	}
	return l.styled(strings.Repeat(".", max(1, len([]rune(strings.TrimRight(l.prompt, " "))))) + " ")
}

// typed is what a line editor reads. What it hands to the editor,
// the editor understands without waiting for more: an editor that waits in the
// middle of a key would hear no other.
type typed struct {
	in      keySource
	filter  keyFilter
	chunk   [256]byte
	pending []byte // passed the filter, and was not read yet
}

// keySource is a [PatientReader].
type keySource interface {
	io.Reader
	Within(time.Duration) (bool, error)
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
