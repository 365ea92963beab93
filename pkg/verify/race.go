package verify

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// racers is how many clients meet in one session.
const racers = 6

// meeting is how long the first turn runs, so that the others meet it.
const meeting = 500 * time.Millisecond

// race sends turns to one session at the same time, two of them under the same
// key.
func race() Check {
	return Check{
		Name:    "race",
		Promise: "turns of one session run one after another",
		How:     "six clients at once in one session, two of them with the same turn",
		Turns:   racers,
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
				case busy(got):
					refused++
				default:
					return s.mustAnswer(l, got)
				}
			}
			view, err := s.look(ctx, l)
			if err != nil {
				return err
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
			return nil
		},
	}
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

// busy reports whether a turn was refused because others of its session ran.
func busy(got answer) bool {
	return got.status == http.StatusConflict && got.problem == turn.Busy || got.problem == turn.QueueFull || got.problem == turn.SessionBusy
}
