package cli

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// devScreen shows what a dev loop does, line by line, among what the agents
// print. On a terminal a line for each agent stays at the bottom. It is safe for
// concurrent use.
type devScreen struct {
	app      *app
	out      *console.Output
	progress *console.Progress
	now      func() time.Time

	stop     chan struct{} // closed by close
	counting sync.WaitGroup
	once     sync.Once

	mu     sync.Mutex
	rows   devRows
	width  int             // of the names before the lines
	warned map[string]bool // texts: every reload would say them again
	broken bool            // the last reload came to nothing
	echo   devEcho
}

// loopName stands where the lines of agents have a replica's name.
const loopName = "flisk"

func newDevScreen(a *app, progress *console.Progress) *devScreen {
	s := &devScreen{
		app: a, out: a.streams.Out, progress: progress, now: time.Now, stop: make(chan struct{}),
		width: len(loopName), warned: map[string]bool{}, echo: newDevEcho(),
	}
	if s.out.Redraw && !a.global.json {
		s.counting.Go(s.count)
	}
	return s
}

// count keeps the times in the bottom lines going.
func (s *devScreen) count() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		for _, r := range s.rows {
			if r.phase != "" || r.paused != "" {
				s.paint()
				break
			}
		}
		s.mu.Unlock()
	}
}

// show names the agents that the bottom lines are about.
func (s *devScreen) show(agents []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = s.rows.name(agents)
	for _, name := range agents {
		s.width = max(s.width, len(name)+2) // "bot-1"
	}
}

// serving reports whether the loop has brought anything up.
func (s *devScreen) serving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.rows, func(r *devRow) bool { return r.serves != noCode })
}

// draining reports whether old generations finish what they accepted.
func (s *devScreen) draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.draining > 0 {
			return true
		}
	}
	return false
}

// log prints a line of an agent's.
func (s *devScreen) log(l runtime.Line) error {
	if s.app.global.json {
		s.mu.Lock()
		reload := s.rows.serving(l.Replica)
		s.mu.Unlock()
		return encode(s.out.Raw(), DevJSON{Time: l.Time, Event: "log", Reload: reload, Log: &DevLogJSON{l.Replica, l.Text}}, "")
	}
	if ours.MatchString(l.Text) || s.echoes(l) {
		return nil // the loop's own lines say the same
	}
	s.say(l.Time, l.Replica, console.Accent, said{text: console.Line(strings.ReplaceAll(l.Text, "\t", "    "))})
	return s.out.Failed()
}

// ours are the lines that the library writes of a start and an end that went well,
// and those of who keeps a replica alive about what the looks find, too.
var ours = regexp.MustCompile(`^level=INFO msg=(started|draining|drained) |^\[flisk\] (ended|is ready, after|does not get ready)`)

// tell prints an event.
func (s *devScreen) tell(e dev.Event) {
	mended, known := s.note(e)
	if s.app.global.json {
		_ = encode(s.out.Raw(), devJSON(e), "") // Failed tells
		return
	}
	for i, line := range devLines(e, mended, known) {
		s.say(e.Time, loopName, console.Strong, line)
		if i == 0 && e.Kind == dev.Reloaded {
			s.more(console.Quiet, console.FoldParts(spanParts(e.Spans), " · ", s.room()))
		}
	}
	switch e.Kind {
	case dev.Failed, dev.Lost, dev.Drained:
		s.fail(e)
	}
}

// note brings what is known up to date. mended says that a reload came to
// something for the first time again, known that e says of its replica what is
// known already.
func (s *devScreen) note(e dev.Event) (mended, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if row := s.rows.of(strings.Join(e.Agents, "")); row != nil && e.Kind == dev.Failing {
		_, known = row.trouble[e.Replica.Name]
	}
	s.rows = s.rows.note(e)
	switch e.Kind {
	case dev.Reloading:
		s.echo = newDevEcho()
	case dev.Failed:
		s.broken = true
	case dev.Reloaded, dev.Unchanged:
		mended, s.broken = s.broken, false
	}
	s.paint()
	return mended, known
}

