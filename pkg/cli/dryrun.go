package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack/genfile"
)

// PlanJSON is what up, down and restart print with --dry-run --json.
type PlanJSON struct {
	Project string     `json:"project"`
	Changes bool       `json:"changes"` // false when nothing would be changed
	Steps   []StepJSON `json:"steps"`   // in order
}

// StepJSON is one thing that would be done. Neighbours that do the same do not
// depend on each other.
type StepJSON struct {
	Do         runtime.Action `json:"do"`
	File       string         `json:"file,omitempty"` // of "write": its path in the project
	Agent      string         `json:"agent,omitempty"`
	Service    string         `json:"service,omitempty"` // of "start service" and "stop service"
	Replica    string         `json:"replica,omitempty"`
	Generation int            `json:"generation,omitempty"` // counts the planned replacements of a replica
	Serve      []string       `json:"serve,omitempty"`      // of "switch routes": REPLICA.GENERATION
	Volume     string         `json:"volume,omitempty"`     // of "remove volume": its name
	Cause      string         `json:"cause"`                // for people
}

func bindDryRun(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "print each step and its cause; change nothing, ask nothing")
}

// dryOptions say what is looked at.
type dryOptions struct {
	op      runtime.Op
	agents  []string
	volumes bool // of a down: that removes them, too
}

// runDry prints what an operation would do.
func runDry(ctx context.Context, a *app, do dryOptions) error {
	open := a.open
	if do.op == runtime.OpDown {
		open = a.look
	}
	o, err := open(ctx, nil)
	if err != nil {
		return err
	}
	if do.op != runtime.OpDown {
		a.noteUnanswered(o)
		a.noteOverride(o)
		if err := a.refuseMove(ctx, o); err != nil {
			return err
		}
	}
	for _, agent := range do.agents {
		if _, err := o.agent(agent); err != nil {
			return err
		}
	}
	var first []genfile.Stale
	if do.op != runtime.OpDown {
		change, err := stale(o.project)
		if err != nil {
			return err
		}
		first = change.Stale
	}
	plan, err := o.driver.Plan(ctx, do.op, do.agents...)
	if err != nil {
		return err
	}
	var removed removal
	if do.volumes {
		if removed, err = o.removal(ctx); err != nil {
			return err
		}
	}
	if a.global.json {
		return a.printJSON(planJSON(o.project.Name, first, plan, removed.names))
	}
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return err
	}
	for _, left := range observed.Stale {
		a.streams.Err.Note("first", console.Warn, "clear away what is left: "+left)
	}
	if len(plan)+len(first)+len(removed.names) == 0 {
		a.streams.Out.Fields(console.Field{Label: "plan", Value: console.Cell{Text: nothingToDo(do.op, o.project.Name)}})
		return nil
	}
	t := console.Table{Columns: []console.Column{{Title: "DO"}, {Title: "WITH"}, {Title: "BECAUSE", Shrink: console.Wrap}}}
	for _, s := range first {
		t.Rows = append(t.Rows, []console.Cell{
			{Text: string(writeFile), Style: console.Strong}, {Text: s.Path}, {Text: s.Cause, Style: console.Quiet},
		})
	}
	var said map[string]string // off a terminal each line stands on its own
	if a.streams.Out.Columns() > 0 {
		said = map[string]string{}
	}
	for _, s := range plan {
		t.Rows = append(t.Rows, []console.Cell{
			{Text: string(s.Do), Style: console.Strong}, {Text: s.Object()}, {Text: sayOnce(said, s), Style: console.Quiet},
		})
	}
	for _, name := range removed.names {
		t.Rows = append(t.Rows, []console.Cell{
			{Text: string(removeVolume), Style: console.Strong}, {Text: name}, {Text: removalCause, Style: console.Quiet},
		})
	}
	a.streams.Out.Table(t)
	return nil
}

// sayOnce is the cause of a step; of one that takes more than a line, and that a
// step before it had, which one that was. said is what was said;
// where it is nil, every step says it.
func sayOnce(said map[string]string, s runtime.Step) string {
	const line = 40 // columns, about half of a terminal
	if before := said[s.Cause]; before != "" && console.Width(s.Cause) > line {
		return "as for " + before
	}
	if said == nil {
		return s.Cause
	}
	said[s.Cause] = strings.TrimSpace(string(s.Do) + " " + s.Object())
	return s.Cause
}

func nothingToDo(op runtime.Op, project string) string {
	if op == runtime.OpDown {
		return "nothing to do: nothing of " + project + " runs"
	}
	return "nothing to do: it runs as flisk.yaml says"
}

// The steps before and after those of a runtime.
const (
	writeFile    runtime.Action = "write"
	removeVolume runtime.Action = "remove volume"
)

const removalCause = "it is asked for, for good"

func planJSON(project string, first []genfile.Stale, plan runtime.Plan, removed []string) PlanJSON {
	v := PlanJSON{Project: project, Changes: plan.Changes() || len(first)+len(removed) > 0, Steps: []StepJSON{}}
	for _, s := range first {
		v.Steps = append(v.Steps, StepJSON{Do: writeFile, File: s.Path, Cause: s.Cause})
	}
	for _, s := range plan {
		step := StepJSON{Do: s.Do, Agent: s.Agent, Service: s.Service, Replica: s.Replica, Generation: s.Generation, Cause: s.Cause}
		for _, ref := range s.Serve {
			step.Serve = append(step.Serve, ref.String())
		}
		v.Steps = append(v.Steps, step)
	}
	for _, name := range removed {
		v.Steps = append(v.Steps, StepJSON{Do: removeVolume, Volume: name, Cause: removalCause})
	}
	return v
}
