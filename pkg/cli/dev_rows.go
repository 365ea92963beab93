package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/dev"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// devRow is what is known of an agent: its line at the bottom says so.
type devRow struct {
	name     string
	ending   string                     // "stopping", "stopped"; "" while the loop runs
	leaving  bool                       // flisk.yaml has it no more
	phase    string                     // of the reload that goes on; "" for none
	since    time.Time                  // of the phase
	paused   string                     // the files whose change waits; "" for none
	until    time.Time                  // when it is reloaded
	lost     string                     // what is known of an agent that went away; "" otherwise
	broken   string                     // why what is on disk does not run; "" when it does
	innocent bool                       // broken is not the fault of this agent
	trouble  map[string]runtime.Replica // replicas that are not fine, by name
	serves   int                        // the reload whose code serves; noCode before the first
	took     time.Duration              // that one
	draining int                        // old generations
}

// noCode is what serves before anything does.
const noCode = -1

// devRows are the agents of a project, in its order.
type devRows []*devRow

// of finds an agent; nil when there is no such row.
func (rows devRows) of(agent string) *devRow {
	if i := slices.IndexFunc(rows, func(r *devRow) bool { return r.name == agent }); i >= 0 {
		return rows[i]
	}
	return nil
}

// name says which agents there are. One that is gone stays until it has ended.
func (rows devRows) name(agents []string) devRows {
	var now devRows
	for _, name := range agents {
		row := rows.of(name)
		if row == nil {
			row = &devRow{name: name, serves: noCode, trouble: map[string]runtime.Replica{}}
		}
		row.leaving = false
		now = append(now, row)
	}
	for _, row := range rows {
		if !slices.Contains(agents, row.name) && row.serves != noCode {
			row.leaving = true
			now = append(now, row)
		}
	}
	return now
}

// serving is the reload whose code serves a replica's agent.
func (rows devRows) serving(replica string) int {
	at := strings.LastIndexByte(replica, '-')
	if row := rows.of(replica[:max(at, 0)]); row != nil {
		return max(row.serves, 0)
	}
	return 0
}

// note brings the rows up to date, and returns those that there still are.
func (rows devRows) note(e dev.Event) devRows {
	for _, row := range rows {
		row.draining = e.Draining[row.name]
		row.note(e, slices.Contains(e.Agents, row.name))
	}
	switch e.Kind {
	case dev.Reloaded, dev.Unchanged, dev.Drained: // what runs is what flisk.yaml has, whoever saw to that
	default:
		return rows
	}
	return slices.DeleteFunc(rows, func(row *devRow) bool { return row.leaving && row.draining == 0 })
}

func (r *devRow) note(e dev.Event, concerned bool) {
	switch e.Kind {
	case dev.Reloading, dev.Doing:
		r.paused = ""
		if concerned {
			r.phase, r.since = phaseWords(e.Step), e.Time
		}
	case dev.Reloaded, dev.Unchanged:
		r.phase, r.paused, r.lost, r.broken = "", "", "", ""
		if concerned && e.Kind == dev.Reloaded || r.serves == noCode {
			r.serves, r.took = e.Reload, e.Spans.Total()
			clear(r.trouble)
		}
	case dev.Dropped:
		r.phase = ""
	case dev.Paused:
		if concerned {
			r.paused, r.until = listed(e.Paths, 1), e.Time.Add(e.Wait)
		}
	case dev.Failed:
		r.phase, r.paused = "", ""
		r.fail(e, concerned)
	case dev.Lost:
		if concerned || len(e.Agents) == 0 {
			r.lost = lostWords(e)
		}
	case dev.Back:
		r.lost = ""
	case dev.Failing:
		if concerned {
			r.trouble[e.Replica.Name] = e.Replica
		}
	case dev.Ready:
		if concerned {
			delete(r.trouble, e.Replica.Name)
		}
	case dev.Stopping:
		r.phase, r.ending = "", "stopped"
		if concerned {
			r.ending = "stopping"
		}
	}
}

// fail notes a reload that came to nothing.
func (r *devRow) fail(e dev.Event, concerned bool) {
	r.innocent = len(e.Broken) > 0 && !slices.Contains(e.Broken, r.name)
	switch {
	case r.innocent && !concerned:
		r.broken = "" // nothing of it has changed
	case r.innocent:
		r.broken = "waits for " + listed(e.Broken, 2)
	case !concerned && len(e.Agents) > 0:
	case e.Step == runtime.Build:
		r.broken = "does not build"
	case e.Step == runtime.Await:
		r.broken = "does not get ready"
	default:
		r.broken = "not reloaded"
	}
}

func phaseWords(step runtime.Action) string {
	switch step {
	case runtime.Build:
		return "building"
	case runtime.Pull:
		return "waiting for an image"
	case runtime.StartService:
		return "waiting for a service"
	case runtime.Start, runtime.Await:
		return "waiting for ready"
	case runtime.Switch, runtime.Confirm, runtime.SwapGateway:
		return "switching"
	}
	return "preparing"
}

