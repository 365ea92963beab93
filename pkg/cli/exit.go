package cli

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
)

// exitStatus is the table of exit codes, as --help shows it.
var exitStatus = [...]struct {
	code    int
	meaning string
}{
	{0, "done"},
	{int(fault.Failed), "it failed, or a guarantee is broken"},
	{int(fault.Usage), "the command line or the configuration is wrong"},
	{int(fault.Environment), "something it needs is not ready: engine, port, toolchain"},
	{int(fault.Unchecked), "nothing is broken, but something could not be checked"},
	{int(fault.Interrupted), "interrupted"},
	{exitReaderGone, "the reader of its output went away, as with | head"},
}

// exitReaderGone is what a shell makes of a program that SIGPIPE ended. The work
// was done or cleaned up all the same; but not all of the output was read, so it
// is not 0.
const exitReaderGone = 128 + int(syscall.SIGPIPE)

// readerGone reports whether a command ended, with err or well, because nobody
// reads its output any more. That is nothing to complain about.
func (a *app) readerGone(err error) bool {
	gone := a.streams.Out.Failed()
	return errors.Is(gone, syscall.EPIPE) && (err == nil || errors.Is(err, gone))
}

// ErrorJSON is what --json prints on stderr when a command fails, as one line.
type ErrorJSON struct {
	Error ErrorBody `json:"error"`
}

// ErrorBody says what failed.
type ErrorBody struct {
	Message  string `json:"message"`           // what, which and why
	Hint     string `json:"hint,omitempty"`    // what to do next
	Detail   string `json:"detail,omitempty"`  // what belongs to it: another program's output, where a problem is explained
	ExitCode int    `json:"exit_code"`         // of this command
	Problem  string `json:"problem,omitempty"` // when an agent or a gateway answered: the code of docs/PROBLEMS.md
	Session  string `json:"session_id,omitempty"`
	TurnID   string `json:"turn_id,omitempty"`
	Key      string `json:"key,omitempty"` // the turn key: the same turn can be sent again under it
}

// report prints an error and returns the exit code that it means.
func (a *app) report(err error, asJSON bool) int {
	f := asFault(err)
	if hint, ok := strings.CutSuffix(f.Hint, ", or "+docker.OtherRuntime); ok && a.looks {
		with := *f
		with.Hint, f = hint, &with // what runs there is not anywhere else
	}
	if f.Message == "" { // an end that everybody expects
		return int(f.Kind)
	}
	if asJSON {
		body := ErrorBody{Message: f.Message, Hint: f.Hint, Detail: f.Detail, ExitCode: int(f.Kind)}
		if t, ok := errors.AsType[*turnError](err); ok {
			t.describe(&body)
		}
		_ = encode(a.streams.Err.Raw(), ErrorJSON{body}, "") // nobody is left to tell
		return int(f.Kind)
	}
	if errors.Is(err, errDeclined) {
		_, _ = io.WriteString(a.streams.Err, console.Fold(console.Line(f.Message), a.streams.Err.Columns(), "")+"\n")
		return int(f.Kind)
	}
	if problems, ok := errors.AsType[project.Problems](err); ok && a.streams.Err.Columns() > 0 {
		f.Detail = problems.Detail(a.streams.Err.Columns() - detailIndent)
	}
	a.streams.Err.Failure(console.Failure{Message: f.Message, Detail: f.Detail, Hint: f.Hint})
	return int(f.Kind)
}

// detailIndent is how far in the console prints a detail.
const detailIndent = 2

// asFault finds the message, the hint and the kind in any error.
func asFault(err error) *fault.Fault {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		// What is joined to a fault, such as a roll-back that failed, belongs to
		// it.
		if more, ok := strings.CutPrefix(err.Error(), f.Message+"\n"); ok {
			all := *f
			all.Detail = strings.TrimPrefix(strings.TrimRight(f.Detail, "\n")+"\n"+more, "\n")
			return &all
		}
		return f
	}
	// Joined errors have a line each; the first is the message.
	message, rest, _ := strings.Cut(err.Error(), "\n")
	return &fault.Fault{Kind: fault.Failed, Message: message, Detail: rest, Err: err}
}

// written turns a failed write to stdout into an error: a truncated answer must
// not look like a whole one.
func written(streams *console.Streams) error {
	if err := streams.Out.Failed(); err != nil {
		return fault.New(fault.Failed, "", "cannot write to standard output: %w", err)
	}
	return nil
}

// printJSON writes the one value of a command with --json.
func (a *app) printJSON(v any) error { return encode(a.streams.Out.Raw(), v, "  ") }

func encode(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // a reply is text, not markup
	enc.SetIndent("", indent)
	return enc.Encode(v)
}
