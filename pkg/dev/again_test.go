package dev

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// failing is an up that fails in a step, or before any.
func failing(in runtime.Action, err error) func(context.Context, int, Told) (runtime.Report, error) {
	return func(_ context.Context, _ int, told Told) (runtime.Report, error) {
		if in == "" {
			return runtime.Report{}, err
		}
		return runtime.Report{}, plan().Do(told, func(steps []runtime.Step) error {
			if steps[0].Do == in {
				return err
			}
			return nil
		})
	}
}

func TestC08_WhatTheFilesSayEndsNoLoop(t *testing.T) {
	for name, c := range map[string]struct {
		broken error
		tries  int // in a minute: it may be mended without a change
	}{
		"a build that fails":       {errBuild, 1},
		"flisk.yaml that is wrong": {errSettings, 6},
		"what is nobody's fault":   {errors.New("EOF"), 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				works := r.up
				r.does(failing("", c.broken))
				r.start()
				r.pass(time.Minute)
				if n := r.count(); n != c.tries {
					t.Errorf("%d ups in a minute, want %d", n, c.tries)
				}
				r.expect("failed")
				r.does(works)
				r.save(time.Second, "a.go")
				r.expect("failed reloading reloaded")
				r.does(failing("", c.broken))
				r.save(time.Minute, "a.go")
				r.save(time.Minute, "a.go") // told again: somebody has tried
				r.does(works)
				before := r.count()
				r.save(time.Second, "a.go")
				r.expect("failed reloading reloaded failed failed reloading reloaded")
				if got := r.last(Failed).Err; !errors.Is(got, c.broken) {
					t.Errorf("told %v", got)
				}
				r.pass(2 * time.Minute) // and at rest
				if n := r.count() - before; n != 1 {
					t.Errorf("%d ups for the last save", n)
				}
				r.stop()
			})
		})
	}
}

// TestWhatIsNoAgentsFaultIsTriedAgain: it is told when it works, also when nothing
// had to be done.
func TestWhatIsNoAgentsFaultIsTriedAgain(t *testing.T) {
	for _, changed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			works := r.up
			r.start()
			r.pass(time.Second)
			r.does(failing(runtime.Build, errors.New("fork/exec go: no such file")))
			r.save(time.Minute, "a.go")
			r.expect("reloading reloaded reloading failed") // once, and the attempts are not
			if n := r.count(); n < 5 {
				t.Errorf("%d ups", n)
			}
			r.does(func(ctx context.Context, n int, told Told) (runtime.Report, error) {
				if !changed {
					return runtime.Report{}, nil
				}
				return works(ctx, n, told)
			})
			r.pass(time.Minute)
			want := "reloading reloaded reloading failed unchanged"
			if changed {
				want = "reloading reloaded reloading failed reloading reloaded"
			}
			r.expect(want)
			r.stop()
		})
	}
}

// TestAnAttemptThatGetsFurther is told, and how it ends.
func TestAnAttemptThatGetsFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.pass(time.Second)
		r.does(failing(runtime.Build, errors.New("not now")))
		r.save(10*time.Second, "a.go")
		r.expect("reloading reloaded reloading failed")
		r.does(failing(runtime.Switch, errors.New("not now")))
		r.pass(time.Minute)
		r.expect("reloading reloaded reloading failed reloading failed")
		if e := r.last(Failed); e.Step != runtime.Switch {
			t.Errorf("it failed in %q", e.Step)
		}
		r.stop()
	})
}

// TestATouchTriesAgain what has failed, whosever fault it was, and nothing else.
func TestATouchTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works := r.up
		r.start()
		r.pass(time.Second)
		r.touch(time.Minute)
		if n := r.count(); n != 1 {
			t.Errorf("%d ups for a touch", n-1)
		}
		r.forget()
		r.does(failing("", errBuild))
		r.save(time.Minute, "a.go")
		r.expect("reloading reloaded failed")
		r.touch(time.Minute)
		r.expect("reloading reloaded failed failed")
		r.does(works)
		r.touch(time.Minute)
		r.expect("reloading reloaded failed failed reloading reloaded")
		r.stop()
	})
}

func TestWhatTheMachineLacks(t *testing.T) {
	lacks := fault.New(fault.Environment, "", "no engine answers")
	t.Run("at the start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.up = func(context.Context, int, Told) (runtime.Report, error) { return runtime.Report{}, lacks }
			r.start()
			if err := <-r.over; !errors.Is(err, lacks) {
				t.Errorf("the loop ended with %v", err)
			}
		})
	})
	t.Run("later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			works := r.up
			r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
				if n > 0 && n < 6 {
					return runtime.Report{}, lacks
				}
				return works(ctx, n, told)
			}
			r.start()
			r.pass(time.Second)
			r.save(time.Minute, "a.go")
			r.expect("reloading reloaded failed reloading reloaded") // told once
			if r.ups != 7 {
				t.Errorf("%d ups in a minute", r.ups)
			}
			r.stop()
		})
	})
}

