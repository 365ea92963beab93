package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

const (
	reloads = 10
	// afterReload is for how long a process still has what it was given before its
	// reload: longer than a gateway is waited for before it is told to stop.
	afterReload = 1500 * time.Millisecond
)

// beyondReload is how long a turn must be so that the old process still has it
// when it is told to stop, if a reload takes no longer than the last one did, and
// half as much; each further try gives it more. A drain has the time for it.
func (s *scene) beyondReload(last time.Duration, try int) time.Duration {
	return afterReload + min(last*time.Duration(2+try)/2, s.Drain/2)
}

// busyReloads are those, counted from 1, that meet a turn whose code has come
// back and that is committed in the drain. The first reload meets none: it shows
// how long one takes. The second one meets the long turn.
var busyReloads = []int{5, 8}

// reload replaces the agent again and again while clients use it, as flisk dev
// does: the next reload begins while old processes still finish what they
// accepted. Few turns are sent for that. Most of the load costs nothing: reads,
// and one turn that was answered, sent again under its key.
func reload() Check {
	return Check{
		Name:    "reload",
		Promise: "a reload fails no request and leaves no old code",
		How:     fmt.Sprintf("%d reloads while clients send turns, repeat one, and read; a long turn ends in the old process, and the next of its session waits in the new one", reloads),
		Turns:   1 + handoverTurns + len(busyReloads),
		run: func(ctx context.Context, s *scene) error {
			m := &marathon{scene: s, repeated: s.session(), meeting: s.session()}
			if err := s.ready(ctx); err != nil {
				return err
			}
			first := s.attempt(m.repeated)
			got, err := s.post(ctx, first)
			if err == nil {
				err = s.mustAnswer(m.repeated, got)
			}
			if err != nil {
				return err
			}
			m.load = newLoad(s, first, got)
			stop := m.load.start(ctx)
			err = m.reloads(ctx)
			m.load.retired.Wait()
			stop()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return m.judge(ctx, err)
		},
	}
}

// marathon is a series of reloads under load.
type marathon struct {
	*scene
	load     *load
	handover handover
	flights  []underWay

	// The sessions of the turn that is sent again, and of those of the handover.
	// Each other turn has one to itself: an agent may refuse a turn that meets
	// another one of its session, and only the handover is about that.
	repeated, meeting *ledger
	passing           []*ledger
}

// underWay is a turn that a process has when it is replaced.
type underWay struct {
	*flight
	from int // generation
	what string
}

// handover is two turns of one session in two processes.
type handover struct {
	tries     int
	met       bool // the second had been accepted before the first was answered
	old, next underWay
}

const (
	handoverTurns = 2
	handoverTries = 2
)

// reloads does them all, or what it takes until something is broken. They end with
// the first that fails.
func (m *marathon) reloads(ctx context.Context) error {
	var took time.Duration
	for n := 1; n <= reloads && !m.load.spoiled(); n++ {
		long := m.beyondReload(took, 1)
		m.load.repeatLong(ctx, long)
		meets := n > 1 && !m.handover.met && m.handover.tries < handoverTries
		if meets {
			if err := m.meet(ctx, m.beyondReload(took, 1+2*m.handover.tries)); err != nil {
				return err
			}
		}
		if slices.Contains(busyReloads, n) {
			l := m.session()
			m.passing = append(m.passing, l)
			if err := m.fly(ctx, l, turn.PointReturned, long, "a turn that was under way at a reload"); err != nil {
				return err
			}
		}
		began := time.Now()
		now, err := m.reload(ctx)
		if err != nil {
			return err
		}
		took = time.Since(began)
		m.load.reloaded(ctx, now)
		if meets {
			if err := m.follow(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// fly holds a turn in the process that serves now.
func (m *marathon) fly(ctx context.Context, l *ledger, point turn.Point, long time.Duration, what string) error {
	f, err := m.hold(ctx, l, point, long)
	if f != nil { // what it was answered instead tells more than that it was not held
		m.flights = append(m.flights, underWay{f, m.load.now(), what})
	}
	return err
}

// meet holds the long turn.
func (m *marathon) meet(ctx context.Context, long time.Duration) error {
	if m.handover.tries++; m.handover.tries > 1 {
		if err := m.allow(handoverTurns); err != nil {
			return err
		}
	}
	err := m.fly(ctx, m.meeting, turn.PointBegun, long, "the long turn that the old process had")
	if err == nil {
		m.handover.old = m.flights[len(m.flights)-1]
	}
	return err
}

// follow sends the next turn of the long one's session, to the new process.
func (m *marathon) follow(ctx context.Context) error {
	f, err := m.pass(ctx, m.meeting, turn.PointAccepted)
	if f != nil {
		m.handover.next = underWay{f, m.load.now(), "the turn that waited for the long one"}
		m.flights = append(m.flights, m.handover.next)
	}
	if err != nil {
		return err
	}
	select {
	case <-m.handover.old.over:
	default:
		m.handover.met = true
	}
	return nil
}

// judge says what all that came to. stopped is why it was not done to its end.
func (m *marathon) judge(ctx context.Context, stopped error) error {
	for _, f := range m.flights {
		got, over, err := f.end(ctx, endTimeout)
		switch {
		case err != nil:
			return err
		case !over:
			return m.broke(Failed, f.ledger, "%s was not answered", f.what)
		}
		m.load.answered(f.from, got, f.at, f.what)
	}
	switch err := m.load.judge(); {
	case errors.Is(err, errBroken), stopped == nil && err != nil, len(m.load.unwell) > 0:
		return err
	case stopped != nil:
		return stopped
	}
	saved := 0
	for _, l := range append(m.passing, m.repeated, m.meeting) {
		view, err := m.look(ctx, l)
		if err != nil {
			return err
		}
		saved += view.Turn
	}
	m.load.tell()
	m.saw("%s, each saved once", count(saved, "turn"))
	return m.judgeHandover()
}

// judgeHandover judges the order of the two turns that met.
func (m *marathon) judgeHandover() error {
	old, next := m.handover.old, m.handover.next
	before, after := m.load.pid(old.from), m.load.pid(next.from)
	switch {
	case !m.handover.met:
		return errors.New("the next turn of the long one's session was accepted only when the long one was over, twice")
	case old.answer.code != m.load.name(old.from):
		return fmt.Errorf("the long turn was begun by the code %q, and answered by %q", m.load.name(old.from), old.answer.code)
	case m.scene.busy(next.answer):
		m.saw("process %d finished a turn of %s by the old code; the next one of its session was refused because the session was busy", before, span(old.answer.took))
		return nil
	case next.answer.result.Turn != old.answer.result.Turn+1:
		return m.broke(Forked, m.meeting, "the turn that waited for turn %d was answered as turn %d", old.answer.result.Turn, next.answer.result.Turn)
	}
	m.saw("process %d finished a turn of %s by the old code; the next one of its session waited for it in process %d", before, span(old.answer.took), after)
	return nil
}
