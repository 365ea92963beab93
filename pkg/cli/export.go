package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/source"
	"github.com/flisk-go/flisk/pkg/turn"
)

// ExportJSON is what "flisk sessions export -o FILE --json" prints.
type ExportJSON struct {
	File     string            `json:"file"` // absolute
	Bytes    int64             `json:"bytes"`
	Sessions []ExportedRowJSON `json:"sessions"`
	Left     []ExportLeftJSON  `json:"left_out"` // what could not be read and is not in the file; then the exit code is 1
}

// ExportedRowJSON is one session in an export.
type ExportedRowJSON struct {
	Agent   string `json:"agent"`
	ID      string `json:"session_id"`
	Turns   int    `json:"turns"`   // committed turns
	Running bool   `json:"running"` // a turn was running that is not in it
}

// ExportLeftJSON is one session that is not in an export.
type ExportLeftJSON struct {
	Agent   string `json:"agent"`
	ID      string `json:"session_id"` // empty when not even that could be read
	Problem string `json:"problem"`
}

type exportOptions struct {
	sessions []string
	agent    string
	file     string // "" and "-" are stdout
}

func (o exportOptions) toFile() bool { return o.file != "" && o.file != "-" }

func newSessionsExport(a *app) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export [SESSION…]",
		Short: "write conversations to a file, for import",
		Long: "Write whole conversations as JSON Lines that a person can read: a line for each session, one for each of " +
			"its turns with its messages and its key, one for its state. A checksum covers every byte. Nothing that " +
			"protects the volume is in it; what was said is.\n\n" +
			"It makes no difference whether anything runs. A turn that is running is not in it. Without SESSION, all " +
			"conversations of the project are exported. One that cannot be read is left out and named, and the exit code " +
			"is 1; when none can be read, nothing is written.\n\n" +
			"FILE appears whole, and when it is on disk. One that exists is replaced after a question, and never by an " +
			"export that lacks a session. In a project, name it so that it ends in .flisk.jsonl: every other file there " +
			"counts as code, and is for git.",
		Example: examples(
			"flisk sessions export -o backup.flisk.jsonl", "every conversation of the project",
			"flisk sessions export s1 | jq .", "look at one",
			"flisk sessions export | ssh host flisk -C bot sessions import -", "move them to another machine",
		),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.sessions = args
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runSessionsExport(ctx, a, o) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.agent, "agent", "", "those of agent `NAME`, where there are several")
	flags.StringVarP(&o.file, "output", "o", "", "write to `FILE`; without, or with -, to stdout")
	return cmd
}

func runSessionsExport(ctx context.Context, a *app, o exportOptions) error {
	for _, id := range o.sessions {
		if err := turn.CheckSessionID(id); err != nil {
			return fault.New(fault.Usage, "see "+a.command("sessions list"), "cannot export it: %w", err)
		}
	}
	if a.global.json && !o.toFile() {
		return fault.New(fault.Usage, "name a file with -o FILE, or leave --json away", "the export itself goes to stdout, and with --json its description does, too")
	}
	p, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	if len(o.sessions) > 0 {
		if o.agent, err = p.sessionAgent(ctx, o.agent); err != nil {
			return err
		}
	}
	return p.withFiles(ctx, filesOf(o.agent, o.sessions), func(v sessionVolume) error { return a.exportFrom(ctx, p, v, o) })
}

// exportFrom exports what is asked for from a volume.
func (a *app) exportFrom(ctx context.Context, p *opened, v sessionVolume, o exportOptions) error {
	rows, err := a.toExport(ctx, p, v, o)
	if err != nil {
		return err
	}
	if !o.toFile() {
		out := a.streams.Out.Raw()
		if a.streams.Out.ForPeople() {
			out = &harmless{out: a.streams.Out}
		}
		result, err := a.exportTo(ctx, v, rows, out)
		if err != nil {
			return err
		}
		a.printLeft(result)
		return result.incomplete()
	}
	result, err := a.exportFile(ctx, v, rows, o.file)
	if err != nil {
		return err
	}
	if a.global.json {
		if err := a.printJSON(result); err != nil {
			return err
		}
		return result.incomplete()
	}
	a.streams.Out.Fields(
		console.Field{Label: "exported", Value: console.Cell{Text: console.Count(len(result.Sessions), "session") + ", " + console.Size(result.Bytes), Style: console.Good}},
		console.Field{Label: "to", Value: console.Cell{Text: result.File}, Shrink: console.Middle},
	)
	a.printLeft(result)
	a.noteCode(p.project, result.File, source.ExportSuffix)
	return result.incomplete()
}

