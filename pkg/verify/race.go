package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// racers is how many clients meet in one session.
const racers = 4

// meeting is how long the first turn runs, so that the others meet it.
const meeting = 250 * time.Millisecond

// firstMeeting and lastMeeting are how long an old process holds a turn while a
// new one is started: the longer one is for a machine on which that takes long.
// The new one must serve within the first half.
const (
	firstMeeting = time.Second
	lastMeeting  = 10 * time.Second
)

// race sends turns to one session at the same time, two of them under the same
// key; and then to two processes at the same time, the old and the new one of a
// restart, which share nothing but the volume.
func race() Check {
	return Check{
		Name:    "race",
		Promise: "turns of one session run one after another",
		How:     "four clients at once in one session, two of them with the same turn; two processes of a restart at once in another",
		Turns:   racers + 1 + 2, // the one is of a restart in which the processes did not meet
		run: func(ctx context.Context, s *scene) error {
			l := s.session()
			first, err := s.hold(ctx, l, turn.PointBegun, meeting)
			if err != nil {
				return err
			}
			attempts := []*attempt{first.attempt}
			for range racers - 2 {
				attempts = append(attempts, s.attempt(l))
			}
			answers, err := s.atOnce(ctx, attempts)
			if err != nil {
				return err
			}
			got, over, err := first.end(ctx, holdTimeout)
			if err != nil {
				return err
			}
			if !over {
				return s.broke(Lost, l, "the others were answered, and the turn that they waited for was not within %s", holdTimeout)
			}
			answers = append(answers, got)
			var numbers []int
			refused := 0
			for _, got := range answers {
				switch {
				case got.ok():
					numbers = append(numbers, got.result.Turn)
				case s.busy(got):
					refused++
				default:
					return s.mustAnswer(l, got)
				}
			}
			view, err := s.look(ctx, l)
			if err != nil {
				return err
			}
			if err := s.mustAnswer(l, got); err != nil {
				return err
			}
			if got.result.Turn != 1 {
				return s.broke(Forked, l, "the turn that had begun when the others came was answered as turn %d", got.result.Turn)
			}
			slices.Sort(numbers)
			if distinct := slices.Compact(numbers); len(distinct) != view.Turn {
				return s.broke(Forked, l, "the answers name the turns %v, and the checkpoint is at turn %d", distinct, view.Turn)
			}
			if view.Turn < 2 && refused < racers-2 {
				return errors.New("one turn was committed, and nobody said why no other was")
			}
			s.saw("%d clients at once: turns 1 to %d, each once", racers, view.Turn)
			if refused > 0 {
				s.saw("%d were refused because the session was busy", refused)
			}
			return s.twoProcesses(ctx)
		},
	}
}

// twoProcesses lets two processes meet in one session.
func (s *scene) twoProcesses(ctx context.Context) error {
	for _, long := range []time.Duration{firstMeeting, lastMeeting} {
		if met, err := s.meet(ctx, long); met || err != nil {
			return err
		}
	}
	return fmt.Errorf("two processes did not meet: the new one did not serve within the %s for which the old one held a turn", span(lastMeeting))
}

// meet restarts the agent while the old process has a turn, and sends another
// one of its session to the new process. It reports false when that did not
// serve in time, and nothing was sent to it.
func (s *scene) meet(ctx context.Context, long time.Duration) (met bool, err error) {
	l := s.session()
	routes, err := s.client.routes(ctx, s.target.URL())
	if err != nil {
		return false, err
	}
	first, err := s.hold(ctx, l, turn.PointBegun, long)
	if err != nil {
		return false, err
	}
	stopping, err := s.stops(ctx)
	if err != nil {
		return false, err
	}
	var change Change
	var restarting error
	restarted := make(chan struct{})
	s.flights.Go(func() {
		defer close(restarted)
		change, restarting = s.restart(ctx)
	})
	serves, cancel := context.WithTimeout(ctx, long/2)
	defer cancel()
	var second *flight
	var accepting error
	if s.client.rerouted(serves, s.target.URL(), routes) == nil {
		second, accepting = s.pass(ctx, l, turn.PointAccepted)
		select {
		case <-first.over: // when the second had been accepted, or before
		default:
			met = true
		}
	}
	<-restarted
	if err := errors.Join(context.Cause(ctx), restarting, accepting); err != nil {
		return false, err
	}
	one, err := s.finished(ctx, first, stopping, "the turn that the old process had")
	if err != nil || second == nil {
		return false, err
	}
	two, over, err := second.end(ctx, holdTimeout)
	switch {
	case err != nil:
		return false, err
	case !over:
		return false, s.broke(Lost, l, "a turn of the new process was not answered after that of the old one")
	}
	if _, err := s.look(ctx, l); err != nil {
		return false, err
	}
	if err := s.mustAnswer(l, one); err != nil {
		return false, err
	}
	if !s.busy(two) {
		if err := s.mustAnswer(l, two); err != nil {
			return false, err
		}
	}
	if !met {
		return false, errors.New("two processes did not meet: the turn of the new one was accepted only when that of the old one was over")
	}
	if s.busy(two) {
		s.saw("processes %d and %d at once: the turn of the second was refused because the session was busy", change.Before.PID, change.After.PID)
		return true, nil
	}
	if one.result.Turn != 1 || two.result.Turn != 2 {
		return false, s.broke(Forked, l, "two processes ran turns of one session at the same time: the old one answered turn %d, the new one turn %d", one.result.Turn, two.result.Turn)
	}
	s.saw("processes %d and %d at once: turn 2 of the second waited for turn 1 of the first", change.Before.PID, change.After.PID)
	return true, nil
}

// atOnce sends turns at the same time.
func (s *scene) atOnce(ctx context.Context, attempts []*attempt) ([]answer, error) {
	answers, errs := make([]answer, len(attempts)), make([]error, len(attempts))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, a := range attempts {
		all.Go(func() {
			<-start
			answers[i], errs[i] = s.post(ctx, a)
		})
	}
	close(start)
	all.Wait()
	return answers, errors.Join(errs...)
}

// busy reports whether a turn was refused because others of its session ran: by
// an agent that does not let it wait, or after it had waited for as long as a
// turn may take.
func (s *scene) busy(got answer) bool {
	switch got.problem {
	case turn.Busy, turn.QueueFull:
		return true
	case turn.SessionBusy:
		return got.took >= s.TurnTimeout
	}
	return false
}
