package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// DownJSON is what "flisk down --json" prints.
type DownJSON struct {
	Project  string     `json:"project"`
	Instance string     `json:"instance,omitempty"` // of --instance
	Changed  bool       `json:"changed"`            // false when nothing ran, and nothing was removed
	Steps    []string   `json:"steps"`              // what was done, in order, for people
	Volume   VolumeJSON `json:"volume"`             // it is kept but with --volumes, and describes what was removed then
	Removed  []string   `json:"removed,omitempty"`  // with --volumes: the volumes that are gone, for good

	Kept []KeptJSON `json:"kept,omitempty"` // with --volumes: those that are not removed

	// With --volumes: that of the other runtime, which stays, where it has sessions.
	Elsewhere *VolumeJSON `json:"elsewhere,omitempty"`
}

type downOptions struct {
	dry     bool
	volumes bool
}

func newDown(a *app) *cobra.Command {
	var o downOptions
	cmd := &cobra.Command{
		Use:        "down",
		SuggestFor: []string{"stop"},
		Short:      "stop everything; keep every conversation",
		GroupID:    groupRun,
		Long: "Stop the agents, then the gateway. Turns that were accepted are finished, saved and answered first. The " +
			"volume with the conversations stays.\n\n" +
			"With --volumes the project's volumes are removed as well, after their names and the number of " +
			"conversations in them were shown and somebody said yes. There is no way back but an export that was made " +
			"before. A volume that was made elsewhere stays.\n\n" +
			"Ctrl-C while it waits goes on waiting and says so; a second one kills what is left. What was saved is " +
			"safe either way.",
		Example: examples(
			"flisk down", "stop the project of this directory",
			"flisk -C bot down", "stop the one in ./bot",
			"flisk down --volumes", "remove its conversations, too, after a question",
		),
		Args: positional(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.dry {
				return a.interruptible(cmd.Context(), func(ctx context.Context) error {
					return runDry(ctx, a, dryOptions{op: runtime.OpDown, volumes: o.volumes})
				})
			}
			if o.volumes {
				if err := a.interruptible(cmd.Context(), func(ctx context.Context) error { return confirmRemoval(ctx, a) }); err != nil {
					return err
				}
			}
			progress := a.progress()
			return a.draining(cmd.Context(), progress, func(ctx context.Context) error {
				return runDown(ctx, a, o, progress)
			})
		},
	}
	cmd.Flags().BoolVar(&o.volumes, "volumes", false, "remove the conversations, too, for good")
	bindDryRun(cmd, &o.dry)
	return cmd
}

// runDown takes the end of ctx for force: a drain is not cut off by less.
func runDown(ctx context.Context, a *app, do downOptions, progress *console.Progress) error {
	o, err := a.look(ctx, ctx.Done())
	if err != nil {
		return err
	}
	steps := &recorder{Progress: progress}
	report, err := o.driver.Down(ctx, steps)
	if err != nil {
		return err
	}
	seeing := context.WithoutCancel(ctx)
	observed, err := o.driver.Observe(seeing)
	if err != nil {
		return err
	}
	result := DownJSON{
		Project: o.project.Name, Instance: a.global.instance, Changed: report.Changed, Volume: o.volumeOf(seeing, observed),
	}
	if do.volumes {
		if ctx.Err() != nil {
			return fault.New(fault.Interrupted, "", "stopped by force; no volume was removed")
		}
		going, err := o.removal(seeing)
		if err != nil {
			return err
		}
		result.Kept = going.kept
		if result.Removed, err = o.removeVolumes(ctx, steps); err != nil {
			return err
		}
		result.Changed = result.Changed || len(result.Removed) > 0
		result.Elsewhere = a.elsewhere(seeing, o)
	}
	result.Steps = steps.list()
	if a.global.json {
		return a.printJSON(result)
	}
	a.printDown(result, report.Changed)
	if v := result.Elsewhere; v != nil {
		other := otherThan(o.runtime)
		a.streams.Err.Note("note", console.Warn, fmt.Sprintf("there is a copy of its own on %s, with %s; to remove it, too: %s",
			runtimeWords(other), v.held(), a.command("down --volumes --runtime "+string(other))))
	}
	return nil
}

func (a *app) printDown(v DownJSON, stopped bool) {
	cell := console.Cell{Text: a.ofInstance(v.Project), Style: console.Strong}
	if !stopped {
		cell = console.Cell{Text: "nothing to do: nothing of " + a.ofInstance(v.Project) + " runs"}
	}
	if v.Changed && a.streams.Out.Terminal && a.streams.Err.Terminal {
		fmt.Fprintln(a.streams.Out) // between the steps and what they led to
	}
	fields := []console.Field{{Label: "stopped", Value: cell}}
	for _, kept := range v.Kept {
		fields = append(fields, console.Field{Label: "kept", Value: console.Cell{Text: "volume " + kept.Name + ": " + kept.Why, Style: console.Warn}})
	}
	if len(v.Removed)+len(v.Kept) == 0 {
		fields = append(fields, console.Field{Label: "kept", Value: console.Cell{Text: a.volumeLine(v.Volume)}})
	}
	for _, name := range v.Removed {
		text := "volume " + name
		if name == v.Volume.Name {
			text += ", with " + v.Volume.held()
		}
		fields = append(fields, console.Field{Label: "gone", Value: console.Cell{Text: text, Style: console.Warn}})
	}
	a.streams.Out.Fields(fields...)
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
	for seen := (stopSignals{}); ; {
		select {
		case <-over:
			return
		case sig := <-signals:
			a.freshLine()
			switch seen.count(sig, time.Now()) {
			case 1:
				progress.Note("draining", console.Warn, "turns in flight are finished first; Ctrl-C again kills them")
			case 2:
				progress.Note("forced", console.Bad, "killing what is left")
				force()
			}
		}
	}
}