// noteCode says so when a file that was written into the project counts as code,
// by an absolute path; under a name that ends in suffix it would not.
func (a *app) noteCode(p *project.Project, file, suffix string) {
	if rel, err := filepath.Rel(p.Dir, file); err == nil && filepath.IsLocal(rel) && !source.Ignored(filepath.ToSlash(rel)) {
		a.streams.Err.Note("note", console.Warn, fmt.Sprintf("%s is in the project and counts as code; what ends in %s does not", filepath.Base(file), suffix))
	}
}

// exportRow is a session that shall be exported.
type exportRow struct {
	agent   string
	id      string // "" when not even that could be read
	problem string // why
	named   bool   // by the user, so that it must be there
}

// toExport is what shall be exported, in the order of the file.
func (a *app) toExport(ctx context.Context, p *opened, v sessionVolume, o exportOptions) (rows []exportRow, err error) {
	if len(o.sessions) > 0 {
		for i, id := range o.sessions {
			if !slices.Contains(o.sessions[:i], id) {
				rows = append(rows, exportRow{agent: o.agent, id: id, named: true})
			}
		}
		return rows, nil
	}
	agents := v.agents
	if o.agent != "" {
		agent, err := p.agent(o.agent, v.agents...)
		if err != nil {
			return nil, err
		}
		agents = []string{agent}
	}
	for _, agent := range agents {
		of, err := v.sessions(ctx, agent)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(of, func(x, y SessionRowJSON) int { return cmp.Compare(x.ID, y.ID) })
		for _, s := range of {
			rows = append(rows, exportRow{agent: agent, id: s.ID, problem: s.Problem})
		}
	}
	if len(rows) == 0 {
		return nil, a.noneToExport()
	}
	return rows, nil
}

// exportTo writes an export of these sessions. One that cannot be read is left
// out and told; when that is all of them, one that is not there, and a failed
// write, are errors, and what was written is no export then.
func (a *app) exportTo(ctx context.Context, v sessionVolume, rows []exportRow, out io.Writer) (ExportJSON, error) {
	result := ExportJSON{Sessions: []ExportedRowJSON{}, Left: []ExportLeftJSON{}}
	counted := &counting{w: out}
	x := checkpoint.NewExportWriter(counted)
	for len(rows) > 0 {
		agent := rows[0].agent
		n := slices.IndexFunc(rows, func(row exportRow) bool { return row.agent != agent })
		if n < 0 {
			n = len(rows)
		}
		if err := a.exportAgent(ctx, v, x, rows[:n], &result); err != nil {
			return result, err
		}
		rows = rows[n:]
	}
	if len(result.Sessions) == 0 {
		// Not even a whole export of nothing: somebody would keep it as a backup.
		if n := len(result.Left); n > 0 {
			f := fault.New(fault.Failed, "", "nothing was exported: %s cannot be read", console.Count(n, "session"))
			f.Detail = result.problems()
			return result, f
		}
		return result, a.noneToExport() // all were removed since they were listed
	}
	if err := x.Close(); err != nil {
		return result, cannotExport(err)
	}
	result.Bytes = counted.n
	return result, nil
}

func (a *app) noneToExport() error {
	return fault.New(fault.Failed, "see "+a.command("sessions list"), "there is no conversation to export")
}

