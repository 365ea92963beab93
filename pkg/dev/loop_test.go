package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

func TestC07_ChangesDuringAReloadAreOneFollowingReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.pass(time.Second)
		r.save(15*time.Millisecond, "a.go") // its reload takes 50 ms
		r.save(0, "b.go")
		r.save(0, "c.go")
		r.save(0, "b.go")
		r.pass(time.Second)
		r.expect("reloading reloaded reloading reloaded reloading reloaded")
		if got := r.last(Reloaded).Paths; !slices.Equal(got, []string{"b.go", "c.go"}) {
			t.Errorf("the last reload was for %q", got)
		}
		if r.overlaps != 0 {
			t.Errorf("%d reloads ran beside another one", r.overlaps)
		}
		r.stop()
		r.expect("reloading reloaded reloading reloaded reloading reloaded stopping stopped")
		if r.downs != 1 {
			t.Errorf("%d downs at the end", r.downs)
		}
	})
}

func TestSpansOfAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.pass(time.Second)
		r.change(time.Now().Add(-100*time.Millisecond), "a.go")
		r.pass(time.Second)
		want := Spans{
			Detect: 100 * time.Millisecond, Plan: 1, Build: 10 * time.Millisecond,
			Start: 20 * time.Millisecond, Switch: 20 * time.Millisecond,
		}
		if e := r.last(Reloaded); e.Spans != want || e.Spans.Total().Round(time.Millisecond) != 150*time.Millisecond || e.Reload != 1 || !slices.Equal(e.Agents, []string{"bot"}) {
			t.Errorf("got %+v", e)
		}
		r.stop()
	})
}

func TestAnAgentThatNeverGetsReadyKeepsNoFixWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works := r.up
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			if n != 1 {
				return works(ctx, n, told)
			}
			return runtime.Report{}, awaiting(ctx, told, time.Minute, errBuild)
		}
		r.start()
		r.pass(time.Second)
		r.save(time.Second, "a.go")
		r.save(time.Second, "a.go") // while it may still get ready
		r.expect("reloading reloaded reloading")
		r.pass(patience)
		r.expect("reloading reloaded reloading dropped reloading reloaded")
		r.stop()
	})
}

func TestAReloadThatGetsReadyIsNotDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			return runtime.Report{Changed: true}, awaiting(ctx, told, patience-time.Millisecond, nil)
		}
		r.start()
		r.pass(patience)
		for range 20 { // saved all the time
			r.save(time.Second, "a.go")
		}
		r.pass(time.Minute)
		for _, e := range r.events {
			if e.Kind == Dropped {
				t.Errorf("a reload was dropped: %s", r.kinds())
			}
		}
		r.stop()
	})
}

func TestLostAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		there := r.observe
		gone := errors.New("the engine does not answer")
		r.start()
		r.pass(time.Second)
		r.sees(func() (runtime.Observed, error) { return runtime.Observed{}, gone })
		r.pass(time.Minute)
		r.expect("reloading reloaded lost")
		r.sees(there)
		r.does(func(context.Context, int, Told) (runtime.Report, error) { return runtime.Report{}, nil })
		r.pass(2 * lookEvery)
		r.expect("reloading reloaded lost back")
		r.stop()
	})
}

func TestTheSupervisorDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		there := r.observe
		r.start()
		r.pass(time.Second)
		r.sees(func() (runtime.Observed, error) {
			r.sees(there)
			return runtime.Observed{Stale: []string{"the gateway's process was killed"}}, nil
		})
		r.pass(2 * lookEvery)
		r.expect("reloading reloaded lost reloading reloaded back")
		r.stop()
	})
}

func TestSomebodyElseStopsTheStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		there := r.observe
		looks := 0
		r.start()
		r.sees(func() (runtime.Observed, error) {
			if looks++; looks == missedLooks { // two in a row may be another command's move of the gateway
				return there()
			}
			return runtime.Observed{}, nil
		})
		r.pass(lookEvery + 2*emptyPause)
		r.expect("reloading reloaded")
		r.pass(lookEvery + 2*emptyPause)
		r.expect("reloading reloaded stopped")
		if err := <-r.over; err != nil || r.downs != 0 || r.last(Stopped).Outcome != Elsewhere {
			t.Errorf("the loop ended with %v after %d downs, %+v", err, r.downs, r.last(Stopped))
		}
	})
}

func TestAnAgentIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		there := r.observe
		looks := 0
		r.start()
		r.sees(func() (runtime.Observed, error) {
			if looks++; looks == missedLooks { // two in a row may be another command's doing
				return there()
			}
			return runtime.Observed{Running: true, Gateway: "127.0.0.1:4000"}, nil
		})
		r.pass(100 * time.Millisecond) // the start took half of it
		r.pass(2*missedLooks*lookEvery - 100*time.Millisecond)
		r.expect("reloading reloaded")
		r.pass(100 * time.Millisecond)
		r.sees(there)
		r.pass(time.Second)
		r.expect("reloading reloaded lost reloading reloaded back")
		r.stop()
	})
}

func TestOldGenerationsDrainBesideReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works := r.up
		var mu sync.Mutex
		ended := map[int]bool{}
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			report, err := works(ctx, n, told)
			mu.Lock()
			defer mu.Unlock()
			for g := 1; g <= n; g++ {
				if !ended[g] { // all that still drain
					report.Left = append(report.Left, runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: g})
				}
			}
			return report, err
		}
		r.retire = func(_ context.Context, ref runtime.Ref) (runtime.Change, error) {
			time.Sleep(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			ended[ref.Generation] = true
			return runtime.Change{Before: runtime.Process{PID: ref.Generation}}, nil
		}
		r.start()
		r.pass(time.Second)
		for i := range maxDraining + 1 {
			r.save(time.Second, fmt.Sprint("f", i, ".go"))
		}
		if e := r.last(Waiting); e.Draining["bot"] != maxDraining {
			t.Errorf("what waits is told with %v", e.Draining)
		}
		if got := r.count(); got != 1+maxDraining {
			t.Errorf("%d ups while %d drain", got, maxDraining)
		}
		r.pass(time.Minute)
		if got := r.count(); got != 1+maxDraining+1 {
			t.Errorf("%d ups when one had drained", got)
		}
		seen := map[runtime.Ref]bool{}
		for _, ref := range r.retired {
			if seen[ref] {
				t.Errorf("%s was told to stop twice", ref)
			}
			seen[ref] = true
		}
		began := time.Now()
		r.stop()
		if time.Since(began) == 0 || r.last(Drained).Took != time.Minute {
			t.Error("the end did not wait for what drained")
		}
	})
}

// TestAnEmptyPlan: a driver tells of it, too.
func TestAnEmptyPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.up = func(_ context.Context, _ int, told Told) (runtime.Report, error) {
			return runtime.Report{}, runtime.Plan(nil).Do(told, nil)
		}
		r.start()
		r.pass(time.Second)
		r.save(time.Second, "README.md")
		r.expect("reloaded unchanged") // the start is told in any case
		r.stop()
	})
}

func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.o.Keep = true
		r.start()
		r.pass(time.Second)
		r.stop()
		if r.downs != 0 {
			t.Error("the stack was stopped")
		}
	})
}

// TestCtrlCDuringAReload: what the loop brought up is stopped, and nothing else;
// what ran before goes on, and so it says.
func TestCtrlCDuringAReload(t *testing.T) {
	ran := runtime.Observed{Running: true, URL: "http://127.0.0.1:4000"}
	for name, c := range map[string]struct {
		during int
		before runtime.Observed
		want   Outcome
	}{
		"the start":                 {0, runtime.Observed{}, NotStarted},
		"the start, after flisk up": {0, ran, LeftRunning},
		"a reload":                  {1, ran, Ended},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				works := r.up
				r.sees(func() (runtime.Observed, error) { return c.before, nil })
				r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
					if n < c.during {
						return works(ctx, n, told)
					}
					return runtime.Report{}, runtime.Interrupted(ctx, awaiting(ctx, told, time.Minute, nil), runtime.WayBack{})
				}
				r.start()
				r.pass(time.Second)
				if c.during > 0 {
					r.save(time.Second, "a.go")
				}
				r.stop()
				if r.downs != c.during {
					t.Errorf("%d downs", r.downs)
				}
				e := r.last(Stopped)
				if e.Outcome != c.want || (e.Report.URL != "") != (c.want == LeftRunning) {
					t.Errorf("the last event is %+v", e)
				}
			})
		})
	}
}

