package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/turn"
)

// SessionsJSON is what "flisk sessions list --json" prints.
type SessionsJSON struct {
	Sessions []SessionRowJSON `json:"sessions"` // the latest activity first
}

// SessionRowJSON is one session of a list.
type SessionRowJSON struct {
	Agent    string    `json:"agent"`
	ID       string    `json:"session_id"` // empty when not even that could be read
	Turns    int       `json:"turns"`      // committed turns
	Bytes    int64     `json:"bytes"`      // size on disk
	Activity time.Time `json:"activity"`   // when it was last written to
	Problem  string    `json:"problem,omitempty"`
}

// SessionJSON is what "flisk sessions show --json" prints.
type SessionJSON struct {
	Agent    string          `json:"agent"`
	ID       string          `json:"session_id"`
	Turns    int             `json:"turns"` // committed turns
	Bytes    int64           `json:"bytes"` // size on disk
	Messages []turn.Message  `json:"messages"`
	State    json.RawMessage `json:"state,omitempty"`
	History  []TurnRowJSON   `json:"history"` // every turn that is known, failed ones too, oldest first
}

// TurnRowJSON is one turn of a session's history.
type TurnRowJSON struct {
	ID     string     `json:"turn_id"`
	Number int        `json:"turn"`
	State  turn.State `json:"state"` // running, committed, failed or parked
	Reason string     `json:"reason,omitempty"`
}

func newSessions(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sessions",
		Short:   "look at conversations, move and remove them",
		GroupID: groupLook,
		Long: "Look at conversations, straight from the volume, move them elsewhere, remove them. It makes no difference " +
			"whether anything runs. Only import and rm change anything.",
		Example: examples(
			"flisk sessions list", "every conversation, the latest first",
			"flisk sessions show s1", "read one",
			"flisk sessions export -o backup.flisk.jsonl", "keep a copy of all of them",
		),
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return group(a, cmd, args) },
	}
	cmd.AddCommand(newSessionsList(a), newSessionsShow(a), newSessionsExport(a), newSessionsImport(a), newSessionsRm(a))
	return cmd
}

func newSessionsList(a *app) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list conversations, the latest first",
		Example: examples(
			"flisk sessions list", "every conversation of the project",
			"flisk sessions list --agent bot", "those of one agent",
			"flisk sessions list --json | jq -r '.sessions[].session_id'", "their ids, for a script",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error {
				return runSessionsList(ctx, a, agent, time.Now())
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "only those of agent `NAME`")
	return cmd
}

func newSessionsShow(a *app) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use:   "show SESSION",
		Short: "read one conversation",
		Example: examples(
			"flisk sessions show s1", "as a transcript, with the agent's state below",
			"flisk sessions show s1 --json | jq .state", "for a script",
		),
		Args: positional(1, "SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error {
				return runSessionsShow(ctx, a, agent, args[0])
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the one of agent `NAME`, where there are several")
	return cmd
}

// sessionVolume is a volume that is looked at.
type sessionVolume struct {
	name   string
	place  string   // where its files can be read: itself, or a copy; "" when it is not there yet
	agents []string // that the volume knows, whether flisk.yaml names them or not
}

// withVolume calls look with the project's volume. One that is not there yet knows
// no agents; one that is not there any more is the fault that Up would refuse it
// with.
func (o *opened) withVolume(ctx context.Context, look func(sessionVolume) error) error {
	return o.withFiles(ctx, nil, look)
}

// withFiles is withVolume for a look at these files only, if any are named. Agents
// are then known by them.
func (o *opened) withFiles(ctx context.Context, files []string, look func(sessionVolume) error) error {
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return err
	}
	looked := false
	at := func(dir string) error {
		looked = true
		v := sessionVolume{name: observed.Volume, place: dir}
		names, err := checkpoint.Agents(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return v.unreadable(err)
		}
		for _, name := range names {
			if turn.ValidAgent(name) {
				v.agents = append(v.agents, name)
			}
		}
		return look(v)
	}
	if err := o.atVolume(ctx, observed.Place, files, at); looked || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// One that is gone has no conversations, and the project had some.
	refused, err := o.checkVolume(ctx)
	if err = cmp.Or(refused, err); err != nil {
		return err
	}
	return look(sessionVolume{name: observed.Volume})
}

// reader opens the sessions of an agent, or nil when the volume is not there
// yet.
func (v sessionVolume) reader(agent string) (*checkpoint.Reader, error) {
	if v.place == "" {
		return nil, nil
	}
	r, err := checkpoint.OpenReader(v.place, agent)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, v.unreadable(err)
	}
	return r, nil
}

func (v sessionVolume) unreadable(err error) error {
	return fault.New(fault.Failed, "", "cannot read the volume %q: %w", v.name, err)
}

