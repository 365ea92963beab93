package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
)

const (
	patience = time.Second            // how long a step runs before a spinner shows it
	redraw   = 100 * time.Millisecond // between two frames
	reminder = 5 * time.Second        // how long a step runs before a plain output mentions it
)

var frames = [...]string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// Progress tells what long work is doing. On a terminal that can redraw, a step
// that runs for over a second gets a spinner line; when it ends, a line with its
// result takes that place. Elsewhere there is one line for each finished step,
// and one more for a step that has been running for a while.
//
// It is safe for concurrent use. Every step that was begun must be ended: that
// stops the goroutine which draws.
type Progress struct {
	out    *Output
	indent string
	silent bool

	mu      sync.Mutex
	steps   []*step  // running, oldest first
	status  []string // stay below everything; see SetStatus
	drawn   int      // lines of spinners and status on the screen, right above the cursor
	partial string   // the beginning of a line of tool output
	loop    *loop    // while a step runs
}

type step struct {
	name      string
	started   time.Time
	transient bool // leaves no line behind
	reminded  bool // a plain output has mentioned it
}

// loop is the goroutine that draws.
type loop struct{ stop, done chan struct{} }

// NewProgress tells progress on out, every line behind indent.
func NewProgress(out *Output, indent string) *Progress { return &Progress{out: out, indent: indent} }

// Silent is progress that nobody sees; tool output is dropped, too.
func Silent() *Progress { return &Progress{silent: true} }

// Begin starts a step. The function it returns ends the step, once; detail is
// a few words for people, and an empty one is replaced by the time it took when
// that was a second or more.
func (p *Progress) Begin(name string) (end func(detail string, err error)) {
	return p.begin(&step{name: name})
}

// Wait is Begin for something that is not worth a line once it is over.
func (p *Progress) Wait(name string) (end func()) {
	done := p.begin(&step{name: name, transient: true})
	return func() { done("", nil) }
}

func (p *Progress) begin(s *step) func(string, error) {
	if p.silent {
		return func(string, error) {}
	}
	s.name, s.started = Line(s.name), time.Now()
	p.mu.Lock()
	p.steps = append(p.steps, s)
	if p.loop == nil {
		p.loop = &loop{make(chan struct{}), make(chan struct{})}
		go p.run(p.loop)
	}
	p.mu.Unlock()

	var once sync.Once
	return func(detail string, err error) { once.Do(func() { p.end(s, detail, err) }) }
}

func (p *Progress) end(s *step, detail string, err error) {
	p.mu.Lock()
	p.steps = slices.DeleteFunc(p.steps, func(other *step) bool { return other == s })
	last := p.loop
	if len(p.steps) > 0 {
		last = nil
	} else {
		p.loop = nil
	}
	var lines []string
	if p.partial != "" {
		lines = p.toolLines(p.partial)
		p.partial = ""
	}
	if !s.transient {
		lines = append(lines, p.fit(result(s, detail, err)))
	}
	p.paint(lines...)
	p.mu.Unlock()
	if last != nil {
		close(last.stop)
		<-last.done
	}
}

// result is the line that a finished step leaves.
func result(s *step, detail string, err error) (line, end string) {
	line = Good.Render("✓") + " " + s.name
	if err != nil {
		line = Bad.Render("✗") + " " + s.name
		if errors.Is(err, context.Canceled) {
			detail = "interrupted"
		}
	}
	if took := time.Since(s.started); detail == "" && took >= time.Second {
		detail = Span(took)
	}
	if detail == "" {
		return line, ""
	}
	return line, Quiet.Render(Line(detail))
}

// run draws until it is stopped.
func (p *Progress) run(l *loop) {
	defer close(l.done)
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			p.mu.Lock()
			p.paint()
			p.mu.Unlock()
		}
	}
}

// paint replaces the spinners by lines and the spinners of what still runs. mu
// is held.
func (p *Progress) paint(lines ...string) {
	erase := ""
	if p.drawn > 0 {
		// To the end of the screen: the terminal may have echoed a ^C below.
		erase = fmt.Sprintf("\r\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
	for _, s := range p.steps {
		ran := time.Since(s.started)
		switch {
		case p.out.Redraw && ran >= patience:
			frame := frames[int(ran/redraw)%len(frames)]
			lines = append(lines, p.fit(Accent.Render(frame)+" "+s.name, Quiet.Render(Span(ran))))
			p.drawn++
		case !p.out.Redraw && ran >= reminder && !s.reminded:
			s.reminded = true
			lines = append(lines, p.indent+"… "+s.name)
		}
	}
	if p.out.Redraw {
		for _, line := range p.status {
			lines = append(lines, p.fit(line, ""))
		}
		p.drawn += len(p.status)
	}
	if len(lines) == 0 && erase == "" {
		return
	}
	text := ""
	if len(lines) > 0 {
		text = strings.Join(lines, "\n") + "\n"
	}
	if !p.out.Colour {
		text = ansi.Strip(text)
	}
	// Not through Write: without colour it would take out the cursor movements,
	// too.
	_, _ = io.WriteString(p.out.Raw(), erase+text) // Failed tells
}

// fit indents a line that has something at its end, such as a time, and keeps it
// within the width: a wrapped spinner could not be erased. The line gives way
// first, down to a third of the width.
func (p *Progress) fit(line, end string) string {
	line = p.indent + line
	if end != "" {
		end = "  " + end
	}
	limit := p.out.Columns() - 1
	if limit < 1 {
		return line + end
	}
	return Cut(Cut(line, max(limit/3, limit-Width(end)))+end, limit)
}

// Note is [Output.Note] above the spinners. Written to the output itself it
// would be painted over.
func (p *Progress) Note(label string, style Style, text string) {
	if p.silent {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paint(strings.TrimSuffix(p.out.labelled(label+":", style, text), "\n"))
}

// SetStatus replaces the lines that stay at the bottom of a terminal that can
// redraw, below whatever is printed. Elsewhere there are none. No lines clears
// them; they must be cleared in the end.
func (p *Progress) SetStatus(lines ...string) {
	if p.silent {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = slices.Clone(lines)
	p.paint()
}

// Print writes whole lines above what stays at the bottom.
func (p *Progress) Print(lines ...string) {
	if p.silent {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paint(lines...)
}

// Output takes what a tool prints during a step. Lines appear above the
// spinners as soon as they are complete, and the rest when a step ends.
func (p *Progress) Output() io.Writer {
	if p.silent {
		return io.Discard
	}
	return toolOutput{p}
}

type toolOutput struct{ progress *Progress }

func (t toolOutput) Write(b []byte) (int, error) {
	p := t.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial += string(b)
	if at := strings.LastIndexByte(p.partial, '\n'); at >= 0 {
		lines := p.toolLines(p.partial[:at])
		p.partial = p.partial[at+1:]
		p.paint(lines...)
	}
	return len(b), nil
}

// toolLines are lines of foreign text as they are painted.
func (p *Progress) toolLines(text string) []string {
	indent := p.indent + "  "
	folded := Fold(Text(text), p.out.Columns(), indent)
	return strings.Split(Quiet.Render(indent+folded), "\n")
}
