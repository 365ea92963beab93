package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime/process"
	"github.com/flisk-go/flisk/pkg/source"
	"github.com/flisk-go/flisk/pkg/verify"
)

// VerifyJSON is what "flisk verify --json" prints.
type VerifyJSON struct {
	Project string          `json:"project"`
	Verdict verify.Verdict  `json:"verdict"` // the worst of all agents: "held", "unchecked" or "broken"
	Turns   int             `json:"turns"`   // that were sent
	Agents  []verify.Report `json:"agents"`
	Millis  int64           `json:"millis"`
}

// CheckJSON is one element of what "flisk verify --list --json" prints.
type CheckJSON struct {
	Check   string `json:"check"`
	Promise string `json:"promise"`           // the guarantee
	How     string `json:"how,omitempty"`     // what is done to try it
	Skipped string `json:"skipped,omitempty"` // why nothing ever is
	Turns   int    `json:"turns"`             // that it sends to an agent, at most, unless something must be told from chance or tried again; all together send less than the sum
}

type verifyOptions struct {
	agent string
	only  []string
	list  bool
	junit string
	seed  uint64
}

// manyTurns is the number of turns above which somebody must want them: a turn
// may cost money.
const manyTurns = 50

func newVerify(a *app) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:     "verify",
		Short:   "prove that conversations survive",
		GroupID: groupRun,
		Long: "Run the project's agents in a stack of their own, kill and restart them in the middle of turns, and judge by " +
			"the checkpoints on the volume whether anything was lost, doubled, forked or torn. What runs of the project, and " +
			"its conversations, are not touched; nothing is left behind, and what a verification leaves that is killed by " +
			"SIGKILL, the next one takes away. It uses the runtime of the project: on Docker the agents are containers " +
			"behind Traefik, in a project of their own.\n\n" +
			"The inputs and the environment come from verify: in flisk.yaml; choose a model there that costs nothing. The " +
			"command says how many turns it will send, and asks when there are many. Where a session comes to something " +
			"else than one that was left in peace, it sends some more, to tell that from chance.\n\n" +
			"It exits with 0 when every guarantee held, 1 when one is broken, and 4 when nothing is broken but something " +
			"could not be checked. Evidence of what is broken is kept, and its seed draws the same lots again.",
		Example: examples(
			"flisk verify", "prove the project of this directory",
			"flisk verify --list", "what is checked, and how",
			"flisk verify --run crash --run drain", "only these two",
			"flisk verify --yes --junit report"+source.ReportSuffix, "for a CI system; a file of this name does not count as code",
		),
		Args: func(cmd *cobra.Command, args []string) error {
			isCheck := func(name string) bool { _, err := verify.Select([]string{name}); return err == nil }
			if len(args) > 0 && isCheck(args[0]) {
				return fault.New(fault.Usage, "name it with --run: "+a.command("verify --run "+args[0]), "%q is a check, and takes no argument", "flisk verify")
			}
			return positional(0)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, err := verify.Select(o.only)
			if err != nil {
				return unknownCheck(o.only)
			}
			if o.list {
				return a.printChecks(checks, len(o.only) == 0)
			}
			if !cmd.Flags().Changed("seed") {
				o.seed = rand.Uint64N(1 << 32)
			}
			return runVerify(cmd.Context(), a, o, checks)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.agent, "agent", "", "verify agent `NAME` only, where there are several")
	flags.StringSliceVar(&o.only, "run", nil, "do only the `CHECK` of this name; may be given again")
	flags.BoolVar(&o.list, "list", false, "list the checks and do none")
	flags.StringVar(&o.junit, "junit", "", "write the report to `FILE`, as JUnit XML")
	flags.Uint64Var(&o.seed, "seed", 0, "draw lots by seed `N`, as an earlier run did")
	return cmd
}