// paint draws the bottom lines. mu is held.
func (s *devScreen) paint() {
	width := 0
	for _, r := range s.rows {
		width = max(width, console.Width(r.name))
	}
	var lines []string
	for _, r := range s.rows {
		lines = append(lines, r.line(width, s.now()))
	}
	s.progress.SetStatus(lines...)
}

// say prints a line behind the time and a name.
func (s *devScreen) say(at time.Time, name string, style console.Style, line said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = console.Line(name)
	s.width = max(s.width, len(name))
	head := console.Quiet.Render(at.Local().Format(stampFormat)) + " " + style.Render(name) + strings.Repeat(" ", s.width-len(name)+2)
	s.progress.Print(head + line.fold(s.out.Columns(), s.indent()))
}

// more prints lines below one that was said, as they are.
func (s *devScreen) more(style console.Style, text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.Print(s.indent() + style.Render(strings.ReplaceAll(text, "\n", "\n"+s.indent())))
}

// stampFormat is how the lines begin.
const stampFormat = "15:04:05"

// indent is where the text of lines begins. mu is held.
func (s *devScreen) indent() string { return strings.Repeat(" ", len(stampFormat)+s.width+3) }

// room is how wide the text of lines may be; 0 is without a limit.
func (s *devScreen) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out.Columns() == 0 {
		return 0
	}
	return max(s.out.Columns()-len(s.indent()), 1)
}

// fail prints what an error has beyond its message.
func (s *devScreen) fail(e dev.Event) {
	if e.Err == nil || e.Known {
		return
	}
	room := s.room()
	f := asFault(e.Err)
	if problems, ok := errors.AsType[project.Problems](e.Err); ok && room > 0 {
		f.Detail = problems.Detail(room)
	}
	s.mu.Lock()
	detail := s.echo.rest(f.Detail)
	s.mu.Unlock()
	s.more(console.Plain, console.Fold(console.Text(detail), room, ""))
	instead := "save a correction"
	if len(e.Broken) == 0 {
		instead = "it is tried again now and then, and at the next save"
	}
	if hint := strings.Replace(f.Hint, "correct it and try again", instead, 1); hint != "" {
		text := console.Fold(console.Line("hint: "+hint), room, "      ")
		s.more(console.Plain, console.Accent.Render("hint:")+strings.TrimPrefix(text, "hint:"))
	}
}

// warn prints what is odd, once.
func (s *devScreen) warn(err error) {
	text := warning(err)
	s.mu.Lock()
	known := s.warned[text]
	s.warned[text] = true
	s.mu.Unlock()
	if !known {
		s.alarm(err)
	}
}

func warning(err error) string {
	f := asFault(err)
	if f.Hint == "" {
		return f.Message
	}
	return f.Message + "; " + f.Hint
}

// alarm prints what keeps anything from being reloaded, each time that it begins.
func (s *devScreen) alarm(err error) {
	f := asFault(err)
	switch {
	case s.app.global.json:
		_ = encode(s.out.Raw(), DevJSON{Time: time.Now(), Event: "warning", Error: &ErrorBody{Message: f.Message, Hint: f.Hint, ExitCode: int(f.Kind)}}, "") // Failed tells
	default:
		s.progress.Note("warning", console.Warn, warning(err))
	}
}

// fields prints a block of facts, with a line before it.
func (s *devScreen) fields(fields ...console.Field) {
	if s.app.global.json {
		return
	}
	var block strings.Builder
	console.NewOutput(&block, s.out.OutputOptions).Fields(fields...)
	s.progress.Print("", strings.TrimRight(block.String(), "\n"))
}

// close takes the bottom lines away. It may be called again.
func (s *devScreen) close() {
	s.once.Do(func() { close(s.stop) })
	s.counting.Wait()
	s.progress.SetStatus()
}
