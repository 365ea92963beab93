package console

import "strings"

// Failure is an error as people read it.
type Failure struct {
	Message string // one line: what, which, why
	Detail  string // somebody else's text that belongs to it, of any length
	Hint    string // what to do next
}

// Failure prints
//
//	flisk: cannot build agent "bot"
//	  ./turn.go:12:2: undefined: answer
//	hint: mend it, then run flisk up again
//
// The hint comes last: below a long detail it is what the eye meets. Off a
// terminal message and hint are one line each; on one, they are folded.
func (o *Output) Failure(f Failure) {
	var out strings.Builder
	out.WriteString(o.labelled("flisk:", Bad, f.Message))
	if detail := strings.Trim(f.Detail, "\n"); detail != "" {
		out.WriteString("  " + Fold(Text(detail), o.Columns(), "  ") + "\n")
	}
	if f.Hint != "" {
		out.WriteString(o.labelled("hint:", Accent, f.Hint))
	}
	_, _ = o.Write([]byte(out.String())) // nobody is left to tell
}

// Note prints one line for people that is not a failure, under a label of its
// own: "warning: …".
func (o *Output) Note(label string, style Style, text string) {
	_, _ = o.Write([]byte(o.labelled(label+":", style, text))) // Failed tells
}

func (o *Output) labelled(label string, style Style, text string) string {
	indent := strings.Repeat(" ", len(label)+1)
	return style.Render(label) + " " + Fold(Line(text), o.Columns(), indent) + "\n"
}