func unknownCheck(names []string) error {
	var known []string
	for _, c := range verify.Checks() {
		known = append(known, c.Name)
	}
	i := slices.IndexFunc(names, func(name string) bool { return !slices.Contains(known, name) })
	hint := "there are: " + strings.Join(known, ", ")
	if near := fault.Nearest(names[i], known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fault.New(fault.Usage, hint, "there is no check %q", names[i])
}

func runVerify(ctx context.Context, a *app, o verifyOptions, checks []verify.Check) error {
	opened, err := a.open(ctx, nil)
	if err != nil {
		return err
	}
	a.noteUnanswered(opened)
	if _, err := opened.engine(ctx); err != nil { // said once, before anything is made that it would keep from being removed
		return err
	}
	agents := opened.project.AgentNames()
	if o.agent != "" {
		if o.agent, err = opened.agent(o.agent); err != nil {
			return err
		}
		agents = []string{o.agent}
	}
	home, err := process.DefaultHome(a.getenv)
	if err != nil {
		return fault.New(fault.Environment, "set FLISK_HOME to a directory of yours", "there is no place to keep anything: %w", err)
	}
	if err := canWriteJUnit(o.junit); err != nil {
		return err
	}
	ctx, stop := a.untilSignal(ctx, func(os.Signal, chan<- os.Signal) {})
	defer stop()
	turns := verify.Turns(checks) * len(agents)
	show := a.newVerdicts(opened.project, checks, turns)
	if turns > manyTurns {
		err := a.confirm(ctx, fmt.Sprintf("send up to %d turns (they may cost something)?", turns), "no turn was sent")
		if err != nil && ctx.Err() != nil {
			return interrupted(ctx, err)
		}
		if err != nil {
			return err
		}
	}
	result, err := a.prover(ctx, a, proving{
		opened: opened, agents: agents, only: o.only, seed: o.seed, keep: filepath.Join(home, "verify"),
		progress: show.progress, agent: show.agent, begin: show.begin, left: show.left, ended: show.skipped,
	})
	if err != nil && ctx.Err() != nil {
		return withEvidence(interrupted(ctx, err), result)
	}
	if err != nil {
		return withEvidence(err, result)
	}
	if err := writeJUnit(o.junit, result.Agents); err != nil {
		return err
	}
	if a.global.json {
		if err := a.printJSON(result); err != nil {
			return err
		}
	} else {
		show.conclude(a, result)
		if file, err := filepath.Abs(o.junit); err == nil && o.junit != "" {
			a.noteCode(opened.project, file, source.ReportSuffix)
		}
	}
	switch result.Verdict {
	case verify.Broken:
		return &fault.Fault{Kind: fault.Failed} // all is said
	case verify.Unchecked:
		return &fault.Fault{Kind: fault.Unchecked}
	}
	return nil
}

// withEvidence adds to the error of a verification that did not come to its end
// where the evidence is of what it had found broken.
func withEvidence(err error, result VerifyJSON) error {
	var places []string
	for _, r := range result.Agents {
		if r.Kept != "" {
			places = append(places, r.Kept)
		}
	}
	if len(places) == 0 {
		return err
	}
	f := *asFault(err)
	evidence := "something was broken already; the evidence is kept in " + strings.Join(places, " and ")
	if f.Hint != "" {
		evidence = f.Hint + "; " + evidence
	}
	f.Hint = evidence
	return &f
}

// proving is what is to be proved, and who is told.
type proving struct {
	opened   *opened
	agents   []string
	only     []string
	seed     uint64
	keep     string // evidence goes below this directory
	progress *console.Progress

	agent func(name string, of int) // before the first check of each
	begin func(verify.Check) (end func(verify.Result))
	left  func()              // after a check that was begun and is not ended
	ended func(verify.Report) // after the last check of each
}

// prove verifies one agent after another in a stack of their own, and ends that
// whatever happens: its end is short, and ctx does not cut it off.
func prove(ctx context.Context, a *app, p proving) (VerifyJSON, error) {
	started := time.Now()
	result := VerifyJSON{Project: p.opened.project.Name, Agents: []verify.Report{}}
	inputs, err := inputsOf(p.opened.project)
	if err != nil {
		return result, err
	}
	a.clearRooms(ctx, p.opened.runtime, p.progress)
	stack, err := a.newProof(p.opened, p.progress)
	if err != nil {
		return result, err
	}
	var verdicts []verify.Verdict
	for _, agent := range p.agents {
		p.agent(agent, len(p.agents))
		report, failed := verify.Run(ctx, provenAgent{stack, agent}, verify.Options{
			Agent: agent, Nonce: stack.stack.Verify, Inputs: inputs, Only: p.only, Seed: p.seed, Keep: p.keep, Begin: p.begin,
			TurnTimeout: stack.turnTimeout(agent),
		})
		result.Turns += report.Turns
		if err = failed; err != nil {
			p.left()
			if report.Kept != "" {
				result.Agents = append(result.Agents, report)
			}
			break
		}
		p.ended(report)
		result.Agents = append(result.Agents, report)
		verdicts = append(verdicts, report.Verdict)
	}
	done := p.progress.Wait("ending the stack")
	// What is broken may not drain either.
	force := err != nil || slices.Contains(verdicts, verify.Broken)
	err = errors.Join(err, stack.end(context.WithoutCancel(ctx), force))
	done()
	result.Verdict, result.Millis = verify.Worst(verdicts...), time.Since(started).Milliseconds()
	return result, err
}

// inputsOf are the inputs of verify: as an agent gets them.
func inputsOf(p *project.Project) ([]json.RawMessage, error) {
	var inputs []json.RawMessage
	for _, text := range p.Verify.Inputs {
		raw, err := encodeCompact(text)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, raw)
	}
	return inputs, nil
}

