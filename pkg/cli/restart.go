package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// RestartJSON is what "flisk restart --json" prints.
type RestartJSON struct {
	Project  string        `json:"project"`
	Changed  bool          `json:"changed"`          // false when the project has nothing to restart
	Steps    []string      `json:"steps"`            // what was done, in order, for people
	Replaced []ChangeJSON  `json:"replaced"`         // empty when nothing ran before
	Filled   []string      `json:"filled,omitempty"` // replicas that did not run before, although others did or the gateway
	URL      string        `json:"url"`              // base URL of the gateway
	Agents   []ReplicaJSON `json:"replicas"`
}

// ChangeJSON is one process that ended, and the one that took its place.
type ChangeJSON struct {
	Agent   string `json:"agent"`
	Replica string `json:"replica"`
	Before  int    `json:"before_pid"`
	Exit    string `json:"exit"`                // how it ended: "exit code 0", "signal 9 (killed)"
	After   int    `json:"after_pid,omitempty"` // 0 when nothing took its place
}

func newRestart(a *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:     "restart [AGENT]",
		Short:   "replace running agents without losing a turn",
		GroupID: groupRun,
		Long: "Replace the processes of one agent, or of all: the new one is ready and has the requests before the old " +
			"one is told to stop, and the old one finishes what it accepted. No request is refused meanwhile. When a " +
			"new one does not get ready, the old one goes on.\n\n" +
			"It also does what flisk up would do, so a change of the source or of flisk.yaml is applied.",
		Example: examples(
			"flisk restart", "replace every agent",
			"flisk restart bot", "replace one",
			"flisk restart --dry-run", "see the steps, and do nothing",
		),
		Args: positional(0, "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			agent := strings.Join(args, "")
			return a.interruptible(cmd.Context(), func(ctx context.Context) error {
				if dry {
					return runDry(ctx, a, dryOptions{op: runtime.OpRestart, agents: args})
				}
				return runRestart(ctx, a, agent)
			})
		},
	}
	bindDryRun(cmd, &dry)
	return cmd
}

func runRestart(ctx context.Context, a *app, agent string) error {
	o, err := a.open(ctx, nil)
	if err != nil {
		return err
	}
	if agent != "" {
		if agent, err = o.agent(agent); err != nil {
			return err
		}
	}
	a.noteUnanswered(o)
	a.noteOverride(o)
	if err := a.refuseMove(ctx, o); err != nil {
		return err
	}
	steps := &recorder{Progress: a.progress()}
	if _, err := regenerate(o.project, steps); err != nil {
		return err
	}
	report, err := o.driver.Restart(ctx, agent, steps)
	if err != nil {
		return err
	}
	if a.global.json {
		observed, err := o.driver.Observe(ctx)
		if err != nil {
			return err
		}
		return a.printJSON(RestartJSON{
			Project: o.project.Name, Changed: report.Changed, Steps: steps.list(), Replaced: changesOf(report.Replaced), Filled: report.Filled,
			URL: report.URL, Agents: replicasOf(observed),
		})
	}
	out := a.streams.Out
	if report.Changed && out.Terminal && a.streams.Err.Terminal {
		fmt.Fprintln(out) // between the steps and what they led to
	}
	if len(report.Replaced) > 0 {
		out.Table(changeTable(report.Replaced))
	}
	if len(report.Replaced) > 0 && len(report.Filled) == 0 {
		return nil
	}
	text := "nothing ran before; all of it does now"
	switch {
	case len(report.Filled) > 0:
		text = strings.Join(report.Filled, ", ") + ": did not run before, and now does"
	case !report.Changed:
		text = "nothing to do: the project has no agent"
	}
	out.Fields(console.Field{Label: "ready", Value: console.Cell{Text: text, Style: console.Good}},
		console.Field{Label: "gateway", Value: console.Cell{Text: report.URL, Style: console.Accent}})
	return nil
}

// changeTable shows which process took whose place.
func changeTable(changes []runtime.Change) console.Table {
	t := console.Table{Columns: []console.Column{
		{Title: "REPLICA"}, {Title: "OLD", Right: true}, {Title: "NEW", Right: true}, {Title: "THE OLD ONE ENDED BY"},
	}}
	for _, c := range changes {
		style := console.Quiet
		if c.Exit != (runtime.Exit{}) {
			style = console.Warn
		}
		t.Rows = append(t.Rows, []console.Cell{
			{Text: c.Replica, Style: console.Strong},
			{Text: strconv.Itoa(c.Before.PID)}, {Text: strconv.Itoa(c.After.PID)},
			{Text: c.Exit.String(), Style: style},
		})
	}
	return t
}

func changesOf(changes []runtime.Change) []ChangeJSON {
	rows := []ChangeJSON{}
	for _, c := range changes {
		rows = append(rows, ChangeJSON{c.Agent, c.Replica, c.Before.PID, c.Exit.String(), c.After.PID})
	}
	return rows
}
