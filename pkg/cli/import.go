package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
)

// ImportJSON is what "flisk sessions import --json" prints.
type ImportJSON struct {
	Imported []ImportedRowJSON `json:"imported"`
	Skipped  []ImportedRowJSON `json:"skipped"` // that existed already; with --skip-existing only
}

// ImportedRowJSON is one session of an import.
type ImportedRowJSON struct {
	Agent string `json:"agent"` // that has it now
	ID    string `json:"session_id"`
	Turns int    `json:"turns"` // committed turns
}

type importOptions struct {
	file  string
	agent string
	skip  bool
}

func newSessionsImport(a *app) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "read conversations from an export",
		Long: "Read what flisk sessions export wrote. FILE may be - for stdin. Nothing is written before the whole export " +
			"was checked: that no byte of it has changed, that every session in it can be loaded, and that none of the ids " +
			"is taken. When a write fails after that, what was imported stays, and both halves are named. Turns keep their " +
			"ids and their keys, so a turn that was answered there is not run again here.\n\n" +
			"It makes no difference whether anything runs. With --agent all of it becomes that agent's: the way to " +
			"rename an agent without losing its conversations.",
		Example: examples(
			"flisk sessions import backup.flisk.jsonl", "bring back what is not there any more",
			"flisk sessions import backup.flisk.jsonl --skip-existing", "only what is missing",
			"flisk sessions export --agent bot | flisk sessions import - --agent clerk", "give them to another agent",
		),
		Args: positional(1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runSessionsImport(ctx, a, o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.agent, "agent", "", "give all of it to agent `NAME`")
	flags.BoolVar(&o.skip, "skip-existing", false, "leave out the sessions whose ids are taken")
	return cmd
}

func runSessionsImport(ctx context.Context, a *app, o importOptions) error {
	p, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	from, size, closeFrom, err := a.importSource(ctx, o.file)
	if err != nil {
		return err
	}
	defer closeFrom()
	progress := a.progress()
	end := progress.Wait("checking the export")
	export, err := checkpoint.OpenExport(ctx, from, size)
	end()
	if err != nil {
		return importFault(ctx, err)
	}
	volume, report, err := p.importAll(ctx, progress, export, io.NewSectionReader(from, 0, size), checkpoint.ImportOptions{
		Agent: o.agent, Agents: p.project.AgentNames(), Skip: o.skip,
	})
	if err != nil {
		return p.notImported(volume, report, err)
	}
	result := ImportJSON{Imported: importedRows(report.Imported), Skipped: importedRows(report.Skipped)}
	if a.global.json {
		return a.printJSON(result)
	}
	a.printImport(result, volume)
	return nil
}

func importedRows(sessions []checkpoint.ImportedSession) []ImportedRowJSON {
	rows := []ImportedRowJSON{}
	for _, s := range sessions {
		rows = append(rows, ImportedRowJSON{s.Agent, s.Session, s.Turns})
	}
	return rows
}

// notImported words why sessions were not imported.
func (o *opened) notImported(volume string, report checkpoint.ImportReport, err error) error {
	switch {
	case report.Unknown != "":
		f, _ := errors.AsType[*fault.Fault](o.noAgent(report.Unknown, report.Known))
		return fault.New(fault.Usage, "give the sessions to an agent that there is with --agent; "+f.Hint, "nothing was imported: %w", f)
	case len(report.Taken) > 0:
		what, exist := "session", "exists"
		if len(report.Taken) > 1 {
			what, exist = "sessions", "exist"
		}
		return fault.New(fault.Failed, "--skip-existing imports the others; flisk sessions rm makes room, for good",
			"nothing was imported: %s %s %s already", what, someQuoted(sessionIDs(report.Taken), 3), exist)
	case len(report.Imported) == 0:
		hint := ""
		if why, ok := errors.AsType[*fault.Fault](err); ok {
			hint = why.Hint
		}
		if volume == "" { // nothing could be asked where it is
			return fault.New(storeKind(err), hint, "nothing was imported: %w", err)
		}
		return fault.New(storeKind(err), hint, "nothing was imported into %q: %w", volume, err)
	}
	f := fault.New(storeKind(err), "the same command with --skip-existing imports the others",
		"%d of %s were imported, and then: %w", len(report.Imported), console.Count(len(report.Imported)+len(report.Left), "session"), err)
	const shown = 20
	f.Detail = "imported: " + someQuoted(sessionIDs(report.Imported), shown) + "\nnot imported: " + someQuoted(sessionIDs(report.Left), shown)
	return f
}

func sessionIDs(sessions []checkpoint.ImportedSession) (ids []string) {
	for _, s := range sessions {
		ids = append(ids, s.Session)
	}
	return ids
}

func (a *app) printImport(result ImportJSON, volume string) {
	turns := 0
	for _, s := range result.Imported {
		turns += s.Turns
	}
	done := console.Cell{Text: "nothing: there was nothing to do"}
	if n := len(result.Imported); n > 0 {
		done = console.Cell{Text: console.Count(n, "session") + ", " + console.Count(turns, "turn"), Style: console.Good}
	}
	fields := []console.Field{{Label: "imported", Value: done}}
	if n := len(result.Skipped); n > 0 {
		fields = append(fields, console.Field{Label: "skipped", Value: console.Cell{Text: console.Count(n, "session") + " that existed already", Style: console.Warn}})
	}
	a.streams.Out.Fields(append(fields, console.Field{Label: "into", Value: console.Cell{Text: volume}, Shrink: console.Middle})...)
}

// importFault words why an export cannot be used.
func importFault(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, checkpoint.ErrNewerExport):
		return fault.New(fault.Failed, "use that flisk", "nothing was imported: %w", err)
	case errors.Is(err, checkpoint.ErrNotExport):
		return fault.New(fault.Usage, "flisk sessions export writes one", "nothing was imported: %w", err)
	}
	return fault.New(fault.Failed, "export the sessions again", "nothing was imported: %w", err)
}

// importSource opens an export. What cannot be read twice is copied first, into
// a file without a name.
func (a *app) importSource(ctx context.Context, name string) (from io.ReaderAt, size int64, closeFrom func(), err error) {
	cannot := func(err error) error {
		return fault.New(fault.Usage, "", "cannot read the export: %w", err)
	}
	in, done := a.streams.In.Reader, func() {}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, 0, nil, cannot(err)
		}
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			return f, info.Size(), func() { _ = f.Close() }, nil
		}
		in, done = f, func() { _ = f.Close() }
	}
	defer done()
	copied, err := os.CreateTemp("", "flisk-import-*")
	if err != nil {
		return nil, 0, nil, fault.New(fault.Environment, "set TMPDIR to a directory of yours", "there is no place to copy the export to: %w", err)
	}
	_ = os.Remove(copied.Name()) // at the latest the system removes it
	patient := console.Patient(ctx, in)
	defer patient.Close()
	size, err = io.Copy(copied, patient)
	if err == nil && size == 0 && name == "-" {
		_ = copied.Close()
		return nil, 0, nil, fault.New(fault.Usage, "look at what the command before the | says", "nothing came on standard input, and nothing was imported")
	}
	if err != nil {
		_ = copied.Close()
		if ctx.Err() != nil {
			return nil, 0, nil, err
		}
		return nil, 0, nil, cannot(err)
	}
	return copied, size, func() { _ = copied.Close() }, nil
}

// someQuoted lists at most so many names, and says how many more there are.
func someQuoted(names []string, limit int) string {
	list := strings.Join(quotedAll(names[:min(len(names), limit)]), ", ")
	if more := len(names) - limit; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

func quotedAll(names []string) []string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return quoted
}
