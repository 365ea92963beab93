package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flisk-go/flisk/pkg/checkpoint"
)

// An agent may come to another state or other messages whenever it runs: a
// model's words, a clock, a coin. Two sessions that differ show nothing then,
// and neither do two that are alike by chance. So a difference counts only when
// it comes back: with n undisturbed sessions that are all alike, and n disturbed
// ones of which none is like them.
//
// Let an agent that is not disturbed by anything leave the value x with
// probability p(x). It looks broken with probability Σ p(x)ⁿ·(1-p(x))ⁿ, which for
// two values is most, 2·(1/4)ⁿ, when they are equally probable: 1 in 8192 for
// n = 7. For any number of values it is at most the greatest value of
// pⁿ⁻¹·(1-p)ⁿ: 1 in 7877. A run compares five times, so a coin makes it red less
// than once in 1000 runs.
const (
	rounds = 6      // n-1: in each both kinds of session are made once more
	odds   = "7000" // against chance, after all of them
)

// SpareTurns is how many turns a run sends at most to tell differences from
// chance, and to try again what came to nothing. It is enough for one difference in any check, and for all others once
// that is told: an agent that is known to be broken may be called so with less
// care.
const SpareTurns = 84

// sample is a session as it is at its end, and as it was one turn earlier where
// somebody asks for that.
type sample struct {
	ledger       *ledger
	view, before checkpoint.View
}

// pairs are sessions that got the same inputs, at the same turn: undisturbed
// ones and disturbed ones.
type pairs struct{ calm, upset []sample }

// alike reports whether the undisturbed sessions are all the same in something.
func (p pairs) alike(of func(sample) string) bool {
	return !slices.ContainsFunc(p.calm, func(s sample) bool { return of(s) != of(p.calm[0]) })
}

// differ reports whether the undisturbed sessions are all the same in something,
// and every disturbed one is different.
func (p pairs) differ(of func(sample) string) bool {
	same := func(s sample) bool { return of(s) == of(p.calm[0]) }
	return p.alike(of) && !slices.ContainsFunc(p.upset, same)
}

// why says of something in which they do not differ that way why it shows
// nothing that some do.
func (p pairs) why(of func(sample) string, by string) string {
	if !p.alike(of) {
		return fmt.Sprintf("it differs already between two sessions without %s", by)
	}
	return fmt.Sprintf("it differed in one session after %s and not in the next one", by)
}

// lack is what all the undisturbed sessions have among their messages and none
// of the disturbed ones has; "" when there is nothing.
func (p pairs) lack() string {
	lacks := func(s sample, part int) bool {
		return slices.Contains(gone(s.view.Messages, said(s.ledger, s.view)), part)
	}
	for _, part := range gone(p.upset[0].view.Messages, said(p.upset[0].ledger, p.upset[0].view)) {
		has := func(s sample) bool { return !lacks(s, part) }
		if !slices.ContainsFunc(p.upset, has) && !slices.ContainsFunc(p.calm, func(s sample) bool { return lacks(s, part) }) {
			return fmt.Sprintf("the %s of turn %d is not among its messages", []string{"input", "reply"}[part%2], part/2+1)
		}
	}
	return ""
}

// repeat adds to p until open reports that nothing is left to be told from
// chance, or all rounds are done. Which kind of session is made first is drawn by
// lot, so that what changes with time does so for both; at first it is an
// undisturbed one, which tells of most chances, and costs least.
func (s *scene) repeat(ctx context.Context, p *pairs, calm func(ctx context.Context, round int) (sample, error), upset func(context.Context) (sample, error), open func() bool) error {
	most := rounds
	if s.proven {
		most = 1
	}
	turns := p.upset[0].view.Turn
	add := func(to *[]sample, made sample, err error) error {
		if err == nil && made.view.Turn != turns {
			err = fmt.Errorf("what differs could not be told from chance: the session came to turn %d, and the one before it to turn %d", made.view.Turn, turns)
		}
		*to = append(*to, made)
		return err
	}
	one := func(undisturbed bool, round int) error {
		if undisturbed {
			made, err := calm(ctx, round)
			return add(&p.calm, made, err)
		}
		made, err := upset(ctx)
		return add(&p.upset, made, err)
	}
	for round := range most {
		if !open() {
			return nil
		}
		if err := s.allow(s.Again); err != nil {
			return fmt.Errorf("it differs from an undisturbed session, and whether by chance is open: %w", err)
		}
		calmFirst := round == 0 || s.lot.IntN(2) == 0
		if err := one(calmFirst, round); err != nil {
			return err
		}
		if !open() {
			return nil
		}
		if err := one(!calmFirst, round); err != nil {
			return err
		}
	}
	return nil
}

// allow makes a check send more turns than it says, while there are any to spare.
func (s *scene) allow(turns int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare < turns {
		return errors.New("the turns that there are to spare are used up; let this check run alone")
	}
	s.spare -= turns
	s.Turns += turns
	return nil
}

// repeated says that something is broken by a difference that came back, and how
// sure that is.
func (s *scene) repeated(kind Kind, p pairs, format string, args ...any) error {
	sure := fmt.Sprintf(" (in %d of %d such sessions, and in none of %d others", len(p.upset), len(p.upset), len(p.calm))
	if len(p.calm) > rounds && len(p.upset) > rounds {
		sure += ": chance does that less than once in " + odds + " times"
	}
	s.proven = true
	return s.broke(kind, p.upset[0].ledger, "%s", fmt.Sprintf(format, args...)+sure+")")
}
