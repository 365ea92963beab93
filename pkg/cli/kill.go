package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// KillJSON is what "flisk kill --json" prints.
type KillJSON struct {
	Project string       `json:"project"`
	Killed  []ChangeJSON `json:"killed"`
	Millis  int64        `json:"millis"` // from the kill until all of the agent was ready again
}

// How long kill waits for what comes after the killed processes.
const (
	backTime = 30 * time.Second
	backPoll = 10 * time.Millisecond
)

func newKill(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "kill AGENT",
		Short:   "SIGKILL an agent, and see it come back",
		GroupID: groupRun,
		Long: "Send SIGKILL to every process of an agent, as a crash would end it: no warning, no drain. It is started " +
			"again at once, and kill returns when it is ready. Saved turns are safe. A turn that was running is cut " +
			"off; its client sees an error and may send it again under the same key.\n\n" +
			"A process that did not die of signal 9 is an error.",
		Example: examples(
			"flisk kill bot", "crash the agent bot",
			"flisk kill bot --json | jq .millis", "how long the gap was, for a script",
		),
		Args: positional(1, "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runKill(ctx, a, args[0]) })
		},
	}
}

func runKill(ctx context.Context, a *app, agent string) error {
	o, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return err
	}
	var runs []string
	for _, r := range observed.Replicas {
		runs = append(runs, r.Agent)
	}
	if agent, err = o.agent(agent, runs...); err != nil {
		return err
	}
	if observed.URL == "" {
		return a.nothingRuns(o.project.Name, observed)
	}
	began := time.Now()
	killed, err := o.driver.Kill(ctx, agent)
	if err != nil {
		return err
	}
	done := a.progress().Wait("waiting for " + agent + " to be ready again")
	killed, err = o.back(ctx, agent, killed)
	done()
	if err != nil {
		return err
	}
	took := time.Since(began)
	if a.global.json {
		return a.printJSON(KillJSON{o.project.Name, changesOf(killed), took.Milliseconds()})
	}
	out := a.streams.Out
	out.Table(changeTable(killed))
	fmt.Fprintln(out)
	out.Fields(console.Field{Label: "ready", Value: console.Cell{Text: "again after " + console.Span(took), Style: console.Good}})
	return nil
}

// back waits until every replica that was killed is ready, and returns the
// changes with the processes that are.
func (o *opened) back(ctx context.Context, agent string, killed []runtime.Change) ([]runtime.Change, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, backTime,
		fault.New(fault.Failed, "flisk logs "+agent+" may show why", "agent %q was killed, and is not ready again after %s", agent, backTime))
	defer cancel()
	tick := time.NewTicker(backPoll)
	defer tick.Stop()
	for {
		observed, err := o.driver.Observe(ctx)
		if err != nil {
			return nil, err
		}
		now := slices.Clone(killed)
		ready := 0
		for i, c := range killed {
			for _, r := range observed.Replicas {
				switch process := (runtime.Process{PID: r.PID, Start: r.Start}); {
				case r.Agent != agent || r.Name != c.Replica || process == c.Before:
				case r.State == runtime.Failing:
					return nil, fault.New(fault.Failed, "flisk logs "+agent+" shows more", "%s was killed, and does not come back: %s", r.Name, r.Detail)
				case r.State == runtime.Ready:
					now[i].After = process
					ready++
				}
			}
		}
		if ready >= len(killed) {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