// TestFailedIsToldOnce: a build that fails is not tried again because the engine is
// back, nor told again.
func TestFailedIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		there := r.observe
		r.start()
		r.pass(time.Second)
		r.sees(func() (runtime.Observed, error) { return runtime.Observed{}, errors.New("the engine is away") })
		r.pass(10 * time.Second)
		r.does(failing("", errBuild))
		r.save(time.Second, "a.go")
		r.sees(there)
		r.pass(time.Minute)
		r.expect("reloading reloaded lost failed back")
		if r.ups != 2 {
			t.Errorf("%d ups", r.ups)
		}
		r.stop()
	})
}

// TestWhatTheMachineLacksIsTriedAtItsOwnPace: that everything else is there again is
// no reason to build at every look.
func TestWhatTheMachineLacksIsTriedAtItsOwnPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		there := r.observe
		r.start()
		r.pass(time.Second)
		r.sees(func() (runtime.Observed, error) { return runtime.Observed{}, errors.New("the engine is away") })
		r.pass(10 * time.Second)
		r.does(failing("", fault.New(fault.Environment, "make room", "no space left")))
		r.sees(there)
		r.pass(10 * time.Minute)
		// One at once; then the pauses double up to ten seconds.
		if most := int(10*time.Minute/lastPause) + 6; r.ups > most {
			t.Errorf("%d attempts in ten minutes, want at most %d", r.ups, most)
		}
		r.stop()
	})
}

// TestTheEngineGoesAwayDuringAReload: it is said once, and everything is back when
// what was saved runs.
func TestTheEngineGoesAwayDuringAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works, there := r.up, r.observe
		away := func() *fault.Fault { return fault.New(fault.Environment, "start it", "no engine answers") }
		r.start()
		r.pass(time.Second)
		r.does(func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			r.sees(func() (runtime.Observed, error) { return runtime.Observed{}, away() })
			r.does(failing("", away()))
			return failing(runtime.Await, errors.Join(away(), errors.New("and nothing could be taken back")))(ctx, n, told)
		})
		r.save(time.Minute, "a.go")
		r.expect("reloading reloaded reloading failed lost")
		if got := r.news(Failed) + r.news(Lost); got != 1 {
			t.Errorf("%d times it was news", got)
		}
		r.sees(there)
		r.does(works)
		r.pass(lookEvery)
		r.expect("reloading reloaded reloading failed lost reloading reloaded back")
		r.stop()
	})
}

// TestLostAndAFailureThatIsKnown: an engine that is seen to be away first.
func TestLostAndAFailureThatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		away := fault.New(fault.Environment, "start it", "no engine answers")
		r.start()
		r.pass(time.Second)
		r.sees(func() (runtime.Observed, error) { return runtime.Observed{}, away })
		r.does(failing("", away))
		r.pass(10 * time.Second)
		r.save(time.Second, "a.go")
		r.expect("reloading reloaded lost failed")
		if got := r.news(Failed); got != 0 {
			t.Error("what is known is told as news")
		}
		r.stop()
	})
}

// TestWaitingIsToldAgain when what waited has gone with another reload.
func TestWaitingIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works, there := r.up, r.observe
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			report, err := works(ctx, n, told)
			report.Left = []runtime.Ref{{Agent: "bot", Replica: "bot-1", Generation: n}}
			return report, err
		}
		r.retire = func(context.Context, runtime.Ref) (runtime.Change, error) {
			time.Sleep(time.Hour)
			return runtime.Change{}, nil
		}
		r.start()
		r.pass(100 * time.Millisecond)
		for range maxDraining - 1 {
			r.save(100*time.Millisecond, "a.go")
		}
		r.save(100*time.Millisecond, "b.go")
		if got := r.told(Waiting); got != 1 {
			t.Fatalf("it waits, and that was told %d times", got)
		}
		r.sees(func() (runtime.Observed, error) {
			r.sees(there)
			return runtime.Observed{Stale: []string{"the gateway's process was killed"}}, nil
		})
		r.pass(2 * lookEvery)
		r.last(Back)
		r.save(100*time.Millisecond, "c.go")
		if got := r.told(Waiting); got != 2 {
			t.Errorf("told %d times when another change waits", got)
		}
		r.stop()
	})
}
