package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// StatusJSON is what "flisk status --json" prints.
type StatusJSON struct {
	Project  string        `json:"project"`
	Instance string        `json:"instance,omitempty"` // of --instance
	Runtime  string        `json:"runtime"`            // where it was looked for: "process" or "docker"
	Engine   *EngineJSON   `json:"engine,omitempty"`   // on docker
	Running  bool          `json:"running"`            // anything of the project runs
	Dir      string        `json:"dir,omitempty"`      // the project directory that it was started from
	URL      string        `json:"url,omitempty"`      // base URL of the gateway, while it runs
	PID      int           `json:"gateway_pid,omitempty"`
	Volume   VolumeJSON    `json:"volume"`
	Replicas []ReplicaJSON `json:"replicas"`
	Services []ServiceJSON `json:"services,omitempty"` // what else compose.override.yaml adds
	Stale    []string      `json:"stale,omitempty"`    // what is wrong with what something that was killed left, for people
}

// ReplicaJSON is one running instance of an agent.
type ReplicaJSON struct {
	Agent    string        `json:"agent"`
	Name     string        `json:"name"`
	State    runtime.State `json:"state"` // starting, waiting, ready, draining, failing, gone or left-behind
	PID      int           `json:"pid,omitempty"`
	Started  time.Time     `json:"started,omitzero"`
	Restarts int           `json:"restarts"` // exits that nobody asked for
	Code     string        `json:"code"`     // hash of the source that it was built from
	Detail   string        `json:"detail,omitempty"`
}

func newStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:        "status",
		SuggestFor: []string{"ps", "ls"},
		Short:      "show what runs, and where its conversations are",
		GroupID:    groupLook,
		Example: examples(
			"flisk status", "what runs of the project of this directory",
			"flisk status --json | jq .running", "for a script",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runStatus(ctx, a, time.Now()) })
		},
	}
}

func runStatus(ctx context.Context, a *app, now time.Time) error {
	o, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	a.noteUnanswered(o)
	observed, err := o.driver.Observe(ctx)
	if err != nil {
		return err
	}
	engine, err := o.engine(ctx)
	if err != nil {
		return err
	}
	volume := o.volumeOf(ctx, observed)
	refused, err := o.checkVolume(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case refused != nil:
		volume.Refused = asFault(refused).Message
	case err != nil && volume.Problem == "":
		volume.Problem = asFault(err).Message
	}
	if a.global.json {
		return a.printJSON(StatusJSON{
			Project:  o.project.Name,
			Instance: a.global.instance,
			Runtime:  string(o.runtime),
			Engine:   engine,
			Running:  observed.Running,
			Dir:      observed.Dir,
			URL:      observed.URL,
			PID:      observed.GatewayPID,
			Volume:   volume,
			Replicas: replicasOf(observed),
			Services: servicesOf(observed),
			Stale:    observed.Stale,
		})
	}
	a.printStatus(o, observed, engine, volume, now)
	switch {
	case refused != nil:
		a.streams.Err.Note("problem", console.Bad, volume.Refused)
		if hint := asFault(refused).Hint; hint != "" {
			a.streams.Err.Note("hint", console.Accent, hint)
		}
	case !observed.Running && len(observed.Stale) == 0:
		a.streams.Err.Note("hint", console.Accent, "start it: "+a.command("up"))
	}
	return nil
}

func (a *app) printStatus(o *opened, observed runtime.Observed, engine *EngineJSON, volume VolumeJSON, now time.Time) {
	out := a.streams.Out
	if len(observed.Replicas) > 0 {
		out.Table(replicaTable(observed.Replicas, now))
		fmt.Fprintln(out)
	}
	var fields []console.Field
	if a.global.instance != "" {
		fields = append(fields, console.Field{Label: "instance", Value: console.Cell{Text: a.global.instance, Style: console.Strong}})
	}
	if observed.Running {
		fields = append(fields, console.Field{Label: "gateway", Value: gatewayCell(observed)})
	} else {
		fields = append(fields, console.Field{Label: "project", Value: console.Cell{Text: o.project.Name + ": nothing of it runs"}})
	}
	fields = append(fields, serviceFields(observed)...)
	fields = append(fields, console.Field{Label: "runtime", Value: console.Cell{Text: o.choice.String()}})
	fields = append(fields, engine.fields()...)
	fields = append(fields,
		console.Field{Label: "volume", Value: console.Cell{Text: a.volumeLine(volume)}},
		console.Field{Label: "in", Value: console.Cell{Text: strings.Replace(volume.Place, " "+volume.Name, "", 1), Style: console.Quiet}, Shrink: console.Middle},
	)
	if observed.Running && observed.Dir != "" && observed.Dir != o.project.Dir {
		fields = append(fields, console.Field{Label: "runs from", Value: console.Cell{Text: observed.Dir, Style: console.Warn}, Shrink: console.Middle})
	}
	out.Fields(fields...)
	for _, r := range observed.Replicas {
		if r.Detail != "" {
			a.streams.Err.Note(r.Name, console.Warn, r.Detail)
		}
	}
	for _, left := range observed.Stale {
		a.streams.Err.Note("warning", console.Warn, left)
	}
}

// gatewayCell is where the gateway listens and which process it is.
func gatewayCell(observed runtime.Observed) console.Cell {
	process := ""
	if observed.GatewayPID > 0 {
		process = fmt.Sprintf(" (process %d)", observed.GatewayPID)
	}
	switch {
	case observed.URL != "":
		return console.Cell{Text: observed.URL + process, Style: console.Accent}
	case process != "":
		return console.Cell{Text: "does not answer" + process, Style: console.Bad}
	default:
		return console.Cell{Text: "does not run", Style: console.Bad}
	}
}

func replicaTable(replicas []runtime.Replica, now time.Time) console.Table {
	t := console.Table{Columns: []console.Column{
		{Title: "AGENT"}, {Title: "REPLICA"}, {Title: "STATE"}, {Title: "PID", Right: true},
		{Title: "UP SINCE"}, {Title: "RESTARTS", Right: true}, {Title: "CODE", Shrink: console.Middle},
	}}
	for _, r := range replicas {
		pid := "-"
		if r.PID > 0 {
			pid = strconv.Itoa(r.PID)
		}
		since := "-" // of what a killed supervisor left nobody knows any more
		if !r.Started.IsZero() {
			since = console.Ago(r.Started, now)
		}
		t.Rows = append(t.Rows, []console.Cell{
			{Text: r.Agent, Style: console.Strong},
			{Text: r.Name},
			{Text: string(r.State), Style: stateStyle(r.State)},
			{Text: pid},
			{Text: since},
			{Text: strconv.Itoa(r.Restarts)},
			{Text: r.Code, Style: console.Quiet},
		})
	}
	return t
}

func stateStyle(s runtime.State) console.Style {
	switch s {
	case runtime.Ready:
		return console.Good
	case runtime.Failing, runtime.Gone:
		return console.Bad
	default:
		return console.Warn
	}
}

func replicasOf(observed runtime.Observed) []ReplicaJSON {
	rows := []ReplicaJSON{}
	for _, r := range observed.Replicas {
		rows = append(rows, ReplicaJSON{r.Agent, r.Name, r.State, r.PID, r.Started, r.Restarts, r.Code, r.Detail})
	}
	return rows
}