func runSessionsList(ctx context.Context, a *app, agent string, now time.Time) error {
	o, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	list := SessionsJSON{Sessions: []SessionRowJSON{}}
	columns := o.project.AgentNames() // an agent with neither a line in flisk.yaml nor a session is no news
	err = o.withVolume(ctx, func(v sessionVolume) error {
		agents := o.agents(v.agents...)
		if agent != "" {
			if agent, err = o.agent(agent, v.agents...); err != nil {
				return err
			}
			agents, columns = []string{agent}, nil
		}
		for _, agent := range agents {
			rows, err := v.sessions(ctx, agent)
			if err != nil {
				return err
			}
			if len(rows) > 0 && !slices.Contains(columns, agent) {
				columns = append(columns, agent)
			}
			list.Sessions = append(list.Sessions, rows...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(list.Sessions, func(x, y SessionRowJSON) int {
		return cmp.Or(y.Activity.Compare(x.Activity), cmp.Compare(x.ID, y.ID))
	})
	if a.global.json {
		return a.printJSON(list)
	}
	a.printSessions(list.Sessions, len(columns) > 1, now)
	return nil
}

// sessions reads the whole list of one agent.
func (v sessionVolume) sessions(ctx context.Context, agent string) ([]SessionRowJSON, error) {
	const page = 1000
	r, err := v.reader(agent)
	if r == nil {
		return nil, err
	}
	defer r.Close()
	var rows []SessionRowJSON
	for after := ""; ; {
		found, next, err := r.List(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			row := SessionRowJSON{Agent: agent, ID: s.Session, Turns: s.Turns, Bytes: s.Bytes, Activity: s.Activity}
			if s.Err != nil {
				row.Problem = s.Err.Error()
			}
			rows = append(rows, row)
		}
		if after = next; after == "" {
			return rows, nil
		}
	}
}

func (a *app) printSessions(rows []SessionRowJSON, several bool, now time.Time) {
	if len(rows) == 0 {
		a.streams.Err.Note("none", console.Quiet, "there is no conversation yet")
		a.streams.Err.Note("hint", console.Accent, "begin one: "+a.command(`turn "hello" -s s1`))
		return
	}
	t := console.Table{Columns: []console.Column{
		{Title: "SESSION", Shrink: console.Middle}, {Title: "TURNS", Right: true},
		{Title: "LAST ACTIVITY", Shrink: console.Drop}, {Title: "SIZE", Right: true, Shrink: console.Drop},
	}}
	if several {
		t.Columns = append([]console.Column{{Title: "AGENT"}}, t.Columns...)
	}
	for _, s := range rows {
		id := console.Cell{Text: cmp.Or(s.ID, "(unreadable)"), Style: console.Strong}
		turns := strconv.Itoa(s.Turns)
		if s.Problem != "" {
			id.Style, turns = console.Bad, "?"
		}
		row := []console.Cell{
			id, {Text: turns},
			{Text: console.Ago(s.Activity, now)}, {Text: console.Size(s.Bytes), Style: console.Quiet},
		}
		if several {
			row = append([]console.Cell{{Text: s.Agent}}, row...)
		}
		t.Rows = append(t.Rows, row)
	}
	a.streams.Out.Table(t)
	for _, s := range rows {
		if s.Problem != "" {
			a.streams.Err.Note("problem", console.Bad, s.Problem)
		}
	}
}

// named opens the volume for a command that names sessions, and finds their
// agent. do is what the command does with them, for an id that cannot be one.
func (a *app) named(ctx context.Context, do, agent string, ids []string, use func(o *opened, v sessionVolume, agent string) error) error {
	for _, id := range ids {
		if err := turn.CheckSessionID(id); err != nil {
			return fault.New(fault.Usage, "see "+a.command("sessions list"), "cannot %s it: %w", do, err)
		}
	}
	o, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	if agent, err = o.sessionAgent(ctx, agent); err != nil {
		return err
	}
	return o.withFiles(ctx, filesOf(agent, ids), func(v sessionVolume) error { return use(o, v, agent) })
}

// filesOf are what it takes of a volume to look at sessions.
func filesOf(agent string, ids []string) (files []string) {
	for _, id := range ids {
		files = append(files, checkpoint.SessionFiles(agent, id)...)
	}
	return files
}

func runSessionsShow(ctx context.Context, a *app, agent, id string) error {
	return a.named(ctx, "show", agent, []string{id}, func(_ *opened, v sessionVolume, agent string) error {
		r, err := v.reader(agent)
		if err != nil {
			return err
		}
		if r == nil {
			return a.noSession(agent, id)
		}
		defer r.Close()
		view, err := r.View(ctx, id)
		if err != nil {
			return a.sessionFault(err, agent, id)
		}
		if a.global.json {
			return a.printJSON(sessionJSON(agent, view))
		}
		a.printSession(agent, view)
		return nil
	})
}

// sessionAgent is the agent whose session is meant: the named one, the only one
// of flisk.yaml, or the only one that has any.
func (o *opened) sessionAgent(ctx context.Context, name string) (string, error) {
	names := o.project.AgentNames()
	switch {
	case name == "" && len(names) == 1:
		return names[0], nil
	case slices.Contains(names, name):
		return name, nil
	}
	more, err := o.volumeAgents(ctx)
	if err != nil {
		return "", err
	}
	return o.agent(name, more...)
}

// volumeAgents are the agents that the volume knows.
func (o *opened) volumeAgents(ctx context.Context) (names []string, err error) {
	if distant, ok := o.driver.(distantVolume); ok {
		found, err := distant.Survey(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for name := range found.Sessions {
			if turn.ValidAgent(name) {
				names = append(names, name)
			}
		}
		return names, nil
	}
	err = o.withVolume(ctx, func(v sessionVolume) error { names = v.agents; return nil })
	return names, err
}

func (a *app) noSession(agent, id string) error {
	return fault.New(fault.Failed, "see "+a.command("sessions list"), "agent %q has no session %q", agent, id)
}

// sessionFault words why a session cannot be shown.
func (a *app) sessionFault(err error, agent, id string) error {
	if errors.Is(err, checkpoint.ErrNoSession) {
		return a.noSession(agent, id)
	}
	if damaged, ok := errors.AsType[*checkpoint.DamagedError](err); ok {
		f := fault.New(fault.Failed, "its file was left as it is; other sessions are not affected", "%w", err)
		if damaged.Newer {
			f.Hint = "use the newer flisk; the file was left as it is"
		}
		return f
	}
	return err
}

func sessionJSON(agent string, view checkpoint.View) SessionJSON {
	v := SessionJSON{
		Agent: agent, ID: view.Session, Turns: view.Checkpoint.Turn, Bytes: view.Bytes,
		Messages: append([]turn.Message{}, view.Messages...), State: view.State, History: []TurnRowJSON{},
	}
	for _, t := range view.Turns {
		v.History = append(v.History, TurnRowJSON{t.ID, t.Number, t.State, t.Reason})
	}
	return v
}

// printSession prints a conversation: who said what, an empty line before each
// turn, and the agent's own state below.
func (a *app) printSession(agent string, view checkpoint.View) {
	out := a.streams.Out
	fmt.Fprintln(out, console.Strong.Render(a.shorten(view.Session, 40))+
		console.Quiet.Render(fmt.Sprintf(" · %s · %s · %s", agent, console.Count(view.Checkpoint.Turn, "turn"), console.Size(view.Bytes))))
	roles := 0
	for _, m := range view.Messages {
		roles = max(roles, len(console.Line(m.Role)))
	}
	roles = min(roles, 12)
	for i, m := range view.Messages {
		if i == 0 || m.Role == "user" {
			fmt.Fprintln(out)
		}
		a.printMessage(m.Role, roles, m.Content)
	}
	if len(view.State) > 0 {
		fmt.Fprintln(out)
		a.printMessage("state", max(roles, len("state")), view.State)
	}
	if n := len(view.Turns); n > 0 && view.Turns[n-1].State != turn.Committed {
		last := view.Turns[n-1]
		text := fmt.Sprintf("turn %d is %s", last.Number, last.State)
		if last.State == turn.Failed {
			text = fmt.Sprintf("turn %d failed", last.Number)
		}
		if last.Reason != "" {
			text += ": " + last.Reason
		}
		a.streams.Err.Note("last", console.Warn, text)
	}
}

// printMessage prints one entry of a conversation behind its role.
func (a *app) printMessage(role string, roles int, content json.RawMessage) {
	out := a.streams.Out
	style := console.Accent
	if role == "user" {
		style = console.Strong
	} else if role == "state" {
		style = console.Quiet
	}
	label := console.Cut(console.Line(role), roles)
	pad := strings.Repeat(" ", max(0, roles-len(label))+2)
	text := console.Fold(console.Text(readable(content)), out.Columns(), strings.Repeat(" ", roles+2))
	_, _ = io.WriteString(out, style.Render(label)+pad) // Failed tells
	if out.ForPeople() {
		fmt.Fprintln(out, text)
	} else {
		_, _ = io.WriteString(out.Raw(), text+"\n")
	}
}

// shorten elides where there is a width to keep.
func (a *app) shorten(s string, columns int) string {
	if a.streams.Out.Columns() == 0 {
		return s
	}
	return console.Elide(s, columns)
}
