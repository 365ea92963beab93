package cli

import (
	"errors"
	"fmt"
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

	mu     sync.Mutex
	agents []*devAgent
	width  int             // of the names before the lines
	warned map[string]bool // texts: every reload would say them again
}

// devAgent is what the bottom line of an agent says.
type devAgent struct {
	name     string
	state    console.Cell
	reload   int
	took     time.Duration
	draining int // old generations
}

// loopName stands where the lines of agents have a replica's name.
const loopName = "flisk"

func newDevScreen(a *app, progress *console.Progress) *devScreen {
	return &devScreen{app: a, out: a.streams.Out, progress: progress, width: len(loopName), warned: map[string]bool{}}
}

// show names the agents that the bottom lines are about.
func (s *devScreen) show(agents []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.agents
	s.agents = nil
	for _, name := range agents {
		i := slices.IndexFunc(before, func(a *devAgent) bool { return a.name == name })
		if i >= 0 {
			s.agents = append(s.agents, before[i])
		} else {
			s.agents = append(s.agents, &devAgent{name: name, state: console.Cell{Text: "starting", Style: console.Warn}})
		}
		s.width = max(s.width, len(name)+2) // "bot-1"
	}
}

// log prints a line of an agent's.
func (s *devScreen) log(l runtime.Line) error {
	if s.app.global.json {
		return encode(s.out.Raw(), DevJSON{Time: l.Time, Event: "log", Log: &DevLogJSON{l.Replica, l.Text}}, "")
	}
	if ours.MatchString(l.Text) {
		return nil // the loop's own lines say the same
	}
	s.say(l.Time, l.Replica, console.Accent, said{text: console.Line(strings.ReplaceAll(l.Text, "\t", "    "))})
	return s.out.Failed()
}

// ours are the lines that the library writes of a start and an end that went well.
var ours = regexp.MustCompile(`^level=INFO msg=(started|draining|drained) `)

// tell prints an event.
func (s *devScreen) tell(e dev.Event) {
	if s.app.global.json {
		_ = encode(s.out.Raw(), devJSON(e), "") // Failed tells
		return
	}
	s.note(e)
	lines := devLines(e)
	for _, line := range lines {
		s.say(e.Time, loopName, console.Strong, line)
	}
	if e.Kind == dev.Reloaded && len(lines) > 0 {
		s.more(console.Quiet, spansLine(e.Spans))
	}
	if e.Err != nil {
		s.fail(e)
	}
}

// said is a line, and how it looks: its mark, if it has one, or all of it.
type said struct {
	mark  string
	style console.Style
	text  string
}

// fold fits a line into the columns behind an indent. Styles come last: they have
// no width.
func (l said) fold(columns int, indent string) string {
	if l.mark == "" {
		return l.style.Render(console.Fold(l.text, columns, indent))
	}
	return l.style.Render(l.mark) + strings.TrimPrefix(console.Fold(l.mark+" "+l.text, columns, indent), l.mark)
}

// say prints a line behind the time and a name.
func (s *devScreen) say(at time.Time, name string, style console.Style, line said) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stamp := at.Local().Format("15:04:05")
	name = console.Line(name)
	s.width = max(s.width, len(name))
	head := console.Quiet.Render(stamp) + " " + style.Render(name) + strings.Repeat(" ", s.width-len(name)+2)
	indent := strings.Repeat(" ", len(stamp)+s.width+3)
	s.progress.Print(head + line.fold(s.out.Columns(), indent))
}

// more prints a line below one that was said.
func (s *devScreen) more(style console.Style, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	indent := strings.Repeat(" ", len("15:04:05")+s.width+3)
	s.progress.Print(indent + style.Render(console.Fold(text, s.out.Columns(), indent)))
}

// fail prints what an error has beyond its message.
func (s *devScreen) fail(e dev.Event) {
	f := asFault(e.Err)
	if problems, ok := errors.AsType[project.Problems](e.Err); ok && s.out.Columns() > 0 {
		f.Detail = problems.Detail(s.out.Columns() - detailIndent)
	}
	var lines []string
	if detail := strings.Trim(f.Detail, "\n"); detail != "" {
		lines = strings.Split("  "+console.Fold(console.Text(detail), s.out.Columns(), "  "), "\n")
	}
	if hint := strings.Replace(f.Hint, "correct it and try again", "save a correction", 1); hint != "" {
		lines = append(lines, console.Accent.Render("hint:")+" "+console.Fold(console.Line(hint), s.out.Columns(), strings.Repeat(" ", len("hint: "))))
	}
	s.progress.Print(lines...)
}

