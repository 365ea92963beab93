package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
)

// RemovedJSON is what "flisk sessions rm --json" prints.
type RemovedJSON struct {
	Agent   string           `json:"agent"`
	Removed []RemovedRowJSON `json:"removed"`
}

// RemovedRowJSON is one session that was removed.
type RemovedRowJSON struct {
	ID      string `json:"session_id"`
	Turns   int    `json:"turns"` // committed turns
	Bytes   int64  `json:"bytes"` // that it took on disk
	Problem string `json:"problem,omitempty"`
}

func newSessionsRm(a *app) *cobra.Command {
	var agent string
	cmd := &cobra.Command{
		Use:   "rm SESSION…",
		Short: "remove conversations for good",
		Long: "Remove conversations, after showing what goes and asking. The ids then begin empty. A turn that is " +
			"running in one of them is waited for. Whoever answers no removes nothing; the exit code is 1 then.\n\n" +
			"There is no way back but an export that was made before.",
		Example: examples(
			"flisk sessions rm s1", "remove one, after a question",
			"flisk sessions export s1 -o s1.flisk.jsonl", "keep a copy first",
			"flisk sessions rm s1 s2 --yes", "for a script",
		),
		Args: atLeast("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.interruptible(cmd.Context(), func(ctx context.Context) error {
				return runSessionsRm(ctx, a, agent, args)
			})
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "those of agent `NAME`, where there are several")
	return cmd
}

func runSessionsRm(ctx context.Context, a *app, agent string, ids []string) error {
	return a.named(ctx, "remove", agent, ids, func(o *opened, v sessionVolume, agent string) error {
		going, err := a.going(ctx, v, agent, ids)
		if err != nil {
			return err
		}
		if !a.global.yes && !a.global.json {
			a.printGoing(going)
		}
		question := fmt.Sprintf("remove these %d sessions of agent %s for good?", len(going), agent)
		if len(going) == 1 {
			question = fmt.Sprintf("remove session %s of agent %s for good?", going[0].ID, agent)
		}
		if err := a.confirm(ctx, question, "nothing was removed"); err != nil {
			return err
		}
		report, err := o.removeSessions(ctx, a.progress(), v, agent, going)
		if err != nil {
			return fault.New(storeKind(err), "", "%d of %d sessions were removed, the others are as they were: %w", len(report.Removed), len(going), err)
		}
		if a.global.json {
			return a.printJSON(RemovedJSON{Agent: agent, Removed: going})
		}
		a.streams.Out.Fields(console.Field{Label: "removed", Value: console.Cell{Text: countSessions(len(going))}})
		return nil
	})
}

// going looks at the sessions that shall go. One that is not there is an error
// for all; one that cannot be read can go.
func (a *app) going(ctx context.Context, v sessionVolume, agent string, ids []string) ([]RemovedRowJSON, error) {
	r, err := v.reader(agent)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, a.noSession(agent, ids[0])
	}
	defer r.Close()
	rows := []RemovedRowJSON{}
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			continue
		}
		view, err := r.View(ctx, id)
		row := RemovedRowJSON{ID: id, Turns: view.Checkpoint.Turn, Bytes: view.Bytes}
		if damaged, ok := errors.AsType[*checkpoint.DamagedError](err); ok {
			row.Problem = damaged.Error()
		} else if err != nil {
			return nil, a.sessionFault(err, agent, id)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (a *app) printGoing(rows []RemovedRowJSON) {
	t := console.Table{Columns: []console.Column{
		{Title: "SESSION", Shrink: console.Middle}, {Title: "TURNS", Right: true}, {Title: "SIZE", Right: true},
	}}
	for _, s := range rows {
		id, turns, size := console.Cell{Text: s.ID, Style: console.Strong}, strconv.Itoa(s.Turns), console.Size(s.Bytes)
		if s.Problem != "" {
			id.Style, turns, size = console.Bad, "?", "?"
		}
		t.Rows = append(t.Rows, []console.Cell{id, {Text: turns}, {Text: size}})
	}
	a.streams.Err.Table(t)
}
