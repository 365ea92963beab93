package agent

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/turn"
)

// A volume that no other program can reach is changed by the agent's own: flisk
// runs it with these arguments where the volume is mounted. The volume and the
// agent are those of the environment.
//
//	sessions import [--agent NAME] [--agents A,B] [--skip-existing] [FILE]
//	    reads an export, without FILE on stdin, and prints a [checkpoint.ImportReport]
//	sessions rm [--agent NAME] SESSION…
//	    prints a [checkpoint.RemovalReport]
//	volume move FROM TO
//	    renames a file of the volume; for a verification only, which has a nonce
//
// The first two print their JSON also when they fail; what is wrong goes to stderr.
// Agents may serve meanwhile: sessions are locked as for a turn.

// command runs what the arguments say instead of serving.
func (p process) command(env turn.Env) int {
	switch {
	case len(p.args) == 1 && p.args[0] == "health":
		if err := askHealth(env); err != nil {
			p.complain(err)
			return exitFail
		}
		return exitDone
	case len(p.args) > 1 && p.args[0] == "sessions" && p.args[1] == "import":
		return p.importSessions(env, p.args[2:])
	case len(p.args) > 1 && p.args[0] == "sessions" && p.args[1] == "rm":
		return p.removeSessions(env, p.args[2:])
	case len(p.args) == 4 && p.args[0] == "volume" && p.args[1] == "move" && env.Verify != "":
		return p.moveFile(env, p.args[2], p.args[3])
	}
	p.complain(fmt.Errorf("an agent does not know the arguments %q: none serves, health asks the one that does", p.args))
	return exitUsage
}

// flags are those of a command, with an error instead of an exit.
func (p process) flags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(p.stderr)
	return f
}

func (p process) importSessions(env turn.Env, args []string) int {
	o := checkpoint.ImportOptions{Store: storeOptions(env, newLog(p.stderr, env.Runtime))}
	flags := p.flags("sessions import")
	flags.StringVar(&o.Agent, "agent", "", "give all of it to agent `NAME`")
	agents := flags.String("agents", env.Agent, "the `NAMES` of agents that may get sessions, beside those that have some")
	flags.BoolVar(&o.Skip, "skip-existing", false, "leave out the sessions whose ids are taken")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	if flags.NArg() > 1 {
		p.complain(fmt.Errorf("sessions import takes one file, and no %q", flags.Arg(1)))
		return exitUsage
	}
	o.Agents = strings.Split(*agents, ",")
	for _, name := range append([]string{o.Agent}, o.Agents...) {
		if name != "" && !turn.ValidAgent(name) {
			p.complain(fmt.Errorf("there cannot be an agent %q", name))
			return exitUsage
		}
	}
	from, size, err := p.export(flags.Arg(0))
	if err != nil {
		p.complain(err)
		return exitEnv
	}
	defer from.Close()
	ctx, stop := untilSignal()
	defer stop()
	x, err := checkpoint.OpenExport(ctx, from, size)
	if err != nil {
		p.complain(err)
		return exitCode(err)
	}
	report, err := checkpoint.ImportAll(ctx, env.Data, x, o)
	return p.answer(report, err)
}

// untilSignal is the context of a command that must tell what it has done. Before
// there is anything to tell, a signal just ends the process.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}

func (p process) removeSessions(env turn.Env, args []string) int {
	flags := p.flags("sessions rm")
	agent := flags.String("agent", env.Agent, "those of agent `NAME`")
	if flags.Parse(args) != nil {
		return exitUsage
	}
	if flags.NArg() == 0 || !turn.ValidAgent(*agent) {
		p.complain(errors.New("sessions rm needs an agent and the ids of its sessions"))
		return exitUsage
	}
	o := storeOptions(env, newLog(p.stderr, env.Runtime))
	o.Agent = *agent
	ctx, stop := untilSignal()
	defer stop()
	report, err := checkpoint.RemoveAll(ctx, env.Data, flags.Args(), o)
	return p.answer(report, err)
}

// moveFile is how a verification takes the file of a session away.
func (p process) moveFile(env turn.Env, from, to string) int {
	root, err := durable.OpenRoot(env.Data)
	if err != nil {
		p.complain(err)
		return exitEnv
	}
	if err := errors.Join(root.Rename(durable.OpVerifyMove, from, to), root.Close()); err != nil {
		p.complain(err)
		return exitFail
	}
	return exitDone
}

// answer prints what a command did, and returns its exit code.
func (p process) answer(report any, err error) int {
	if printed := json.NewEncoder(p.stdout).Encode(report); printed != nil && err == nil {
		err = fmt.Errorf("cannot say what was done: %w", printed)
	}
	if err != nil {
		p.complain(err)
	}
	return exitCode(err)
}

// exitCode is the exit code of a command that ended with err.
func exitCode(err error) int {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case err == nil:
		return exitDone
	case is(checkpoint.ErrNotExport, checkpoint.ErrUnknownAgent, turn.ErrSessionID):
		return exitUsage
	case is(checkpoint.ErrNoSpace, checkpoint.ErrReadOnly, checkpoint.ErrNotVolume, checkpoint.ErrOtherVolume):
		return exitEnv
	}
	return exitFail
}
