// Package verify is the prover. It runs an agent in a stack of its own, kills
// and restarts it, and judges by the checkpoints on the volume whether its
// conversations survived.
//
// [Run] is the whole of it: it does the checks of [Checks] against a [Target],
// which is the stack, and returns a [Report]. The package knows neither how a
// stack is run nor how a report is shown, apart from JSON and JUnit.
//
// # What a verdict rests on
//
// A check keeps a ledger of what a client knows: which turns it sent, under
// which key, and which of them were answered. A checkpoint must hold exactly the
// answered turns, and of the others each whole and once or not at all. What an
// agent replied is shown and never judged: it may come from a model.
//
// Nothing is taken on trust. A kill counts when the old process ended by signal
// 9, another one took its place, and the client of the turn in it saw its
// connection end. A hold counts when the agent logged it. A check that could not
// make sure of its own means says so, instead of passing.
package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// Options configure a verification. Agent, Nonce and Inputs are required.
type Options struct {
	Agent  string
	Nonce  string            // what the agent's FLISK_VERIFY says
	Inputs []json.RawMessage // compact JSON; used in turn, again and again
	Only   []string          // names of checks; none is all, and then the report also names what is never checked
	Seed   uint64            // of everything that is drawn by lot

	// Hold is how long a drain must wait for a turn; 0 is 3 s, and it is no more
	// than half of TurnTimeout, after which nobody waits behind it. Drain is the
	// agent's budget for it, and must be longer; 0 is 20 s.
	Hold, Drain time.Duration

	// TurnTimeout is how long the agent lets a turn run; 0 is the default of
	// [turn.Env].
	TurnTimeout time.Duration

	// Keep is the directory below which evidence of what is broken is kept. With
	// "" nothing is.
	Keep string

	// Begin, if not nil, is told of each check before it runs; the function that
	// it returns is told of the result.
	Begin func(Check) (end func(Result))
}

// Defaults of Options.
const (
	DefaultHold  = 3 * time.Second
	DefaultDrain = 20 * time.Second
)

// ErrNoCheck says that Options.Only names a check that there is none of.
var ErrNoCheck = errors.New("no such check")

// Select returns the checks with the given names, in the order in which they
// run; all of them when there is no name. The error wraps [ErrNoCheck].
func Select(names []string) ([]Check, error) {
	all := Checks()
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("%w: %q", ErrNoCheck, name)
		}
	}
	return slices.DeleteFunc(all, func(c Check) bool {
		return len(names) > 0 && !slices.Contains(names, c.Name)
	}), nil
}

// Turns is how many turns the checks send together, at most, as long as no
// session differs from an undisturbed one; to tell such a difference from chance,
// and to try again, Run sends up to [SpareTurns] more. It is less than the sum of [Check.Most]: the
// undisturbed session is that of all checks. A turn that was answered, and is sent
// again as load, is none: the agent's code does not run for it. Where it does, the
// load ends.
func Turns(checks []Check) int {
	n := longest(checks)
	for _, c := range checks {
		n += c.Turns
	}
	return n
}

// longest is how many turns the undisturbed session needs for all of the checks.
func longest(checks []Check) int {
	n := 0
	for _, c := range checks {
		n = max(n, c.Undisturbed)
	}
	return n
}

// Run brings the target up, does the checks one after another, and returns what
// they came to. It leaves the target as it is: ending it is up to the caller.
//
// What a check found is in the report and never an error. The error says that
// there is no verdict: [ErrNoCheck], what Target.Up said, or the cause of ctx.
// The report then holds the checks that ended before, and where the evidence is
// when one of them is broken.
func Run(ctx context.Context, target Target, o Options) (Report, error) {
	o.Hold, o.Drain = cmp.Or(o.Hold, DefaultHold), cmp.Or(o.Drain, DefaultDrain)
	o.TurnTimeout = cmp.Or(o.TurnTimeout, turn.DefaultEnv().TurnTimeout)
	o.Hold = min(o.Hold, o.TurnTimeout/2)
	checks, err := Select(o.Only)
	if err != nil {
		return Report{}, err
	}
	if len(o.Inputs) == 0 || o.Agent == "" || o.Nonce == "" {
		return Report{}, errors.New("verify: Agent, Nonce and Inputs are required")
	}
	started := time.Now()
	r := &run{
		Options: o, target: target, lot: rand.New(rand.NewPCG(o.Seed, 0)), client: newClient(o.Agent),
		longest: longest(checks), spare: SpareTurns,
	}
	report := Report{Agent: o.Agent, Seed: o.Seed}
	if err := target.Up(ctx); err != nil {
		return report, interruptedOr(ctx, err)
	}
	for _, c := range checks {
		end := func(Result) {}
		if o.Begin != nil {
			end = o.Begin(c)
		}
		result := r.check(ctx, c)
		if ctx.Err() != nil && result.Verdict != Broken {
			err = context.Cause(ctx)
			break
		}
		end(result)
		report.Checks = append(report.Checks, result)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && len(o.Only) == 0 {
		report.Checks = append(report.Checks, NeverChecked()...)
	}
	report.conclude(r, time.Since(started))
	if report.Verdict == Broken && o.Keep != "" {
		// Evidence is kept, and told of, also when somebody stops the run right now.
		report.Kept, report.KeptError = keep(context.WithoutCancel(ctx), target, o, report)
	}
	return report, err
}

func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// run is one verification.
type run struct {
	Options
	target Target
	client *client
	lot    *rand.Rand // used by the goroutine of Run only
	sent   int

	longest int   // turns of the undisturbed session
	calm    *twin // it, once it is made
	spare   int   // turns that are left to tell a difference from chance
	proven  bool  // one was told from chance
}

// input is that of a turn, counted from 1. It is the same in every session, so
// that what two sessions hold can be compared.
func (r *run) input(turn int) json.RawMessage { return r.Inputs[(turn-1)%len(r.Inputs)] }

// name makes a session id or a turn key that nobody else uses.
func (r *run) name(what string) string {
	return fmt.Sprintf("verify-%s-%08x", what, r.lot.Uint32())
}
