// Package console is how flisk talks to people: streams that know whether a
// terminal is at their end, a handful of text styles, tables and blocks that fit
// the terminal, progress, and failures.
//
// Begin with [System] for the process's own streams, or [NewOutput] over a
// buffer in a test. Everything that is laid out here ([Output.Table],
// [Output.Fields], [Output.Failure], progress) makes foreign text harmless by
// itself; text that is printed in other ways and was not written by flisk goes
// through [Text] or [Line] first.
//
// Style sequences are always rendered and taken out again by an [Output] that
// has no colour, so no other code asks whether there is colour.
package console

import (
	"io"
	"os"
	"strings"
	"sync"

	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"
)

// Streams are the three standard streams of one run.
type Streams struct {
	In  Input
	Out *Output // the product: what a caller reads or pipes on
	Err *Output // everything for people: progress, meta lines, failures
}

// Input is where answers and piped data come from.
type Input struct {
	io.Reader
	Terminal bool // a person types at the other end
}

// OutputOptions describe what is at the end of an output.
type OutputOptions struct {
	Terminal bool       // a person watches
	Redraw   bool       // a terminal that can move its cursor
	Colour   bool       // styles are shown
	Width    func() int // columns; nil or a result below 1 means that there is no limit
}

// Output is one output stream. It is safe for concurrent use as far as its
// writer is; each call writes once.
type Output struct {
	OutputOptions
	raw   *stickyWriter
	paint colorprofile.Writer
}

// NewOutput makes an output over w.
func NewOutput(w io.Writer, options OutputOptions) *Output {
	raw := &stickyWriter{w: w}
	// Styles use the 16 colours that a terminal's own theme defines, so the
	// profile never needs more than that.
	profile := colorprofile.NoTTY
	if options.Colour {
		profile = colorprofile.ANSI
	}
	return &Output{
		OutputOptions: options,
		raw:           raw,
		paint:         colorprofile.Writer{Forward: raw, Profile: profile},
	}
}

// Write prints text for people: styles are taken out when there is no colour.
func (o *Output) Write(p []byte) (int, error) { return o.paint.Write(p) }

// FreshLine begins a new line where a terminal has echoed a ^C, so that what
// comes next is not behind it. Elsewhere it does nothing. A spinner stays
// where it was: the echo is on the line below it.
func (o *Output) FreshLine() {
	switch {
	case o.Terminal && o.Redraw:
		_, _ = io.WriteString(o.raw, "\r\x1b[K") // Failed tells
	case o.Terminal:
		_, _ = io.WriteString(o.raw, "\n")
	}
}

// Raw writes bytes as they are: JSON, or an agent's reply that is piped on.
func (o *Output) Raw() io.Writer { return o.raw }

// Columns is the width that lines must fit, or 0 when there is no limit.
func (o *Output) Columns() int {
	if o.Width == nil {
		return 0
	}
	return max(0, o.Width())
}

// ForPeople reports whether what is written ends before somebody's eyes.
func (o *Output) ForPeople() bool { return o.Terminal || o.Colour }

// Failed returns the first error that writing met. A full disk or a closed pipe
// must not look like success.
func (o *Output) Failed() error {
	o.raw.mu.Lock()
	defer o.raw.mu.Unlock()
	return o.raw.err
}

// stickyWriter remembers the first error of its writer and stops there.
type stickyWriter struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

func (s *stickyWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

// System returns the standard streams of this process; environ ("NAME=value")
// decides about colour.
func System(environ []string) *Streams {
	return &Streams{
		In:  Input{Reader: os.Stdin, Terminal: term.IsTerminal(int(os.Stdin.Fd()))},
		Out: NewOutput(os.Stdout, Detect(os.Stdout, environ)),
		Err: NewOutput(os.Stderr, Detect(os.Stderr, environ)),
	}
}

// Detect looks at what a file leads to.
func Detect(f *os.File, environ []string) OutputOptions {
	fd := int(f.Fd())
	o := decide(term.IsTerminal(fd), environ)
	if o.Terminal {
		o.Width = func() int {
			if width, _, err := term.GetSize(fd); err == nil && width > 0 {
				return width
			}
			return 80
		}
	}
	return o
}

// decide applies the habits of the environment: NO_COLOR wins over everything,
// CLICOLOR_FORCE over what the stream is, TERM=dumb and CLICOLOR=0 over a
// terminal.
func decide(terminal bool, environ []string) OutputOptions {
	name := lookup(environ, "TERM")
	able := terminal && name != "" && name != "dumb"
	force := lookup(environ, "CLICOLOR_FORCE")
	colour := able && lookup(environ, "CLICOLOR") != "0"
	if force != "" && force != "0" {
		colour = true
	}
	if lookup(environ, "NO_COLOR") != "" {
		colour = false
	}
	return OutputOptions{Terminal: terminal, Redraw: able, Colour: colour}
}

// lookup returns the last value of a name, as a shell's child would see it.
func lookup(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if k, v, _ := strings.Cut(entry, "="); k == name {
			value = v
		}
	}
	return value
}
