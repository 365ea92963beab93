package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/flisk-go/flisk/pkg/turn"
)

// ErrUnknownAgent says that nobody knows the agent that a session is for.
var ErrUnknownAgent = errors.New("there is no such agent")

// ImportOptions say what becomes of the sessions of an export.
type ImportOptions struct {
	Agent  string   // gets all of them; "" leaves each to its own
	Agents []string // that may get some, beside those that the volume knows
	Skip   bool     // leave out those whose ids are taken

	Store Options // of every agent's store; its Agent is not looked at
}

// ImportReport says what an import did, or why it did nothing.
type ImportReport struct {
	Imported []ImportedSession `json:"imported"`
	Skipped  []ImportedSession `json:"skipped"` // their ids are taken
	Left     []ImportedSession `json:"left"`    // that an error kept from being imported
	Taken    []ImportedSession `json:"taken"`   // whose ids are why nothing was imported

	Unknown string   `json:"unknown_agent,omitempty"` // is why nothing was imported
	Known   []string `json:"agents,omitempty"`        // that there are instead
}

// ImportedSession is one session of an import.
type ImportedSession struct {
	Agent   string `json:"agent"` // that it is for
	Session string `json:"session_id"`
	Turns   int    `json:"turns"` // committed turns
}

// ImportAll imports a whole export into the volume in a directory, and makes it a
// volume when it is none, unless a certain one is expected. It decides about every
// session before it writes the first one; agents may run meanwhile. What was imported before an error stays:
// somebody may use it already.
//
// Errors: [ErrUnknownAgent] and [ErrSessionExists] when nothing was imported for
// what the report names, those of [InitVolume], of [Open] and of [File.Import].
func ImportAll(ctx context.Context, dir string, x *Export, o ImportOptions) (ImportReport, error) {
	i := importing{dir: dir, export: x, options: o}
	i.report = ImportReport{Imported: []ImportedSession{}, Skipped: []ImportedSession{}, Left: []ImportedSession{}, Taken: []ImportedSession{}}
	if err := i.plan(ctx); err != nil {
		return i.report, err
	}
	err := i.run(ctx)
	return i.report, err
}

// importing is one import: what shall be done, and what was.
type importing struct {
	dir     string
	export  *Export
	options ImportOptions

	todo   []int // of the export's sessions
	report ImportReport
}

// session is a session of the export, with the agent that it is for.
func (i *importing) session(n int) ImportedSession {
	s := i.export.sessions[n]
	return ImportedSession{cmp.Or(i.options.Agent, s.Agent), s.Session, s.Turns}
}

// plan decides about every session.
func (i *importing) plan(ctx context.Context) error {
	known, err := i.known()
	if err != nil {
		return err
	}
	taken := map[string]map[string]bool{} // by agent
	for n := range i.export.sessions {
		s := i.session(n)
		if !slices.Contains(known, s.Agent) {
			i.report.Unknown, i.report.Known = s.Agent, known
			return fmt.Errorf("%w: %q", ErrUnknownAgent, s.Agent)
		}
		ids := taken[s.Agent]
		if ids == nil {
			if ids, err = i.ids(ctx, s.Agent); err != nil {
				return err
			}
			taken[s.Agent] = ids
		}
		switch {
		case !ids[s.Session]:
			ids[s.Session] = true
			i.todo = append(i.todo, n)
		case i.options.Skip:
			i.report.Skipped = append(i.report.Skipped, s)
		default:
			i.report.Taken = append(i.report.Taken, s)
		}
	}
	if n := len(i.report.Taken); n > 0 {
		return fmt.Errorf("%w: %q, and %d of %d in all", ErrSessionExists, i.report.Taken[0].Session, n, len(i.export.sessions))
	}
	return nil
}

// known are the agents that may get sessions.
func (i *importing) known() ([]string, error) {
	known := slices.Clone(i.options.Agents)
	there, err := Agents(i.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range there {
		if turn.ValidAgent(name) {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	return slices.Compact(known), nil
}

// ids are those that an agent has, whether their sessions can be read or not.
func (i *importing) ids(ctx context.Context, agent string) (map[string]bool, error) {
	const page = 1000
	ids := map[string]bool{}
	r, err := OpenReader(i.dir, agent)
	if errors.Is(err, fs.ErrNotExist) {
		return ids, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for after := ""; ; {
		rows, next, err := r.List(ctx, after, page)
		for _, row := range rows {
			ids[row.Session] = true
		}
		if after = next; err != nil || after == "" {
			return ids, err
		}
	}
}

// run writes what was planned, a session at a time.
func (i *importing) run(ctx context.Context) (err error) {
	if len(i.todo) == 0 {
		return nil
	}
	left := i.todo
	defer func() {
		if err == nil {
			return
		}
		for _, n := range left {
			i.report.Left = append(i.report.Left, i.session(n))
		}
	}()
	id := i.options.Store.ExpectVolume
	if id == "" {
		if id, _, err = InitVolume(i.dir); err != nil {
			return err
		}
	}
	stores := map[string]*File{}
	defer func() {
		for _, store := range stores {
			err = errors.Join(err, store.Close())
		}
	}()
	for _, n := range i.todo { // all, before the first session is written
		agent := i.session(n).Agent
		if stores[agent] != nil {
			continue
		}
		o := i.options.Store
		o.Agent, o.ExpectVolume = agent, id
		if stores[agent], err = Open(i.dir, o); err != nil {
			delete(stores, agent)
			return err
		}
	}
	for at, n := range i.todo {
		s := i.session(n)
		left = i.todo[at:]
		err := stores[s.Agent].Import(ctx, i.export, n)
		switch {
		case err == nil:
			i.report.Imported = append(i.report.Imported, s)
		case errors.Is(err, ErrSessionExists) && i.options.Skip: // since it was planned
			i.report.Skipped = append(i.report.Skipped, s)
		default:
			return err
		}
	}
	left = nil
	return nil
}
