package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
)

// told reports whether an agent is called broken whose sessions leave the states
// that calm and upset make.
func told(t *testing.T, lot *rand.Rand, calm, upset func() string) (broken bool, turns int) {
	t.Helper()
	made := func(state string) sample {
		var view checkpoint.View
		view.State = json.RawMessage(state)
		return sample{view: view}
	}
	s := &scene{run: &run{lot: lot, spare: SpareTurns}, Check: Check{Again: 2}}
	p := pairs{calm: []sample{made(calm())}, upset: []sample{made(upset())}}
	err := s.repeat(t.Context(), &p,
		func(context.Context, int) (sample, error) { return made(calm()), nil },
		func(context.Context) (sample, error) { return made(upset()), nil },
		func() bool { return p.differ(stateOf) })
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.calm) + len(p.upset) - 2; n != 0 {
		turns = s.Turns
	}
	return p.differ(stateOf), turns
}

// Chance looks like a broken agent in one check of 7000 at most, so that a run,
// which has four, is red for nothing less than once in 1000; and what is broken is
// always told.
func TestChanceIsToldFromLoss(t *testing.T) {
	t.Parallel()
	const runs = 200_000
	for name, weights := range map[string][]int{
		"a coin":          {1, 1},
		"a bent coin":     {7, 6},
		"a rare side":     {9, 1},
		"three sides":     {1, 1, 1},
		"three unlike":    {6, 4, 3},
		"almost a clock":  {99, 1},
		"hundreds of one": {500, 300, 200},
	} {
		lot := rand.New(rand.NewPCG(17, uint64(len(name))))
		sum := 0
		for _, w := range weights {
			sum += w
		}
		draw := func() string {
			n := lot.IntN(sum)
			for i, w := range weights {
				if n -= w; n < 0 {
					return fmt.Sprint(i)
				}
			}
			panic("the weights have another sum")
		}
		red := 0
		for range runs {
			if broken, _ := told(t, lot, draw, draw); broken {
				red++
			}
		}
		// 28.6 are to be expected at one in 7000, and more than 50 once in 10000 times.
		if red > 50 {
			t.Errorf("%s: %d of %d are red", name, red, runs)
		}
		t.Logf("%s: %d of %d are red", name, red, runs)
	}
	lot := rand.New(rand.NewPCG(17, 0))
	for range 100 {
		n := 0
		clock := func() string { n++; return fmt.Sprint(n / 2 % 2) }
		if broken, _ := told(t, lot, clock, clock); broken {
			t.Error("a clock is red")
		}
		noon := func() string { n++; return fmt.Sprint(n > 1) }
		n = 0
		if broken, _ := told(t, lot, noon, noon); broken {
			t.Error("the time of the day is red")
		}
		if broken, turns := told(t, lot, func() string { return "whole" }, func() string { return fmt.Sprint("lost ", lot.IntN(3)) }); !broken || turns != 2*rounds {
			t.Errorf("what is lost every time is told as %t, by %d turns", broken, turns)
		}
	}
}

// Turns to tell a difference from chance are not sent without end.
func TestSpareTurnsEnd(t *testing.T) {
	t.Parallel()
	s := &scene{run: &run{spare: 5}, Check: Check{Turns: 1}}
	if err := s.allow(3); err != nil || s.Turns != 4 {
		t.Errorf("%d, %v", s.Turns, err)
	}
	if err := s.allow(3); err == nil || !strings.Contains(err.Error(), "used up") || s.Turns != 4 {
		t.Errorf("%d, %v", s.Turns, err)
	}
}

// What is among the messages of every undisturbed session and of no disturbed
// one was lost.
func TestLack(t *testing.T) {
	t.Parallel()
	make := func(without ...int) sample {
		l, view := conversation()
		for _, i := range without {
			view.Messages[i].Content = text("gone")
		}
		return sample{ledger: l, view: view}
	}
	for name, c := range map[string]struct {
		p    pairs
		want string
	}{
		"nothing":              {pairs{[]sample{make()}, []sample{make()}}, ""},
		"an input":             {pairs{[]sample{make(), make()}, []sample{make(0), make(0, 1)}}, "the input of turn 1 is not among its messages"},
		"a reply":              {pairs{[]sample{make()}, []sample{make(3)}}, "the reply of turn 2 is not among its messages"},
		"of an undisturbed":    {pairs{[]sample{make(), make(0)}, []sample{make(0)}}, ""},
		"not every time":       {pairs{[]sample{make()}, []sample{make(0), make()}}, ""},
		"something else later": {pairs{[]sample{make()}, []sample{make(0), make(1)}}, ""},
	} {
		if got := c.p.lack(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A volume may be in a directory of any name.
func TestVolumeOfAnyName(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent(t))
	b.env.Data = filepath.Join(t.TempDir(), "a[b", "*volume")
	if err := os.MkdirAll(filepath.Dir(b.env.Data), 0o700); err != nil {
		t.Fatal(err)
	}
	o := testOptions()
	o.Only = []string{"missing-file"}
	if report, err := Run(t.Context(), b, o); err != nil || report.Verdict != Held {
		t.Errorf("%v\n%s", err, table(report))
	}
}
