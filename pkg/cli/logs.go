package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// LogsJSON is what "flisk logs --json" prints.
type LogsJSON struct {
	Lines []LogLineJSON `json:"lines"`
}

// LogLineJSON is one line of an agent's output. "flisk logs -f --json" prints
// one of these a line: what has no end cannot be one value.
type LogLineJSON struct {
	Time    time.Time `json:"time"`
	Replica string    `json:"replica"`
	Text    string    `json:"text"`
}

type logsOptions struct {
	agent  string
	tail   int
	follow bool
}

func newLogs(a *app) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:     "logs [AGENT]",
		Short:   "show what the agents print",
		GroupID: groupLook,
		Long: "Show the last lines that the agents printed, also when nothing runs. Those of other services are the engine's: docker logs. On a terminal, times are " +
			"the local ones; a pipe or a file gets full times, in UTC as from docker logs. Neither gets control characters: the bytes as they were written are in --json.\n\n" +
			"What flisk says among an agent's lines begins with [flisk]: that it ended by itself, say. On Docker only a follow says so. Docker reads what an agent writes to its two " +
			"outputs apart: lines that were written to both within the same moment may have changed places.",
		Example: examples(
			"flisk logs", "the last lines of every agent",
			"flisk logs -f bot", "follow one agent; Ctrl-C ends it",
			"flisk logs -n -1 > bot.log", "everything that is kept",
		),
		Args: positional(0, "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.agent = args[0]
			}
			if o.tail < -1 {
				return usageFault(cmd, "--lines cannot be %d: 0 or more, or -1 for all that is kept", o.tail)
			}
			return a.interruptible(cmd.Context(), func(ctx context.Context) error { return runLogs(ctx, a, o) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on as lines appear")
	flags.IntVarP(&o.tail, "lines", "n", 100, "begin with the last `N` lines; -1 is all that is kept")
	return cmd
}

func runLogs(ctx context.Context, a *app, o logsOptions) error {
	p, err := a.look(ctx, nil)
	if err != nil {
		return err
	}
	if o.agent != "" && !p.partly { // else the driver knows better
		agent, err := p.agent(o.agent)
		if err != nil {
			return cmp.Or(p.isService(ctx, o.agent), err)
		}
		o.agent = agent
	}
	collected := LogsJSON{Lines: []LogLineJSON{}}
	emit := func(l runtime.Line) error {
		switch {
		case !a.global.json:
			a.printLogLine(l)
		case o.follow:
			if err := encode(a.streams.Out.Raw(), LogLineJSON(l), ""); err != nil {
				return err
			}
		default:
			collected.Lines = append(collected.Lines, LogLineJSON(l))
		}
		return a.streams.Out.Failed()
	}
	err = p.driver.Logs(ctx, runtime.LogOptions{Agent: o.agent, Tail: o.tail, Follow: o.follow}, emit)
	if o.follow && ctx.Err() != nil {
		return &fault.Fault{Kind: fault.Interrupted} // the ordinary end, nothing to say
	}
	if err == nil && a.global.json && !o.follow {
		return a.printJSON(collected)
	}
	return err
}

// isService says of a name that it is a service's, whose log flisk does not keep;
// nil when it is none.
func (o *opened) isService(ctx context.Context, name string) error {
	observed, err := o.driver.Observe(ctx)
	if err != nil || !slices.ContainsFunc(observed.Services, func(s runtime.Service) bool { return s.Name == name }) {
		return nil
	}
	hint := "ask the engine"
	if driver, ok := o.driver.(onEngine); ok {
		hint = "docker logs " + driver.ServiceContainer(name)
	}
	return fault.New(fault.Usage, hint, "%q is a service, and flisk shows what agents print", name)
}

// stampLayout is RFC 3339 in one width, so that columns stay columns.
const stampLayout = "2006-01-02T15:04:05.000Z07:00"

// printLogLine prints the time and the replica before a line. Who pipes the
// lines on gets full times and whole lines, and no escape sequences either: what
// the pipe leads to is often a terminal. The bytes as written are in --json.
func (a *app) printLogLine(l runtime.Line) {
	out := a.streams.Out
	if !out.ForPeople() {
		_, _ = fmt.Fprintf(out.Raw(), "%s %s %s\n", l.Time.UTC().Format(stampLayout), l.Replica, console.Text(l.Text)) // Failed tells
		return
	}
	stamp, replica := l.Time.Local().Format("15:04:05"), console.Line(l.Replica)
	indent := strings.Repeat(" ", len(stamp)+len(replica)+3)
	fmt.Fprintln(out, console.Quiet.Render(stamp)+" "+console.Accent.Render(replica)+"  "+
		console.Fold(console.Line(strings.ReplaceAll(l.Text, "\t", "    ")), out.Columns(), indent))
}
