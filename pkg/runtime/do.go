package runtime

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Event is what a driver says of the plan that it does: the plan as a whole
// before its first step, then each group of neighbouring steps of one action,
// when it begins and when it ends.
type Event struct {
	Plan  Plan   // as a whole, when Steps is nil
	Steps []Step // at least one
	Ended bool
	Took  time.Duration // when it ended
	Err   error         // when it ended
}

// Do calls group with the steps of the plan in order, neighbours of one action
// together, and ends with the first error. told hears of it, from the same
// goroutine; it may be nil.
func (p Plan) Do(told func(Event), group func(steps []Step) error) error {
	if told == nil {
		told = func(Event) {}
	}
	told(Event{Plan: p})
	for len(p) > 0 {
		n := 1
		for n < len(p) && p[n].Do == p[0].Do {
			n++
		}
		told(Event{Steps: p[:n]})
		began := time.Now()
		err := group(p[:n])
		told(Event{Steps: p[:n], Ended: true, Took: time.Since(began), Err: err})
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Leave is the plan without the stops at its end, which nothing waits for, and
// the generations that they are about. A plan that stops services behind them
// keeps them: what is being stopped may need those.
func (p Plan) Leave() (Plan, []Ref) {
	end := len(p)
	for end > 0 && p[end-1].Do == Stop {
		end--
	}
	var left []Ref
	for _, s := range p[end:] {
		left = append(left, s.Ref())
	}
	return p[:end], left
}

// Unsettled is the name of what was built while its source changed. No source has
// it, so what runs under it is never taken for what a source would give.
func Unsettled(code string) string { return code + "-unsettled-" + strings.ToLower(rand.Text()[:8]) }

// BuildAll does the build steps of several agents, one after the other, also when
// one does not build: its error is about all of them. Building the later ones
// takes its time, and so check looks at all of them again before anything is
// started from them.
func BuildAll(steps []Step, build, check func(Step) error) error {
	var failed []*fault.Fault
	for _, s := range steps {
		err := build(s)
		f, own := errors.AsType[*fault.Fault](err)
		switch {
		case err == nil:
		case own && len(f.Agents) > 0:
			failed = append(failed, f)
		case len(failed) > 0: // there is something to mend already
			return brokenBuilds(failed)
		default:
			return err
		}
	}
	if len(failed) > 0 {
		return brokenBuilds(failed)
	}
	if len(steps) == 1 {
		return nil
	}
	for _, s := range steps {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

// brokenBuilds is what several agents have that do not build, as one error.
func brokenBuilds(failed []*fault.Fault) error {
	if len(failed) == 1 {
		return failed[0]
	}
	all := *failed[0]
	var details []string
	var errs []error
	all.Agents = nil
	for _, f := range failed {
		all.Agents = append(all.Agents, f.Agents...)
		details, errs = append(details, f.Detail), append(errs, f.Err)
	}
	all.Message = fmt.Sprintf("%d agents do not build: %s", len(all.Agents), strings.Join(all.Agents, ", "))
	all.Detail, all.Err = strings.Join(details, "\n"), errors.Join(errs...)
	return &all
}

// Together does all steps at once and returns the error of the first of them
// that has one.
func Together(steps []Step, do func(Step) error) error {
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	for i, s := range steps {
		all.Go(func() { errs[i] = do(s) })
	}
	all.Wait()
	return cmp.Or(errs...)
}
