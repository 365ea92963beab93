package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
)

// story is how the demo tells what it does: numbered chapters on stdout, which
// is its product. With --json it says nothing.
type story struct {
	out      *console.Output
	quiet    bool
	progress *console.Progress
	unheard  func(error) // called when what is told cannot be written
	chapters int
	checks   []DemoCheckJSON
}

const storyIndent = "   "

func newStory(a *app) story {
	s := story{out: a.streams.Out, quiet: a.global.json, progress: console.Silent()}
	if !s.quiet {
		s.progress = console.NewProgress(s.out, storyIndent)
	}
	return s
}

func (s *story) print(line string) {
	if s.quiet {
		return
	}
	fmt.Fprintln(s.out, line)
	if err := s.out.Failed(); err != nil {
		s.unheard(err)
	}
}

// indented prints text behind a styled label, folded under itself.
func (s *story) indented(label string, style console.Style, text string, textStyle console.Style) {
	prefix := storyIndent
	if label != "" {
		prefix += style.Render(label) + " "
	}
	indent := storyIndent
	if label != "" {
		indent += strings.Repeat(" ", len([]rune(label))+1)
	}
	s.print(prefix + textStyle.Render(console.Fold(console.Text(text), s.out.Columns(), indent)))
}

func (s *story) title(text string) {
	s.print(console.Strong.Render("flisk demo") + console.Quiet.Render(" · "+text))
}

func (s *story) chapter(title string) {
	s.chapters++
	s.print("")
	s.print(console.Accent.Render(strconv.Itoa(s.chapters)) + "  " + console.Strong.Render(title))
}

// command shows a command line that would do the same.
func (s *story) command(line string) {
	s.indented("$", console.Quiet, line, console.Accent)
}

func (s *story) say(text string) { s.indented("", console.Plain, text, console.Quiet) }

func (s *story) you(session, text string) {
	s.command("flisk turn " + strconv.Quote(text) + " -s " + session)
}

// they is a reply, as far in as the words of the command above it.
func (s *story) they(text string) {
	s.indented(" ", console.Plain, text, console.Plain)
}

// check notes what was looked at and how it turned out.
func (s *story) check(name string, held bool) {
	s.checks = append(s.checks, DemoCheckJSON{name, held})
	if held {
		s.indented("✓", console.Good, name, console.Strong)
	} else {
		s.indented("✗", console.Bad, name, console.Bad)
	}
}

// conclude sums up. A check that did not hold is an error.
func (d *demo) conclude(a *app, took time.Duration) error {
	held := 0
	var broken []string
	for _, c := range d.checks {
		if c.Held {
			held++
		} else {
			broken = append(broken, strconv.Quote(c.Name))
		}
	}
	d.result.Held, d.result.Checks = len(broken) == 0, d.checks
	if a.global.json {
		if err := a.printJSON(d.result); err != nil {
			return err
		}
	} else {
		style := console.Good
		if len(broken) > 0 {
			style = console.Bad
		}
		fields := []console.Field{{Label: "held", Value: console.Cell{
			Text: fmt.Sprintf("%d of %s, in %s", held, console.Count(len(d.checks), "check"), console.Span(took)), Style: style,
		}}}
		if d.result.Dir != "" {
			fields = append(fields, console.Field{Label: "kept", Value: console.Cell{Text: d.result.Dir}, Shrink: console.Middle})
		}
		fields = append(fields, console.Field{Label: "next", Value: console.Cell{Text: "flisk init bot", Style: console.Accent}})
		d.print("")
		d.out.Fields(fields...)
	}
	if len(broken) > 0 {
		return fault.New(fault.Failed, "run it with --keep and look at the files", "the demo shows something broken: %s", strings.Join(broken, ", "))
	}
	return nil
}

// mentions reports whether a reply quotes what was said.
func mentions(reply, said string) bool { return strings.Contains(reply, strconv.Quote(said)) }
