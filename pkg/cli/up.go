package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// UpJSON is what "flisk up --json" prints.
type UpJSON struct {
	Project string        `json:"project"`
	Runtime string        `json:"runtime"`          // "process" or "docker"
	Engine  *EngineJSON   `json:"engine,omitempty"` // on docker
	Changed bool          `json:"changed"`          // false when everything ran as flisk.yaml says
	Steps   []string      `json:"steps"`            // what was done, in order, for people
	URL     string        `json:"url"`              // base URL of the gateway
	Volume  VolumeJSON    `json:"volume"`
	Agents  []ReplicaJSON `json:"replicas"`
}

func newUp(a *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:        "up",
		SuggestFor: []string{"start", "run"},
		Short:      "run the project; return when it is ready",
		GroupID:    groupRun,
		Long: "Build and start what flisk.yaml describes, and return when every agent answers through the gateway. " +
			"What already runs as described is left alone; what changed is replaced without losing a turn. When it " +
			"fails, what it started is stopped again.\n\n" +
			"compose.yaml and the files in traefik/ are brought to what flisk.yaml says first. One that was edited by " +
			"hand is refused, and nothing is done: changes of yours belong into compose.override.yaml.\n\n" +
			"It runs where --runtime says, else where flisk.yaml says, else where it ran last, else on Docker when an " +
			"engine answers, else as local processes. Where another runtime has conversations that would be missing, it " +
			"stops and says so.\n\n" +
			"Conversations are on a volume outside the project and outlive everything that runs. An agent that has " +
			"some and is no longer in flisk.yaml is asked about once: --yes goes on without it, and leaves them there.",
		Example: examples(
			"flisk up", "run the project of this directory",
			"flisk -C bot up", "run the one in ./bot",
			"flisk up --dry-run", "see the steps, and do nothing",
			"flisk up --json | jq -r .url", "the gateway's address, for a script",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error {
				if dry {
					return runDry(ctx, a, dryOptions{op: runtime.OpUp})
				}
				return runUp(ctx, a)
			})
		},
	}
	bindDryRun(cmd, &dry)
	return cmd
}

func runUp(ctx context.Context, a *app) error {
	o, err := a.open(ctx, nil)
	if err != nil {
		return err
	}
	a.noteUnanswered(o)
	a.noteOverride(o)
	if err := a.refuseMove(ctx, o); err != nil {
		return err
	}
	steps := &recorder{Progress: a.progress()}
	wrote, err := regenerate(o.project, steps)
	if err != nil {
		return err
	}
	report, err := o.driver.Up(ctx, steps)
	if err != nil {
		return err
	}
	report.Changed = report.Changed || wrote
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return err
	}
	engine, err := o.engine(ctx)
	if err != nil {
		return err
	}
	volume := o.volumeOf(ctx, observed)
	volume.Created = report.Created
	if a.global.json {
		return a.printJSON(UpJSON{
			Project: o.project.Name,
			Runtime: string(o.runtime),
			Engine:  engine,
			Changed: report.Changed,
			Steps:   steps.list(),
			URL:     report.URL,
			Volume:  volume,
			Agents:  replicasOf(observed),
		})
	}
	a.printUp(o, report, volume, engine)
	return nil
}

// printUp says what runs now, where, and what to try.
func (a *app) printUp(o *opened, report runtime.Report, volume VolumeJSON, engine *EngineJSON) {
	out := a.streams.Out
	agents := o.project.AgentNames()
	ready := console.Field{Label: "ready", Value: console.Cell{Text: strings.Join(agents, ", "), Style: console.Good}}
	if !report.Changed {
		ready.Value.Text += " (nothing to do: it runs as flisk.yaml says)"
	}
	try := a.command(`turn "hello" -s s1`)
	if len(agents) > 1 {
		try += " --agent " + agents[0]
	}
	if report.Changed && out.Terminal && a.streams.Err.Terminal {
		fmt.Fprintln(out) // between the steps and what they led to
	}
	fields := append([]console.Field{
		ready,
		{Label: "gateway", Value: console.Cell{Text: report.URL, Style: console.Accent}},
	}, engine.fields()...)
	out.Fields(append(fields,
		console.Field{Label: "volume", Value: console.Cell{Text: a.volumeLine(volume)}},
		console.Field{Label: "try", Value: console.Cell{Text: try, Style: console.Accent}},
	)...)
}

// recorder keeps the names of the steps that were told.
type recorder struct {
	runtime.Progress
	mu    sync.Mutex
	steps []string
}

func (r *recorder) Begin(step string) func(string, error) {
	r.mu.Lock()
	r.steps = append(r.steps, step)
	r.mu.Unlock()
	return r.Progress.Begin(step)
}

func (r *recorder) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.steps...)
}
