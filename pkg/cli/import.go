package cli

import (
	"cmp"
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
	p, err := a.look(nil)
	if err != nil {
		return err
	}
	v, err := p.volume(ctx)
	if err != nil {
		return err
	}
	if o.agent != "" {
		if o.agent, err = p.agent(o.agent, v.agents...); err != nil {
			return err
		}
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
	i := importing{a: a, opened: p, volume: v, export: export, options: o}
	if err := i.plan(ctx); err != nil {
		return err
	}
	end = progress.Wait("importing " + console.Count(len(i.todo), "session"))
	err = i.run(ctx)
	end()
	if err != nil {
		return err
	}
	if a.global.json {
		return a.printJSON(i.result)
	}
	i.print()
	return nil
}

// importing is one import: what shall be done, and what was.
type importing struct {
	a       *app
	opened  *opened
	volume  sessionVolume
	export  *checkpoint.Export
	options importOptions

	todo   []int // of the export's sessions
	result ImportJSON
}

// target is whose a session of the export becomes.
func (i *importing) target(s checkpoint.ExportedSession) string {
	return cmp.Or(i.options.agent, s.Agent)
}

// plan decides about every session before anything is written.
func (i *importing) plan(ctx context.Context) error {
	i.result = ImportJSON{Imported: []ImportedRowJSON{}, Skipped: []ImportedRowJSON{}}
	taken := map[string]map[string]bool{} // by agent
	var refused []string
	for n, s := range i.export.Sessions() {
		agent := i.target(s)
		ids := taken[agent]
		if ids == nil {
			var err error
			if ids, err = i.ids(ctx, agent); err != nil {
				return err
			}
			taken[agent] = ids
		}
		row := ImportedRowJSON{agent, s.Session, s.Turns}
		switch {
		case !ids[s.Session]:
			ids[s.Session] = true
			i.todo = append(i.todo, n)
		case i.options.skip:
			i.result.Skipped = append(i.result.Skipped, row)
		default:
			refused = append(refused, s.Session)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	what, exist := "session", "exists"
	if len(refused) > 1 {
		what, exist = "sessions", "exist"
	}
	return fault.New(fault.Failed, "--skip-existing imports the others; flisk sessions rm makes room, for good",
		"nothing was imported: %s %s %s already", what, someQuoted(refused, 3), exist)
}

// ids are those that an agent has.
func (i *importing) ids(ctx context.Context, agent string) (map[string]bool, error) {
	if _, err := i.opened.agent(agent, i.volume.agents...); err != nil {
		f, _ := errors.AsType[*fault.Fault](err)
		return nil, fault.New(fault.Usage, "give the sessions to an agent that there is with --agent; "+f.Hint, "nothing was imported: %w", err)
	}
	rows, err := i.volume.sessions(ctx, agent)
	ids := map[string]bool{}
	for _, row := range rows {
		ids[row.ID] = true
	}
	return ids, err
}

// run imports what was planned, a session at a time. What was imported before
// an error stays: somebody may use it already.
func (i *importing) run(ctx context.Context) (err error) {
	if len(i.todo) == 0 {
		return nil
	}
	if _, _, err := checkpoint.InitVolume(i.volume.place); err != nil {
		return fault.New(fault.Environment, "FLISK_HOME says where volumes are", "cannot use the volume %q: %w", i.volume.name, err)
	}
	stores := map[string]*checkpoint.File{}
	defer func() {
		for _, store := range stores {
			err = errors.Join(err, store.Close())
		}
	}()
	for _, n := range i.todo { // all, before the first session is written
		agent := i.target(i.export.Sessions()[n])
		if stores[agent] == nil {
			if stores[agent], err = i.volume.store(agent); err != nil {
				return err
			}
		}
	}
	for at, n := range i.todo {
		s := i.export.Sessions()[n]
		agent := i.target(s)
		row := ImportedRowJSON{agent, s.Session, s.Turns}
		err := stores[agent].Import(ctx, i.export, n)
		switch {
		case err == nil:
			i.result.Imported = append(i.result.Imported, row)
		case errors.Is(err, checkpoint.ErrSessionExists) && i.options.skip: // since it was planned
			i.result.Skipped = append(i.result.Skipped, row)
		default:
			return i.stopped(i.todo[at:], err)
		}
	}
	return nil
}

// stopped tells of an import that ended before the sessions left.
func (i *importing) stopped(left []int, err error) error {
	if len(i.result.Imported) == 0 {
		return fault.New(storeKind(err), "", "nothing was imported: %w", err)
	}
	f := fault.New(storeKind(err), "the same command with --skip-existing imports the others",
		"%d of %s were imported, and then: %w", len(i.result.Imported), console.Count(len(i.todo), "session"), err)
	var done, missing []string
	for _, s := range i.result.Imported {
		done = append(done, s.ID)
	}
	for _, n := range left {
		missing = append(missing, i.export.Sessions()[n].Session)
	}
	const shown = 20
	f.Detail = "imported: " + someQuoted(done, shown) + "\nnot imported: " + someQuoted(missing, shown)
	return f
}

func (i *importing) print() {
	turns := 0
	for _, s := range i.result.Imported {
		turns += s.Turns
	}
	done := console.Cell{Text: "nothing: there was nothing to do"}
	if n := len(i.result.Imported); n > 0 {
		done = console.Cell{Text: console.Count(n, "session") + ", " + console.Count(turns, "turn"), Style: console.Good}
	}
	fields := []console.Field{{Label: "imported", Value: done}}
	if n := len(i.result.Skipped); n > 0 {
		fields = append(fields, console.Field{Label: "skipped", Value: console.Cell{Text: console.Count(n, "session") + " that existed already", Style: console.Warn}})
	}
	i.a.streams.Out.Fields(append(fields, console.Field{Label: "into", Value: console.Cell{Text: i.volume.name}, Shrink: console.Middle})...)
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
