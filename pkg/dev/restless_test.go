package dev

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// writer is a rig whose agent writes a file so long after each of its starts,
// until it is told to end.
func writer(t *testing.T, after time.Duration, name func(n int) string) (r *rig, end func()) {
	r = newRig(t)
	works, ended := r.up, false
	r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
		report, err := works(ctx, n, told)
		write := func() {
			r.mu.Lock()
			over := ended
			r.mu.Unlock()
			if !over {
				r.change(time.Now(), name(n))
			}
		}
		switch {
		case n == 0:
		case after == 0:
			write()
		default:
			time.AfterFunc(after, write)
		}
		return report, err
	}
	return r, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		ended = true
	}
}

func always(name string) func(int) string { return func(int) string { return name } }

// TestC06_TheAgentWritesAFileOfTheProject: during each reload, or soon after it. It
// is reloaded ever more seldom, and what is on disk runs in the end.
func TestC06_TheAgentWritesAFileOfTheProject(t *testing.T) {
	for _, after := range []time.Duration{0, 200 * time.Millisecond, 4 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, end := writer(t, after, always("state.json"))
				r.start()
				r.pass(time.Second)
				r.save(time.Minute, "agent.go")
				r.pass(time.Minute)
				before := r.count()
				if limit := 2 + tooMany + 7; before > limit { // pauses of 1, 2, 4, 8, 16, 30, 30 s
					t.Errorf("%d reloads in two minutes, want at most %d", before, limit)
				}
				r.pass(5 * time.Minute)
				if n := r.count() - before; n < 8 || n > 10 {
					t.Errorf("then %d reloads in five minutes", n)
				}
				e := r.last(Paused)
				if !slices.Equal(e.Paths, []string{"state.json"}) || e.Wait != lastHold || e.Most != lastHold || !e.Known {
					t.Errorf("the last pause is told as %+v", e)
				}
				if got := r.news(Paused); got != 1 {
					t.Errorf("it was told as news %d times", got)
				}

				r.save(200*time.Millisecond, "agent.go") // somebody works on, and is not kept waiting
				if e := r.last(Reloaded); !slices.Contains(e.Paths, "agent.go") || time.Since(e.Time) > 200*time.Millisecond {
					t.Errorf("the last reload was for %q, %s ago", e.Paths, time.Since(e.Time))
				}
				r.pass(10 * time.Second)
				end()
				r.pass(time.Minute)
				if len(r.dirty.Paths) > 0 {
					t.Errorf("%q on disk does not run", r.dirty.Paths)
				}
				before = r.count()
				r.save(100*time.Millisecond, "state.json") // it has been quiet
				if r.count() != before+1 {
					t.Error("a save after a minute of quiet was kept waiting")
				}
				r.stop()
			})
		})
	}
}

// TestC06_TheAgentWritesAllTheTime: faster than it is looked at, so that nothing
// that was built is what is on disk by then.
func TestC06_TheAgentWritesAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works := r.up
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			report, err := works(ctx, n, told)
			r.change(time.Now(), "state.json")
			report.Unsettled = true
			return report, err
		}
		r.o.Next = func(ctx context.Context, _ Until) (Change, error) { // which never rests
			<-ctx.Done()
			return Change{}, context.Cause(ctx)
		}
		r.start()
		r.pass(2 * time.Minute)
		if n, limit := r.count(), 2+tooMany+7; n > limit {
			t.Errorf("%d reloads in two minutes, want at most %d", n, limit)
		}
		if got := r.last(Paused).Paths; !slices.Equal(got, []string{"state.json"}) {
			t.Errorf("paused for %q", got)
		}
		r.stop()
	})
}

// TestC06_WhatNoRuleNames: an agent that rewrites its own code, or makes a new file,
// at each start does not spin for ever either.
func TestC06_WhatNoRuleNames(t *testing.T) {
	for _, name := range []func(int) string{always("made.go"), func(n int) string { return fmt.Sprintf("cache/%d", n) }} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := writer(t, 100*time.Millisecond, name)
			r.start()
			r.pass(time.Second)
			r.save(time.Minute, "agent.go")
			before := r.count()
			r.pass(time.Minute)
			if n := r.count() - before; n < 10 || n > 13 {
				t.Errorf("%d reloads in the second minute", n)
			}
			if got := r.news(Paused); got != 1 {
				t.Errorf("it was told as news %d times", got)
			}
			r.stop()
		})
	}
}

// TestC06_TwoFilesInTurns: what one reload is for is not what the next one is for.
func TestC06_TwoFilesInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := writer(t, 100*time.Millisecond, func(n int) string { return fmt.Sprintf("%d.json", n%2) })
		r.start()
		r.pass(time.Second)
		r.save(2*time.Minute, "agent.go")
		if n, limit := r.count(), 2+2*tooMany+7; n > limit {
			t.Errorf("%d reloads in two minutes, want at most %d", n, limit)
		}
		r.stop()
	})
}

// TestSavesFasterThanReloads: a person saves one file again and again while a
// reload takes longer than that. What is saved last runs at once, and no later
// save is kept waiting.
func TestSavesFasterThanReloads(t *testing.T) {
	for _, file := range []string{"turn.go", "prompt.md"} {
		t.Run(file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.up = func(_ context.Context, _ int, told Told) (runtime.Report, error) {
					r.play(told, time.Second) // five steps
					return runtime.Report{Changed: true}, nil
				}
				r.start()
				r.pass(10 * time.Second)
				for range 20 {
					r.save(3*time.Second, file)
				}
				last := time.Now().Add(-3 * time.Second)
				within := 10 * time.Second // the reload that goes on, and the one for it
				if file != "turn.go" {
					within += lastHold
				}
				r.pass(within)
				if e := r.last(Reloaded); e.Time.Before(last) || len(r.dirty.Paths) > 0 {
					t.Errorf("the last reload was %s before the last save; events: %s", last.Sub(e.Time), r.kinds())
				}
				r.pass(soon)
				before := r.count()
				r.save(10*time.Millisecond, file)
				if r.count() == before {
					t.Error("a save at rest was kept waiting")
				}
				r.pass(time.Minute)
				r.stop()
			})
		})
	}
}

// TestTheEndDuringAPause leaves no timer and nobody who looks out.
func TestTheEndDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := writer(t, 0, always("state.json"))
		r.start()
		r.pass(time.Second)
		r.save(10*time.Second, "agent.go")
		r.last(Paused)
		r.stop()
	})
}

// TestAPauseWaitsForDrains, too: a change that has waited is one more generation.
func TestAPauseWaitsForDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := writer(t, 0, always("state.json"))
		works := r.up
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			report, err := works(ctx, n, told)
			if n > 3 {
				report.Left = []runtime.Ref{{Agent: "bot", Replica: "bot-1", Generation: n}}
			}
			return report, err
		}
		r.retire = func(context.Context, runtime.Ref) (runtime.Change, error) {
			time.Sleep(time.Minute)
			return runtime.Change{}, nil
		}
		r.start()
		r.pass(time.Second)
		r.save(40*time.Second, "agent.go")
		if n := r.count(); n != 4+maxDraining {
			t.Errorf("%d ups while %d drain", n, maxDraining)
		}
		r.pass(time.Minute)
		if n := r.count(); n <= 4+maxDraining {
			t.Errorf("%d ups when they had drained", n)
		}
		r.stop()
	})
}
