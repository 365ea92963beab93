package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// DownJSON is what "flisk down --json" prints.
type DownJSON struct {
	Project string     `json:"project"`
	Changed bool       `json:"changed"` // false when nothing ran
	Volume  VolumeJSON `json:"volume"`  // it is kept, always
}

func newDown(a *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:        "down",
		SuggestFor: []string{"stop"},
		Short:      "stop everything; keep every conversation",
		GroupID:    groupRun,
		Long: "Stop the agents, then the gateway. Turns that were accepted are finished, saved and answered first. The " +
			"volume with the conversations stays.\n\n" +
			"Ctrl-C while it waits goes on waiting and says so; a second one kills what is left. What was saved is " +
			"safe either way.",
		Example: examples(
			"flisk down", "stop the project of this directory",
			"flisk -C bot down", "stop the one in ./bot",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dry {
				return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runDry(ctx, a, runtime.OpDown) })
			}
			progress := a.progress()
			return a.draining(cmd.Context(), progress, func(ctx context.Context) error {
				return runDown(ctx, a, progress)
			})
		},
	}
	bindDryRun(cmd, &dry)
	return cmd
}

// runDown takes the end of ctx for force: a drain is not cut off by less.
func runDown(ctx context.Context, a *app, progress *console.Progress) error {
	o, err := a.look(ctx.Done())
	if err != nil {
		return err
	}
	report, err := o.driver.Down(ctx, progress)
	if err != nil {
		return err
	}
	observed, err := o.driver.Observe(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	volume := volumeOf(observed)
	if a.global.json {
		return a.printJSON(DownJSON{Project: o.project.Name, Changed: report.Changed, Volume: volume})
	}
	stopped := console.Cell{Text: o.project.Name, Style: console.Strong}
	if !report.Changed {
		stopped = console.Cell{Text: "nothing to do: nothing of " + o.project.Name + " runs"}
	}
	if report.Changed && a.streams.Out.Terminal && a.streams.Err.Terminal {
		fmt.Fprintln(a.streams.Out) // between the steps and what they led to
	}
	a.streams.Out.Fields(
		console.Field{Label: "stopped", Value: stopped},
		console.Field{Label: "kept", Value: console.Cell{Text: a.volumeLine(volume)}},
	)
	return nil
}

// draining does work that a signal must not cut off: at the first one it says
// that the drain goes on, at the second it ends the context. A terminal that
// closes is no wish to kill anything: the drain goes on without it.
func (a *app) draining(ctx context.Context, progress *console.Progress, work func(context.Context) error) error {
	ctx, force := context.WithCancel(ctx)
	defer force()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	_, stopHangups := catchHangups()
	defer stopHangups()

	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { a.watchDrain(progress, signals, force, over) })
	err := work(ctx)
	close(over)
	wg.Wait()
	switch {
	case ctx.Err() == nil:
		return err
	case err == nil:
		return fault.New(fault.Interrupted, "", "stopped by force; turns that were running are cut off, saved ones are safe")
	default:
		return interrupted(ctx, err)
	}
}

// watchDrain reacts to signals until over is closed.
func (a *app) watchDrain(progress *console.Progress, signals <-chan os.Signal, force func(), over <-chan struct{}) {
	for seen := 0; ; {
		select {
		case <-over:
			return
		case <-signals:
			a.freshLine()
			switch seen++; seen {
			case 1:
				progress.Note("draining", console.Warn, "turns in flight are finished first; Ctrl-C again kills them")
			case 2:
				progress.Note("forced", console.Bad, "killing what is left")
				force()
			}
		}
	}
}