func (a *app) exportAgent(ctx context.Context, v sessionVolume, x *checkpoint.ExportWriter, rows []exportRow, result *ExportJSON) error {
	agent := rows[0].agent
	r, err := v.reader(agent)
	if err != nil {
		return err
	}
	if r == nil {
		return a.noSession(agent, rows[0].id)
	}
	defer r.Close()
	for _, row := range rows {
		if row.id == "" {
			result.Left = append(result.Left, ExportLeftJSON{agent, "", row.problem})
			continue
		}
		one, running, err := x.Session(ctx, r, row.id)
		_, damaged := errors.AsType[*checkpoint.DamagedError](err)
		switch {
		case damaged || errors.Is(err, checkpoint.ErrUnavailable):
			result.Left = append(result.Left, ExportLeftJSON{agent, row.id, err.Error()})
		case errors.Is(err, checkpoint.ErrNoSession) && row.named:
			return a.noSession(agent, row.id)
		case errors.Is(err, checkpoint.ErrNoSession): // removed since it was listed
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			return cannotExport(err)
		default:
			result.Sessions = append(result.Sessions, ExportedRowJSON{agent, row.id, one.Turns, running})
		}
	}
	return nil
}

func cannotExport(err error) error {
	return fault.New(fault.Failed, "", "cannot write the export: %w", err)
}

// incomplete is the error of an export that lacks something.
func (e ExportJSON) incomplete() error {
	if n := len(e.Left); n > 0 {
		return fault.New(fault.Failed, "", "%d of %s could not be read and %s not in the export", n,
			console.Count(n+len(e.Sessions), "session"), map[bool]string{true: "is", false: "are"}[n == 1])
	}
	return nil
}

// problems are those of all sessions that are left out, a line each.
func (e ExportJSON) problems() string {
	lines := make([]string, len(e.Left))
	for i, s := range e.Left {
		lines[i] = s.Problem
	}
	return strings.Join(lines, "\n")
}

// printLeft tells what is not in an export.
func (a *app) printLeft(e ExportJSON) {
	for _, s := range e.Sessions {
		if s.Running {
			a.streams.Err.Note("note", console.Warn, fmt.Sprintf("session %q had a turn running, which is not in the export", s.ID))
		}
	}
	for _, s := range e.Left {
		a.streams.Err.Note("problem", console.Bad, s.Problem)
	}
}

// exportFile writes an export beside its place and puts it there when it is
// whole and on disk.
func (a *app) exportFile(ctx context.Context, v sessionVolume, rows []exportRow, name string) (result ExportJSON, err error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return result, cannotExport(err)
	}
	replaces := false
	switch info, err := os.Lstat(path); {
	case err == nil:
		replaces = true
		if !info.Mode().IsRegular() {
			return result, fault.New(fault.Usage, "name a file, or use - and a pipe", "%q is no file", name)
		}
		if err := a.confirm(ctx, fmt.Sprintf("%s exists; replace it?", name), fmt.Sprintf("%q was left as it was", name)); err != nil {
			return result, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return result, cannotExport(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return result, cannotExport(err)
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	end := a.progress().Wait("exporting " + console.Count(len(rows), "session"))
	result, err = a.exportTo(ctx, v, rows, f)
	end()
	if err != nil {
		return result, err
	}
	if left := len(result.Left); replaces && left > 0 {
		// What stands there may hold the only good copy of what cannot be read.
		f := fault.New(fault.Failed, "export to another file with -o", "%q was left as it was: %s cannot be read, and would be missing in it", name, console.Count(left, "session"))
		f.Detail = result.problems()
		return result, f
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return result, cannotExport(err)
	}
	if _, appeared := os.Lstat(path); appeared == nil && !replaces {
		return result, fault.New(fault.Failed, "export again", "%q was left as it was: it has appeared meanwhile", name)
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return result, cannotExport(err)
	}
	result.File = path
	if err := syncDir(filepath.Dir(path)); err != nil {
		return result, fault.New(fault.Failed, "export again", "%q is written, and may not outlive a power cut: %w", name, err)
	}
	return result, nil
}

// syncDir makes a new name in a directory durable, where the file system can.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// counting counts what is written.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// harmless prints text where people look at it. It holds back what is behind the
// last line break, so that no character is cut.
type harmless struct {
	out  *console.Output
	rest []byte
}

func (h *harmless) Write(p []byte) (int, error) {
	h.rest = append(h.rest, p...)
	if end := bytes.LastIndexByte(h.rest, '\n') + 1; end > 0 {
		if _, err := io.WriteString(h.out, console.Text(string(h.rest[:end]))); err != nil {
			return 0, err
		}
		h.rest = append(h.rest[:0], h.rest[end:]...)
	}
	return len(p), nil
}
