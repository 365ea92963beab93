// Package cli is the flisk command: the cobra tree, one file a command, each a
// constructor, an options struct and a run function. A command turns its flags
// into options and calls one other package; what it says goes through
// pkg/console, and errors become a message, a hint and an exit code in one place
// (exit.go).
//
// [Run] is the whole of it. It is what cmd/flisk calls and what the scripts in
// testdata/script run.
package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Run runs one command line (without the program's name) and returns its exit
// code. environ is the environment as "NAME=value". Nothing below it exits the
// process.
func Run(ctx context.Context, args []string, streams *console.Streams, environ []string) int {
	defer catchBrokenPipes()()
	a := &app{streams: streams, environ: environ}
	a.newDriver, a.askEngine, a.prover = driverOf, askEngine, prove
	return a.run(ctx, args)
}

// run is Run on an app whose dependencies are set.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	if asksForCompletion(args) {
		plainUsages(root)
	}
	root.SetArgs(append([]string{}, args...)) // cobra takes os.Args for nil
	err := root.ExecuteContext(ctx)
	if a.readerGone(err) {
		return exitReaderGone
	}
	if err == nil {
		err = written(a.streams)
	}
	if err == nil {
		return 0
	}
	return a.report(err, a.global.json || asksForJSON(args))
}

// app is what the commands of one run share.
type app struct {
	streams *console.Streams
	environ []string
	global  globals
	looks   bool // the command is about what there is: on another runtime it would be about nothing

	// newDriver makes the driver of a project on a runtime; closing force ends a
	// wait for a drain.
	newDriver func(a *app, on project.Runtime, p *project.Project, force <-chan struct{}) (runtime.Driver, error)

	// askEngine reports whether there is a Docker engine to use; of one that was to
	// be expected and does not answer, unanswered says which.
	askEngine func(ctx context.Context, a *app, p *project.Project) (answers bool, unanswered string)

	// odd, if not nil, takes what warn is given, in place of stderr.
	odd func(text string)

	// loop, if not nil, is the dev loop that drivers are made for.
	loop *driverLoop

	// owner, if not nil, is the read end of a pipe with whose other end every stack
	// ends that is started.
	owner *os.File

	// prover verifies a project; see prove.
	prover func(ctx context.Context, a *app, p proving) (VerifyJSON, error)
}

// progress tells what goes on, on stderr; with --json nobody listens.
func (a *app) progress() *console.Progress {
	if a.global.json {
		return console.Silent()
	}
	return console.NewProgress(a.streams.Err, "")
}

var _ runtime.Progress = (*console.Progress)(nil)

// getenv returns a variable of the environment, or "".
func (a *app) getenv(name string) string {
	value := ""
	for _, entry := range a.environ {
		if k, v, _ := strings.Cut(entry, "="); k == name {
			value = v
		}
	}
	return value
}

// newRoot builds the tree.
func newRoot(a *app) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "flisk",
		Short: "Agents whose conversations survive",
		Long: "flisk scaffolds an agent, runs it behind a gateway, and keeps every conversation: a turn that was " +
			"answered is still there after a restart, a crash or a new version.",
		Example: examples(
			"flisk demo", "see it: the whole story in under a minute",
			"flisk init bot", "begin: a new agent in ./bot",
			"flisk -C bot dev", "run it, and reload it at every save",
			`flisk -C bot turn "hello" -s s1`, "talk to it, from another terminal",
		),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version && len(args) == 0 {
				return runVersion(a, thisVersion())
			}
			return group(a, cmd, args)
		},
	}
	root.SetOut(a.streams.Out.Raw()) // completion scripts
	root.SetErr(a.streams.Err)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.help(cmd) })
	root.SetFlagErrorFunc(flagFault)
	help := newHelp(a)
	a.completeNames(help)
	root.SetHelpCommand(help)
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "RUN"},
		&cobra.Group{ID: groupTalk, Title: "TALK"},
		&cobra.Group{ID: groupLook, Title: "LOOK"},
		&cobra.Group{ID: groupMore, Title: "MORE"},
	)
	root.SetHelpCommandGroupID(groupMore)
	root.SetCompletionCommandGroupID(groupMore)
	root.Flags().BoolVar(&version, "version", false, "the same as flisk version")
	a.global.bind(root.PersistentFlags())
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := refuseJSON(cmd); err != nil { // before the environment: that is for all commands
			return err
		}
		return a.global.fromEnvironment(root.PersistentFlags(), a.getenv)
	}
	root.AddCommand(
		newDemo(a), newInit(a), newUp(a), newDown(a), newRestart(a), newKill(a), newDev(a), newVerify(a), newStatus(a), newLogs(a),
		newTurn(a), newChat(a), newSessions(a),
		newDoctor(a), newConfig(a), newVersion(a), newSupervise(),
	)
	a.describeCompletion(root)
	a.completeNames(root)
	return root
}

// The groups of the command list.
const (
	groupRun  = "run"
	groupTalk = "talk"
	groupLook = "look"
	groupMore = "more"
)

// group is the run function of a command that only holds others: alone it shows
// its help, with anything else the word is unknown.
func group(a *app, cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		a.help(cmd)
		return nil
	}
	return unknownCommand(cmd, args[0])
}