// note brings the bottom lines up to date.
func (s *devScreen) note(e dev.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		concerned := slices.Contains(e.Agents, a.name)
		a.draining = e.Draining[a.name]
		switch e.Kind {
		case dev.Reloading:
			if concerned {
				a.state = console.Cell{Text: "reloading", Style: console.Warn}
			}
		case dev.Reloaded, dev.Unchanged, dev.Back:
			a.state = console.Cell{Text: "ready", Style: console.Good}
			if concerned && e.Kind == dev.Reloaded {
				a.reload, a.took = e.Reload, e.Spans.Total()
			}
		case dev.Dropped:
			if concerned {
				a.state = console.Cell{Text: "ready", Style: console.Good}
			}
		case dev.Failed:
			if concerned || len(e.Agents) == 0 {
				a.state = console.Cell{Text: "not reloaded", Style: console.Bad}
			}
		case dev.Lost:
			a.state = console.Cell{Text: "lost", Style: console.Bad}
		}
	}
	s.paint()
}

// paint draws the bottom lines. mu is held.
func (s *devScreen) paint() {
	var lines []string
	for _, a := range s.agents {
		line := a.state.Style.Render("●") + " " + console.Strong.Render(a.name) + "  " + a.state.Style.Render(a.state.Text)
		if a.reload > 0 {
			line += console.Quiet.Render(fmt.Sprintf("  reload %d took %s", a.reload, console.Span(a.took)))
		}
		if a.draining > 0 {
			line += console.Quiet.Render(fmt.Sprintf("  %d draining", a.draining))
		}
		lines = append(lines, line)
	}
	s.progress.SetStatus(lines...)
}