// lostWords is what is known of what went away.
func lostWords(e dev.Event) string {
	if asFault(e.Err).Kind == fault.Environment {
		return "not known"
	}
	return "not running"
}

// line is the row for people, its name as wide as that of others.
func (r *devRow) line(width int, now time.Time) string {
	state, notes := r.state(now)
	line := state.Style.Render("●") + " " + console.Strong.Render(r.name) + strings.Repeat(" ", width-console.Width(r.name)+2) + state.Style.Render(state.Text)
	if r.draining > 0 {
		notes = append(notes, fmt.Sprintf("%d draining", r.draining))
	}
	if len(notes) > 0 {
		line += console.Quiet.Render(" · " + strings.Join(notes, " · "))
	}
	return line
}

// state is what matters most of an agent, and what else there is to say.
func (r *devRow) state(now time.Time) (state console.Cell, notes []string) {
	switch {
	case r.ending != "":
		state = console.Cell{Text: r.ending, Style: console.Warn}
		if r.ending == "stopped" {
			state.Style = console.Quiet
		}
		return state, nil
	case r.phase != "":
		state = console.Cell{Text: "reloading", Style: console.Warn}
		if r.serves == noCode {
			state.Text = "starting"
		}
		return state, []string{r.phase + waited(now.Sub(r.since))}
	case r.lost != "":
		return console.Cell{Text: r.lost, Style: console.Bad}, nil
	case r.leaving && r.broken == "":
		return console.Cell{Text: "leaving", Style: console.Warn}, nil
	case len(r.trouble) > 0:
		state, notes = r.worst()
		if r.broken != "" {
			notes = append(notes, r.broken)
		}
		return state, notes
	case r.serves == noCode && r.broken != "":
		return console.Cell{Text: "not running", Style: console.Bad}, []string{r.broken}
	case r.serves == noCode:
		return console.Cell{Text: "starting", Style: console.Warn}, nil
	case r.paused != "" && r.broken == "":
		return console.Cell{Text: "paused", Style: console.Warn}, []string{fmt.Sprintf("a change of %s is reloaded in %s", r.paused, console.Span(max(r.until.Sub(now), 0).Round(time.Second)))}
	case r.broken != "":
		state = console.Cell{Text: r.broken, Style: console.Bad}
		if r.innocent {
			state.Style = console.Warn
		}
		return state, []string{"the code of " + reloadName(r.serves) + " serves"}
	}
	if r.serves > 0 {
		notes = append(notes, fmt.Sprintf("reload %d took %s", r.serves, console.Span(r.took)))
	}
	return console.Cell{Text: "ready", Style: console.Good}, notes
}

func reloadName(n int) string {
	if n == 0 {
		return "the start"
	}
	return fmt.Sprintf("reload %d", n)
}

// waited is how long something goes on, once somebody may ask.
func waited(d time.Duration) string {
	if d < time.Second {
		return ""
	}
	return ", " + console.Span(d.Truncate(time.Second))
}

// worst is the replica in the deepest trouble, and which one it is where others
// are in none.
func (r *devRow) worst() (console.Cell, []string) {
	depth := func(name string) int {
		return slices.Index([]runtime.State{runtime.Ready, runtime.Draining, runtime.Waiting, runtime.Starting, runtime.Failing}, r.trouble[name].State)
	}
	names := slices.Sorted(maps.Keys(r.trouble))
	worst := r.trouble[slices.MaxFunc(names, func(a, b string) int { return depth(a) - depth(b) })]
	state, notes := troubleCell(worst)
	if worst.Name != r.name+"-1" || len(r.trouble) > 1 {
		notes = append(notes, worst.Name)
	}
	return state, notes
}

// troubleCell says how a replica is that is not fine.
func troubleCell(r runtime.Replica) (state console.Cell, notes []string) {
	how := ""
	if r.Exit != nil {
		how = r.Exit.String()
	}
	if r.Restarts > 1 {
		how = strings.TrimPrefix(fmt.Sprintf("%s, %d times", how, r.Restarts), ", ")
	}
	with := func(text string) string {
		if how != "" {
			text += " (" + how + ")"
		}
		return text
	}
	switch {
	case r.State == runtime.Ready: // again
		return console.Cell{Text: "ready", Style: console.Warn}, []string{with("restarted")}
	case !r.Stopped.IsZero():
		return console.Cell{Text: with("not running"), Style: console.Bad}, nil
	case hasEnded(r):
		return console.Cell{Text: with("restarting"), Style: console.Bad}, nil
	case r.State == runtime.Draining:
		return console.Cell{Text: "draining", Style: console.Warn}, nil
	}
	return console.Cell{Text: "not ready", Style: console.Warn}, nil
}
