package dev

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// missedLooks is how many looks in a row must miss something before it is
// brought back: another command may be in the middle of its work.
const missedLooks = 3

// restedLooks in a row find everything where it should be before something that is
// missed then is another matter.
const restedLooks = 5

// maxDoublings bounds how long something is left alone that was brought back again
// and again.
const maxDoublings = 5

// health is what the looks at a stack found.
type health struct {
	lost   error            // told
	missed int              // looks in a row
	fine   int              // looks in a row
	what   string           // was missed last
	backs  int              // how often that was brought back, and missed again soon
	empty  int              // looks in a row that found nothing at all
	again  <-chan time.Time // the next one, sooner than usual; nil for none
}

// emptyPause is that between looks that find nothing: whoever moves a gateway or
// replaces everything is done soon.
const emptyPause = 500 * time.Millisecond

// up notes that everything runs, by a reload's own looks.
func (h *health) up(reload int, tell func(Event)) {
	h.missed = 0
	if h.lost == nil {
		return
	}
	h.backs++
	h.lost = nil
	tell(Event{Kind: Back, Reload: reload})
}

// rest notes that everything is where it should be.
func (h *health) rest() {
	h.missed = 0
	if h.fine++; h.fine >= restedLooks {
		h.what, h.backs = "", 0
	}
}

// enough reports whether something was missed often enough to be brought back: so
// many looks in a row, and twice as many each time when that did not help before.
// What an up cannot mend for good would be told of for ever otherwise.
func (h *health) enough(what string, looks int) bool {
	h.missed++
	h.fine = 0
	if what != h.what && h.lost == nil {
		h.what, h.backs = what, 0
	}
	return h.missed >= looks<<min(max(h.backs-1, 0), maxDoublings)
}

// look finds out whether what should run does, and has it brought back. Its
// error ends the loop.
func (l *loop) look(ctx context.Context) error {
	l.health.again = nil
	if l.running.Driver == nil {
		return nil
	}
	looking, done := l.untilSaved(ctx)
	seen, err := l.running.Driver.Observe(looking)
	given := looking.Err() != nil
	done()
	switch {
	case given:
		return nil
	case err != nil:
		l.lose(err, nil)
		return nil
	case !seen.Running && len(seen.Stale) == 0:
		if l.health.empty++; l.health.empty == missedLooks {
			return runtime.ErrStopped
		}
		l.health.again = time.After(emptyPause)
		return nil
	}
	l.health.empty = 0
	if len(seen.Stale) == 0 && seen.Gateway != "" {
		l.notice(ctx, seen)
	}
	gone, why := l.gone(seen)
	switch {
	case len(seen.Stale) > 0:
		return l.missing(ctx, forDev(strings.Join(seen.Stale, "; ")), nil, 1)
	case why != "":
		return l.missing(ctx, why, gone, 1)
	case seen.Gateway == "":
		return l.missing(ctx, "the gateway does not run; bringing it back", nil, missedLooks)
	case len(gone) > 0:
		return l.missing(ctx, strings.Join(gone, ", ")+doesNotRun(len(gone)), gone, missedLooks)
	}
	l.health.rest()
	if l.health.lost == nil {
		return nil
	}
	// Whether it is as it was is the planner's question: at once when it is there
	// again, and later when the answer is tried for anyway.
	if !l.again.own && (l.health.fine == 1 || l.again.due() == nil) {
		if err := l.reload(ctx, Change{}); err != nil {
			return err
		}
	}
	if l.health.lost != nil && !l.again.lacks { // or it waits for a save
		l.health.up(l.reloads, l.tell)
	}
	return nil
}

// untilSaved is ctx until somebody saves: a look asks an agent that hangs for
// seconds, and the save may be what mends it. A save that waits already, for drains,
// ends nothing. done gives it up.
func (l *loop) untilSaved(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	select {
	case <-l.sight.arrived:
	default:
		watch.Go(func() {
			select {
			case <-ctx.Done():
			case <-l.sight.arrived:
				cancel()
			}
		})
	}
	return ctx, func() { cancel(); watch.Wait() }
}

// lose tells once that something went away: of some agents, or everything.
func (l *loop) lose(err error, agents []string) {
	if l.health.lost == nil {
		l.tell(Event{Kind: Lost, Reload: l.reloads, Agents: agents, Err: err, Known: l.again.known(err)})
	}
	l.health.lost, l.health.fine = err, 0
}

// missing brings something back that so many looks in a row have missed.
func (l *loop) missing(ctx context.Context, what string, agents []string, looks int) error {
	if !l.health.enough(what, looks) {
		return nil
	}
	l.lose(errors.New(what), agents)
	if l.again.due() != nil {
		return nil // it is being tried, now and then
	}
	err := l.reload(ctx, Change{})
	if err == nil && l.health.lost != nil && l.again.due() == nil {
		l.again.later(nil)
	}
	return err
}

// gone are the agents of which less runs than shall, sorted. why is not "" when
// somebody past flisk removed, paused or cut something off: nobody is in the middle
// of replacing it then. What has stopped may be in the middle of a flisk kill.
func (l *loop) gone(seen runtime.Observed) (agents []string, why string) {
	runs := map[string]int{}
	for _, r := range seen.Replicas {
		switch {
		case l.running.Agents[r.Agent] == 0:
		case r.State == runtime.Gone || cutOff(r):
			why = r.Name + ": " + forDev(r.Detail)
		case r.Serving && !r.Stuck:
			runs[r.Agent]++
		}
	}
	for agent, shall := range l.running.Agents {
		if runs[agent] < shall {
			agents = append(agents, agent)
		}
	}
	slices.Sort(agents)
	return agents, why
}

// cutOff reports whether a replica that serves runs, and nobody reaches it.
func cutOff(r runtime.Replica) bool { return r.Serving && r.Stuck && r.Stopped.IsZero() }

func doesNotRun(agents int) string {
	if agents == 1 {
		return " does not run; bringing it back"
	}
	return " do not run; bringing them back"
}

// forDev is what a driver says of something that flisk up mends. The loop does
// that itself.
func forDev(said string) string {
	if what, _, ok := strings.Cut(said, "; flisk up"); ok {
		return what + "; bringing it back"
	}
	return said
}