// TestAStartThatFailsStopsNothing: what ran before goes on.
func TestAStartThatFailsStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		taken := fault.New(fault.Environment, "", "port 8080 is taken")
		r.up = func(context.Context, int, Told) (runtime.Report, error) { return runtime.Report{}, taken }
		r.start()
		if err := <-r.over; !errors.Is(err, taken) || r.downs != 0 {
			t.Errorf("%v, %d downs", err, r.downs)
		}
	})
}

// TestSavesDuringADown: a save brings nothing back that somebody stops. Every
// reload is attached to what runs, and ends where nothing does.
func TestSavesDuringADown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.pass(100 * time.Millisecond)
		r.does(func(context.Context, int, Told) (runtime.Report, error) { return runtime.Report{}, runtime.ErrStopped })
		r.save(time.Second, "a.go")
		r.expect("reloading reloaded stopped")
		if err := <-r.over; err != nil || r.downs != 0 {
			t.Errorf("%v, %d downs", err, r.downs)
		}
		if !slices.Equal(r.attached, []bool{false, true}) {
			t.Errorf("attached: %v", r.attached)
		}
	})
}

// TestWhatRunsIsReadAgain: a driver that was told of later source than Load read,
// or that runs what was built while it changed, is asked again without a save.
func TestWhatRunsIsReadAgain(t *testing.T) {
	for name, c := range map[string]struct{ fresh, unsettled bool }{"stale": {false, false}, "unsettled": {true, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				works := r.up
				r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
					r.mu.Lock()
					r.fresh = n != 1 || c.fresh
					r.mu.Unlock()
					report, err := works(ctx, n, told)
					report.Unsettled = n == 1 && c.unsettled
					return report, err
				}
				r.start()
				r.pass(time.Second)
				r.save(time.Minute, "a.go")
				if r.ups != 3 {
					t.Errorf("%d ups", r.ups)
				}
				if r.last(Reloaded).Unsettled {
					t.Error("the last one is unsettled")
				}
				r.stop()
			})
		})
	}
}

// TestASlowAgentGetsReadyOnce: saves that come faster than it gets ready do not
// keep it from that for ever.
func TestASlowAgentGetsReadyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works := r.up
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			if n == 0 {
				return works(ctx, n, told)
			}
			return runtime.Report{Changed: true}, awaiting(ctx, told, 5*time.Second, nil)
		}
		r.start()
		r.pass(time.Second)
		for i := range 20 {
			r.save(4*time.Second, fmt.Sprintf("a%d.go", i))
		}
		r.pass(time.Minute)
		reloaded := 0
		for _, e := range r.events {
			if e.Kind == Reloaded {
				reloaded++
			}
		}
		if reloaded < 5 {
			t.Errorf("%d reloads in 80 s: %s", reloaded, r.kinds())
		}
		r.stop()
	})
}

func TestTheWatcherFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		broken := errors.New("the directory is gone")
		r.o.Next = func(context.Context, Until) (Change, error) { return Change{}, broken }
		r.start()
		if err := <-r.over; !errors.Is(err, broken) || r.downs != 1 {
			t.Errorf("the loop ended with %v after %d downs", err, r.downs)
		}
	})
}

func TestTenSavesOfOneFileAreTenReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.pass(time.Second)
		for range 10 {
			r.save(300*time.Millisecond, "agent.go")
		}
		if r.ups != 11 {
			t.Errorf("%d ups", r.ups)
		}
		r.stop()
	})
}