// warn prints what is odd, once.
func (s *devScreen) warn(err error) {
	f := asFault(err)
	text := f.Message
	if f.Hint != "" {
		text += "; " + f.Hint
	}
	s.mu.Lock()
	known := s.warned[text]
	s.warned[text] = true
	s.mu.Unlock()
	switch {
	case known:
	case s.app.global.json:
		_ = encode(s.out.Raw(), DevJSON{Time: time.Now(), Event: "warning", Error: &ErrorBody{Message: f.Message, Hint: f.Hint, ExitCode: int(f.Kind)}}, "") // Failed tells
	default:
		s.progress.Note("warning", console.Warn, text)
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

// close takes the bottom lines away.
func (s *devScreen) close() { s.progress.SetStatus() }

// devLines are what people read of an event, each behind the time.
func devLines(e dev.Event) []said {
	saved := listed(e.Paths, 3)
	switch e.Kind {
	case dev.Reloading:
		if e.Reload == 0 && e.Paths == nil {
			return nil // the steps tell
		}
		lines := []said{}
		if saved != "" {
			lines = append(lines, said{text: saved + " changed"})
		}
		for _, step := range e.Steps {
			if c := step.Cause; step.Do == runtime.SwapGateway || step.Do == runtime.StartService || step.Do == runtime.StopService || step.Do == runtime.Start && c != "its code changed" {
				lines = append(lines, said{text: strings.Join(strings.Fields(fmt.Sprintf("%s %s", step.Do, step.Object())), " ") + ": " + c})
			}
		}
		return lines
	case dev.Reloaded:
		if e.Reload == 0 {
			return nil
		}
		what := "the stack"
		if len(e.Agents) > 0 {
			what = strings.Join(slices.Compact(slices.Sorted(slices.Values(e.Agents))), ", ")
		}
		text := fmt.Sprintf("reload %d: %s runs what is on disk, after %s", e.Reload, what, console.Span(e.Spans.Total()))
		if e.Unsettled {
			text = fmt.Sprintf("reload %d: %s runs some of what is being saved all the time; the next reload follows", e.Reload, what)
		}
		return []said{{"✓", console.Good, text}}
	case dev.Unchanged:
		return []said{{"", console.Quiet, saved + " changed; what runs is what is on disk already"}}
	case dev.Failed:
		return []said{{"✗", console.Bad, console.Line(asFault(e.Err).Message)}}
	case dev.Dropped:
		return []said{{"", console.Quiet, "given up for a newer change, before anything was replaced"}}
	case dev.Waiting:
		return []said{{"!", console.Warn, saved + " changed, and waits: too many old generations still finish their turns"}}
	case dev.Drained:
		if e.Err != nil {
			return []said{{"!", console.Warn, "the end of an old generation of " + strings.Join(e.Agents, ", ") + ": " + console.Line(asFault(e.Err).Message)}}
		}
		return drainedLines(e)
	case dev.Lost:
		return []said{{"✗", console.Bad, console.Line(asFault(e.Err).Message)}}
	case dev.Back:
		return []said{{"✓", console.Good, "everything runs again"}}
	case dev.Stopped:
		return []said{{text: "the stack was stopped by another command"}}
	case dev.Paused:
		return []said{{"!", console.Warn, saved + " changes with every reload, as if the agent wrote it; it reloads nothing until another file is saved. To end that for good: watch.ignore in flisk.yaml"}}
	}
	return nil
}

// drainedLines are told of drains that somebody could have waited for, and of
// those that did not go well.
func drainedLines(e dev.Event) (lines []said) {
	const noticed = time.Second
	for _, c := range e.Replaced {
		switch {
		case c.Exit != (runtime.Exit{}):
			lines = append(lines, said{"!", console.Warn, fmt.Sprintf("the old %s ended with %s", c.Replica, c.Exit)})
		case e.Took >= noticed:
			lines = append(lines, said{"", console.Quiet, fmt.Sprintf("the old %s has finished its turns, after %s", c.Replica, console.Span(e.Took))})
		}
	}
	return lines
}

func spansLine(s dev.Spans) string {
	var parts []string
	for _, p := range []struct {
		name string
		took time.Duration
	}{{"detect", s.Detect}, {"wait", s.Wait}, {"plan", s.Plan}, {"build", s.Build}, {"start", s.Start}, {"switch", s.Switch}} {
		const noticed = time.Millisecond
		if p.name != "wait" || p.took >= noticed {
			parts = append(parts, p.name+" "+console.Span(p.took))
		}
	}
	return strings.Join(parts, " · ")
}

// listed names the first few of many.
func listed(names []string, few int) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// DevJSON is one event of "flisk dev --json", a line each.
type DevJSON struct {
	Time     time.Time     `json:"time"`
	Event    string        `json:"event"`               // of docs/DEV_LOOP.md
	Reload   int           `json:"reload"`              // counts from 1; 0 is the first start
	Paths    []string      `json:"paths,omitempty"`     // that were saved, relative to the project: the first hundred
	Files    int           `json:"files,omitempty"`     // how many were saved
	Agents   []string      `json:"agents,omitempty"`    // that get new processes
	Steps    []string      `json:"steps,omitempty"`     // what is to be done, for people
	Spans    *DevSpansJSON `json:"spans_ms,omitempty"`  // how long the parts of a reload took
	Drain    int64         `json:"drain_ms,omitempty"`  // how long the old generation took to end
	Replaced []ChangeJSON  `json:"replaced,omitempty"`  // which process took whose place
	URL      string        `json:"url,omitempty"`       // base URL of the gateway
	Moving   bool          `json:"unsettled,omitempty"` // somebody saved all the time: what runs is some of it, and a reload follows
	Error    *ErrorBody    `json:"error,omitempty"`
	Log      *DevLogJSON   `json:"log,omitempty"`
}

// DevSpansJSON is how long the parts of a reload took, in milliseconds.
type DevSpansJSON struct {
	Detect int64 `json:"detect"` // from the first event to the end of the quiet after the last
	Wait   int64 `json:"wait"`   // for the reload before this one
	Plan   int64 `json:"plan"`
	Build  int64 `json:"build"`
	Start  int64 `json:"start"`  // until the new processes are ready
	Switch int64 `json:"switch"` // until the gateway is seen to have let go of the old ones
	Total  int64 `json:"total"`
}

// DevLogJSON is a line that a replica wrote.
type DevLogJSON struct {
	Replica string `json:"replica"`
	Text    string `json:"text"`
}

// maxPaths bounds the paths of one event: a checkout has thousands.
const maxPaths = 100

func devJSON(e dev.Event) DevJSON {
	j := DevJSON{
		Time: e.Time, Event: string(e.Kind), Reload: e.Reload, Paths: e.Paths[:min(len(e.Paths), maxPaths)], Files: len(e.Paths), Agents: e.Agents,
		Drain: e.Took.Milliseconds(), URL: e.Report.URL, Moving: e.Unsettled,
	}
	for _, s := range e.Steps {
		j.Steps = append(j.Steps, strings.TrimSpace(fmt.Sprintf("%s %s: %s", s.Do, s.Object(), s.Cause)))
	}
	if e.Kind == dev.Reloaded {
		s := e.Spans
		j.Spans = &DevSpansJSON{s.Detect.Milliseconds(), s.Wait.Milliseconds(), s.Plan.Milliseconds(), s.Build.Milliseconds(), s.Start.Milliseconds(), s.Switch.Milliseconds(), s.Total().Milliseconds()}
	}
	if len(e.Replaced) > 0 {
		j.Replaced = changesOf(e.Replaced)
	}
	if e.Err != nil {
		f := asFault(e.Err)
		j.Error = &ErrorBody{Message: f.Message, Hint: f.Hint, Detail: f.Detail, ExitCode: int(f.Kind)}
	}
	return j
}
