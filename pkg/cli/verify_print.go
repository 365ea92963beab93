package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/verify"
)

// verdicts is the screen of a verification: a row for each check as soon as it
// has ended, and a verdict. With --json it says nothing.
type verdicts struct {
	out      *console.Output
	quiet    bool
	progress *console.Progress
	check    int  // width of the names
	several  bool // agents, in the project

	header  []string // what is printed before the next row
	waiting func()   // ends the progress of the check that runs; nil when none does
}

// Widths of the columns before the last.
const (
	verdictWidth = len(verify.Unchecked)
	timeWidth    = len("999 ms")
)

func (a *app) newVerdicts(p *project.Project, checks []verify.Check, turns int) *verdicts {
	v := &verdicts{
		out: a.streams.Out, quiet: a.global.json, progress: a.progress(), check: len("power-loss"), several: len(p.Agents) > 1,
	}
	for _, c := range checks {
		v.check = max(v.check, len(c.Name))
	}
	v.print(console.Strong.Render("flisk verify") + console.Quiet.Render(fmt.Sprintf(" · %s, in a stack of its own · up to %s", p.Name, console.Count(turns, "turn"))))
	return v
}

func (v *verdicts) print(line string) {
	if !v.quiet {
		fmt.Fprintln(v.out, line)
	}
}

// agent begins the rows of one agent, and names it where there are several. Its
// stack is built and started before the first row, and may not be: so the header
// comes with that.
func (v *verdicts) agent(name string, of int) {
	v.header = []string{""}
	if of > 1 {
		v.header = append(v.header, console.Strong.Render(name))
	}
	v.header = append(v.header, console.Quiet.Render(pad("check", v.check)+pad("verdict", verdictWidth)+pad("time", timeWidth)+"seen"))
}

// begin shows that a check runs, and its row when it has ended.
func (v *verdicts) begin(c verify.Check) func(verify.Result) {
	v.waiting = v.progress.Wait(c.Name + ": " + c.How)
	return func(r verify.Result) {
		v.left()
		v.row(r)
	}
}

// left ends the progress of a check that has ended, or does not come to its end.
func (v *verdicts) left() {
	if v.waiting != nil {
		v.waiting()
		v.waiting = nil
	}
}

// skipped are the rows of what was not tried.
func (v *verdicts) skipped(report verify.Report) {
	for _, r := range report.Checks {
		if r.Verdict == verify.Skipped {
			v.row(r)
		}
	}
}

func (v *verdicts) row(r verify.Result) {
	for _, line := range v.header {
		v.print(line)
	}
	v.header = nil
	took := "-"
	if r.Verdict != verify.Skipped {
		took = console.Span(time.Duration(r.Millis) * time.Millisecond)
	}
	indent := strings.Repeat(" ", v.check+verdictWidth+timeWidth+3*columnGap)
	text := console.Fold(console.Line(r.Summary()), v.out.Columns(), indent)
	style := verdictStyle(r.Verdict)
	textStyle := console.Plain
	if r.Verdict == verify.Skipped {
		textStyle = console.Quiet
	}
	v.print(console.Strong.Render(pad(r.Check, v.check)) + style.Render(pad(string(r.Verdict), verdictWidth)) + console.Quiet.Render(pad(took, timeWidth)) + textStyle.Render(text))
}

const columnGap = 2

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-console.Width(text))+columnGap)
}

func verdictStyle(v verify.Verdict) console.Style {
	switch v {
	case verify.Held:
		return console.Good
	case verify.Broken:
		return console.Bad
	case verify.Unchecked:
		return console.Warn
	}
	return console.Quiet
}

// conclude sums up; the verdict comes last.
func (v *verdicts) conclude(a *app, result VerifyJSON) {
	var fields []console.Field
	such, tried := 0, 0 // such: as many as the verdict is about
	for _, r := range result.Agents {
		such += r.Count(result.Verdict)
		tried += len(r.Checks) - r.Count(verify.Skipped)
		name := "code"
		if len(result.Agents) > 1 {
			name = r.Agent
		}
		fields = append(fields, console.Field{Label: name, Value: console.Cell{Text: fmt.Sprintf("%s, seed %d", r.Code, r.Seed)}})
		if r.Kept != "" {
			fields = append(fields, console.Field{Label: "kept", Value: console.Cell{Text: r.Kept}, Shrink: console.Middle})
		}
		if r.KeptError != nil {
			a.warn("not all evidence could be kept: " + r.KeptError.Error())
		}
		if again := failedChecks(r); again != "" {
			if v.several {
				again = " --agent " + r.Agent + again
			}
			fields = append(fields, console.Field{Label: "again", Value: console.Cell{
				Text: a.command(fmt.Sprintf("verify%s --seed %d", again, r.Seed)), Style: console.Accent}})
		}
	}
	took := console.Span(time.Duration(result.Millis) * time.Millisecond)
	fields = append(fields, console.Field{Label: string(result.Verdict), Value: console.Cell{
		Text:  fmt.Sprintf("%d of %s, %s, in %s", such, console.Count(tried, "guarantee"), console.Count(result.Turns, "turn"), took),
		Style: verdictStyle(result.Verdict),
	}})
	v.print("")
	v.out.Fields(fields...)
}

// failedChecks are the flags that run again what did not hold.
func failedChecks(r verify.Report) string {
	flags := ""
	for _, c := range r.Checks {
		if c.Verdict == verify.Broken || c.Verdict == verify.Unchecked {
			flags += " --run " + c.Check
		}
	}
	return flags
}
