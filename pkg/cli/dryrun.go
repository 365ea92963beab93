package cli

import (
	"context"

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
	Replica    string         `json:"replica,omitempty"`
	Generation int            `json:"generation,omitempty"` // counts the planned replacements of a replica
	Serve      []string       `json:"serve,omitempty"`      // of "switch routes": REPLICA.GENERATION
	Cause      string         `json:"cause"`                // for people
}

func bindDryRun(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVar(dry, "dry-run", false, "print each step and its cause; change nothing, ask nothing")
}

// runDry prints what an operation would do.
func runDry(ctx context.Context, a *app, op runtime.Op, agents ...string) error {
	open := a.open
	if op == runtime.OpDown {
		open = a.look
	}
	o, err := open(nil)
	if err != nil {
		return err
	}
	for _, agent := range agents {
		if _, err := o.agent(agent); err != nil {
			return err
		}
	}
	var first []genfile.Stale
	if op != runtime.OpDown {
		change, err := stale(o.project)
		if err != nil {
			return err
		}
		first = change.Stale
	}
	plan, err := o.driver.Plan(ctx, op, agents...)
	if err != nil {
		return err
	}
	if a.global.json {
		return a.printJSON(planJSON(o.project.Name, first, plan))
	}
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return err
	}
	for _, left := range observed.Stale {
		a.streams.Err.Note("first", console.Warn, "clear away what is left: "+left)
	}
	if len(plan) == 0 && len(first) == 0 {
		a.streams.Out.Fields(console.Field{Label: "plan", Value: console.Cell{Text: nothingToDo(op, o.project.Name)}})
		return nil
	}
	t := console.Table{Columns: []console.Column{{Title: "DO"}, {Title: "WITH"}, {Title: "BECAUSE"}}}
	for _, s := range first {
		t.Rows = append(t.Rows, []console.Cell{
			{Text: string(writeFile), Style: console.Strong}, {Text: s.Path}, {Text: s.Cause, Style: console.Quiet},
		})
	}
	for _, s := range plan {
		t.Rows = append(t.Rows, []console.Cell{
			{Text: string(s.Do), Style: console.Strong}, {Text: s.Object()}, {Text: s.Cause, Style: console.Quiet},
		})
	}
	a.streams.Out.Table(t)
	return nil
}

func nothingToDo(op runtime.Op, project string) string {
	if op == runtime.OpDown {
		return "nothing to do: nothing of " + project + " runs"
	}
	return "nothing to do: it runs as flisk.yaml says"
}

// writeFile is the step before those of a runtime.
const writeFile runtime.Action = "write"

func planJSON(project string, first []genfile.Stale, plan runtime.Plan) PlanJSON {
	v := PlanJSON{Project: project, Changes: plan.Changes() || len(first) > 0, Steps: []StepJSON{}}
	for _, s := range first {
		v.Steps = append(v.Steps, StepJSON{Do: writeFile, File: s.Path, Cause: s.Cause})
	}
	for _, s := range plan {
		step := StepJSON{Do: s.Do, Agent: s.Agent, Replica: s.Replica, Generation: s.Generation, Cause: s.Cause}
		for _, ref := range s.Serve {
			step.Serve = append(step.Serve, ref.String())
		}
		v.Steps = append(v.Steps, step)
	}
	return v
}