// encodeCompact is a value as the contract writes it: no spaces, no escapes that
// need not be.
func encodeCompact(v any) (json.RawMessage, error) {
	var out strings.Builder
	err := encode(&out, v, "")
	return json.RawMessage(strings.TrimSuffix(out.String(), "\n")), err
}

// canWriteJUnit finds out before the first turn whether the report can be
// written, and leaves everything as it was.
func canWriteJUnit(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil // whoever reads a pipe would take this for the report
	}
	_, missing := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		err = f.Close()
		if errors.Is(missing, os.ErrNotExist) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if err != nil {
		return fault.New(fault.Usage, "name a file in a directory that is there and yours", "cannot write the JUnit report, so no turn was sent: %w", err)
	}
	return nil
}

func writeJUnit(path string, reports []verify.Report) error {
	if path == "" {
		return nil
	}
	var out strings.Builder
	if err := verify.WriteJUnit(&out, reports); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
		return fault.New(fault.Failed, "", "cannot write the JUnit report: %w", err)
	}
	return nil
}

// printChecks lists what is checked, and with never what is not.
func (a *app) printChecks(checks []verify.Check, never bool) error {
	list := []CheckJSON{}
	for _, c := range checks {
		list = append(list, CheckJSON{Check: c.Name, Promise: c.Promise, How: c.How, Turns: c.Most()})
	}
	if never {
		for _, r := range verify.NeverChecked() {
			list = append(list, CheckJSON{Check: r.Check, Promise: r.Promise, Skipped: r.Reason})
		}
	}
	if a.global.json {
		return a.printJSON(list)
	}
	name, turns := 0, len("turns")
	for _, c := range list {
		name = max(name, console.Width(c.Check))
	}
	out := a.streams.Out
	indent := strings.Repeat(" ", name+turns+2*columnGap)
	fold := func(text string) string { return console.Fold(text, out.Columns(), indent) }
	fmt.Fprintln(out, console.Quiet.Render(pad("check", name)+pad("turns", turns)+"guarantee, and how it is tried"))
	for _, c := range list {
		number, how := fmt.Sprint(c.Turns), c.How
		if c.Skipped != "" {
			number, how = "-", "not tried: "+c.Skipped
		}
		fmt.Fprintln(out, console.Strong.Render(pad(c.Check, name))+fmt.Sprintf("%*s%*s", turns, number, columnGap, "")+fold(c.Promise))
		fmt.Fprintln(out, indent+console.Quiet.Render(fold(how)))
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out, console.Quiet.Render(console.Fold(fmt.Sprintf("together up to %s: the undisturbed session that some are compared with is the same for all; and up to %d more when something differs from it, which may be by chance, or is tried again",
		console.Count(verify.Turns(checks), "turn"), verify.SpareTurns), out.Columns(), "")))
	return nil
}
