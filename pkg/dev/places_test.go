package dev

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// bot is what a look finds of the only replica.
func bot(change func(r *runtime.Replica)) func() (runtime.Observed, error) {
	return func() (runtime.Observed, error) {
		r := runtime.Replica{Agent: "bot", Name: "bot-1", Generation: 1, Serving: true, State: runtime.Ready}
		change(&r)
		return runtime.Observed{Running: true, Gateway: "127.0.0.1:4000", Replicas: []runtime.Replica{r}}, nil
	}
}

func fine(*runtime.Replica) {}

// crashed is one that has ended so often with exit code 3.
func crashed(times int, state runtime.State) func(*runtime.Replica) {
	return func(r *runtime.Replica) {
		r.State, r.Restarts, r.Exit = state, times, &runtime.Exit{Code: 3}
	}
}

// TestAnAgentThatEnds: told once as a line and again for every look that finds
// more; that it is fine again only when it stays so.
func TestAnAgentThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.sees(bot(crashed(1, runtime.Failing)))
		r.pass(2 * lookEvery)
		r.expect("reloading reloaded failing") // nothing new at the second look
		r.sees(bot(crashed(7, runtime.Failing)))
		r.pass(lookEvery)
		r.expect("reloading reloaded failing failing")
		if e := r.last(Failing); e.Replica.Restarts != 7 || e.Replica.Exit.Code != 3 || !slices.Equal(e.Agents, []string{"bot"}) {
			t.Errorf("told %+v", e)
		}
		r.sees(bot(crashed(8, runtime.Ready))) // ready, and ended meanwhile
		r.pass(lookEvery)
		r.expect("reloading reloaded failing failing failing")
		r.pass(2 * lookEvery)
		r.expect("reloading reloaded failing failing failing ready")
		r.stop()
	})
}

// TestBackAtOnce: that it is ready already is told as soon as it is seen.
func TestBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		look := make(chan struct{}, 1)
		r.o.Look = look
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		for _, state := range []runtime.State{runtime.Starting, runtime.Ready, runtime.Ready} {
			r.sees(bot(crashed(1, state)))
			look <- struct{}{}
			r.pass(calm / 10)
		}
		r.expect("reloading reloaded failing failing")
		if e := r.last(Failing); e.Replica.State != runtime.Ready {
			t.Errorf("told %+v", e.Replica)
		}
		r.pass(2 * lookEvery)
		r.expect("reloading reloaded failing failing ready")
		r.stop()
	})
}

// TestWhatEndedBeforeIsNoNews: a loop that finds a stack counts from there.
func TestWhatEndedBeforeIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.up = func(context.Context, int, Told) (runtime.Report, error) { return runtime.Report{}, nil }
		r.sees(bot(crashed(5, runtime.Ready)))
		r.start()
		r.pass(time.Minute)
		r.expect("reloaded")
		r.stop()
	})
}

// TestWhatEndsAfterItsStart: of what the loop has started, the first end counts.
func TestWhatEndsAfterItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sees(bot(crashed(1, runtime.Ready)))
		r.start()
		r.pass(lookEvery + time.Second) // the start took some of it
		r.expect("reloading reloaded failing")
		r.stop()
	})
}

// TestNotReadyOnce: an agent that did not answer one look may have been busy.
func TestNotReadyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		busy := bot(func(b *runtime.Replica) { b.State = runtime.Draining })
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.sees(busy)
		r.pass(lookEvery)
		r.sees(bot(fine))
		r.pass(lookEvery)
		r.expect("reloading reloaded")
		r.sees(busy)
		r.pass(2 * lookEvery)
		r.expect("reloading reloaded failing")
		r.sees(bot(fine))
		r.pass(lookEvery)
		r.expect("reloading reloaded failing ready")
		r.stop()
	})
}

// TestALogLineIsAReasonToLook: what it says is told before the next look is due.
func TestALogLineIsAReasonToLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		look := make(chan struct{}, 1)
		r.o.Look = look
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.sees(bot(crashed(1, runtime.Failing)))
		look <- struct{}{}
		r.pass(0)
		r.expect("reloading reloaded failing")
		r.stop()
	})
}

// TestRestartedElsewhere: another command's replacement is told, the loop's own is
// a reload.
func TestRestartedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		second := func(b *runtime.Replica) { b.Generation = 2 }
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.sees(bot(second))
		r.save(lookEvery, "a.go")
		r.expect("reloading reloaded reloading reloaded")
		r.sees(bot(func(b *runtime.Replica) { b.Generation = 3 }))
		r.pass(lookEvery)
		r.expect("reloading reloaded reloading reloaded restarted")
		r.stop()
	})
}

// TestAReloadThatFailsIsNobodysRestart: it may have got so far that what ran was
// replaced.
func TestAReloadThatFailsIsNobodysRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.does(func(_ context.Context, _ int, told Told) (runtime.Report, error) {
			r.play(told, time.Millisecond)
			return runtime.Report{}, fault.New(fault.Failed, "", "the gateway does not start")
		})
		r.sees(bot(func(b *runtime.Replica) { b.Generation = 2 }))
		r.save(lookEvery, "a.go")
		r.expect("reloading reloaded reloading failed")
		r.stop()
	})
}

// TestAContainerIsRemoved: what somebody removed is told and brought back at once,
// in the words of who does that.
func TestAContainerIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.sees(func() (runtime.Observed, error) {
			r.sees(bot(fine))
			return bot(func(b *runtime.Replica) {
				b.State, b.Serving, b.Detail = runtime.Gone, false, "its container was removed, and not by flisk; flisk up makes another"
			})()
		})
		r.pass(lookEvery)
		r.expect("reloading reloaded lost reloading reloaded back")
		e := r.last(Lost)
		if want := "bot-1: its container was removed, and not by flisk; bringing it back"; e.Err.Error() != want || !slices.Equal(e.Agents, []string{"bot"}) {
			t.Errorf("told %v of %q", e.Err, e.Agents)
		}
		r.stop()
	})
}

// TestWhatNothingStartsAgain is brought back, like what is missing.
func TestWhatNothingStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.sees(bot(func(b *runtime.Replica) {
			b.State, b.Stuck, b.Stopped, b.Exit = runtime.Failing, true, time.Now(), &runtime.Exit{}
		}))
		r.pass(2 * lookEvery)
		r.expect("reloading reloaded failing")
		r.sees(bot(func(b *runtime.Replica) {
			b.State, b.Stuck, b.Stopped, b.Exit = runtime.Failing, true, time.Now(), &runtime.Exit{}
		}))
		r.pass(lookEvery)
		if got := r.last(Lost); got.Err.Error() != "bot does not run; bringing it back" {
			t.Errorf("told %v", got.Err)
		}
		r.stop()
	})
}

// paused is a container that somebody paused.
func paused(b *runtime.Replica) {
	b.State, b.Stuck, b.Detail = runtime.Failing, true, "it is paused; flisk up mends that"
}

// TestWhatAnUpMends is brought back at the first look that finds it, in the words of
// who mends it, and is not told of as an agent that ended.
func TestWhatAnUpMends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.does(func(_ context.Context, _ int, told Told) (runtime.Report, error) {
			r.sees(bot(fine))
			r.play(told, time.Millisecond)
			return runtime.Report{Changed: true}, nil
		})
		r.sees(bot(paused))
		r.pass(lookEvery)
		r.expect("reloading reloaded lost reloading reloaded back")
		e := r.last(Lost)
		if want := "bot-1: it is paused; bringing it back"; e.Err.Error() != want || !slices.Equal(e.Agents, []string{"bot"}) {
			t.Errorf("told %v of %q", e.Err, e.Agents)
		}
		r.stop()
	})
}

// TestWhatAnUpDoesNotMend is tried ever less often: nobody reads of it all day.
func TestWhatAnUpDoesNotMend(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		most map[Kind]int // in an hour
	}{
		"it fails":        {fault.New(fault.Failed, "", "cannot unpause it"), map[Kind]int{Lost: 1, Failed: 1}},
		"the engine does": {fault.New(fault.Environment, "", "cannot unpause it"), map[Kind]int{Lost: 1, Failed: 1}},
		"it is again":     {nil, map[Kind]int{Lost: 70, Back: 70}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.sees(bot(fine))
				r.start()
				r.pass(lookEvery + time.Second) // the first look is over
				r.does(func(context.Context, int, Told) (runtime.Report, error) { return runtime.Report{}, c.err })
				r.sees(bot(paused))
				r.pass(time.Hour)
				told := map[Kind]int{}
				for _, e := range r.events {
					told[e.Kind]++
				}
				for kind, n := range told {
					if most := c.most[kind]; kind != Reloading && kind != Reloaded && kind != Doing && n > most {
						t.Errorf("%s was told %d times, not %d", kind, n, most)
					}
				}
				if told[Lost] == 0 || r.count() < 10 {
					t.Errorf("told %v, and tried %d times", told, r.count())
				}
				// Another time is another matter.
				r.does(func(context.Context, int, Told) (runtime.Report, error) { return runtime.Report{}, nil })
				r.sees(bot(fine))
				r.pass(time.Minute)
				before := len(r.events)
				r.sees(bot(paused))
				r.pass(lookEvery)
				if !slices.ContainsFunc(r.events[before:], func(e Event) bool { return e.Kind == Lost }) {
					t.Error("that it was paused later was not seen")
				}
				r.stop()
			})
		})
	}
}

// TestASaveEndsALook: an agent that hangs is asked for a while, and its fix is not
// kept waiting by that.
func TestASaveEndsALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.takes = time.Hour
		r.start()
		r.pass(lookEvery + time.Second) // in the first look
		r.save(time.Second, "a.go")
		r.expect("reloading reloaded reloading reloaded")
		r.stop()
	})
}

// TestLooksGoOnWhileASaveWaits, for the old generations that drain.
func TestLooksGoOnWhileASaveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works, over := r.up, make(chan struct{})
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			report, err := works(ctx, n, told)
			for generation := range maxDraining {
				report.Left = append(report.Left, runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: generation})
			}
			return report, err
		}
		r.retire = func(context.Context, runtime.Ref) (runtime.Change, error) { <-over; return runtime.Change{}, nil }
		r.takes = time.Millisecond
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second)
		r.save(lookEvery, "a.go")
		r.sees(bot(crashed(1, runtime.Failing)))
		r.pass(2 * lookEvery)
		r.expect("reloading reloaded waiting failing")
		close(over)
		r.stop()
	})
}

// lastExit is a driver that knows how something ended.
type lastExit struct {
	*rig
	exit runtime.Exit
}

func (l lastExit) LastExit(context.Context, runtime.Replica) *runtime.Exit { return &l.exit }

// TestHowItEndedIsAsked: where a look does not say.
func TestHowItEndedIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		load := r.o.Load
		r.o.Load = func(ctx context.Context, told Told, attached bool) (Stack, error) {
			s, err := load(ctx, told, attached)
			s.Driver = lastExit{r, runtime.Exit{Code: 3}}
			return s, err
		}
		r.sees(bot(fine))
		r.start()
		r.pass(lookEvery + time.Second) // the first look is over
		r.sees(bot(func(b *runtime.Replica) { b.Restarts = 1 }))
		r.pass(lookEvery)
		if e := r.last(Failing); e.Replica.Exit == nil || e.Replica.Exit.Code != 3 {
			t.Errorf("told %+v", e.Replica)
		}
		r.stop()
	})
}

// TestTheLastEvent says what is left, whatever ended the loop.
func TestTheLastEvent(t *testing.T) {
	broken := errors.New("the directory is gone")
	for name, c := range map[string]struct {
		prepare func(r *rig)
		end     func(r *rig)
		outcome Outcome
		url     string
	}{
		"Ctrl-C": {func(*rig) {}, func(r *rig) { r.cancel() }, Ended, ""},
		"--keep": {func(r *rig) { r.o.Keep = true }, func(r *rig) { r.cancel() }, LeftRunning, "http://127.0.0.1:4000"},
		"a down": {func(*rig) {}, func(r *rig) { r.sees(func() (runtime.Observed, error) { return runtime.Observed{}, nil }) }, Elsewhere, ""},
		"no watcher": {func(r *rig) {
			r.o.Next = func(context.Context, Until) (Change, error) { return Change{}, broken }
		}, func(*rig) {}, Broke, ""},
		"no start": {func(r *rig) {
			r.up = func(context.Context, int, Told) (runtime.Report, error) {
				return runtime.Report{}, fault.New(fault.Environment, "", "no engine")
			}
		}, func(*rig) {}, Broke, ""},
		"a bad start": {func(r *rig) {
			r.sees(func() (runtime.Observed, error) { return runtime.Observed{}, nil })
			r.up = func(context.Context, int, Told) (runtime.Report, error) {
				return runtime.Report{}, fault.New(fault.Failed, "", "no build")
			}
		}, func(r *rig) { r.cancel() }, NotStarted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				works := r.up
				r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
					report, err := works(ctx, n, told)
					report.URL = "http://127.0.0.1:4000"
					return report, err
				}
				c.prepare(r)
				r.start()
				r.pass(100 * time.Millisecond)
				c.end(r)
				<-r.over
				last := r.events[len(r.events)-1]
				if last.Kind != Stopped || last.Outcome != c.outcome || last.Report.URL != c.url || (last.Err != nil) != (c.outcome == Broke) {
					t.Errorf("the last event: %+v", last)
				}
			})
		})
	}
}

// TestStopping tells which agents still run.
func TestStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		load := r.o.Load
		r.o.Load = func(ctx context.Context, told Told, attached bool) (Stack, error) {
			s, err := load(ctx, told, attached)
			s.Agents = map[string]int{"bot": 1, "clerk": 1}
			return s, err
		}
		r.start()
		r.down = func() { time.Sleep(3 * stopEvery) } // and all that time bot still runs
		r.pass(100 * time.Millisecond)
		r.stop()
		r.expect("reloading reloaded stopping stopping stopped")
		if e := r.last(Stopping); !slices.Equal(e.Agents, []string{"bot"}) {
			t.Errorf("at last %q still run", e.Agents)
		}
	})
}

// TestAnAgentThatLeft is told once, when nothing is sent to it any more.
func TestAnAgentThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		works := r.up
		r.up = func(ctx context.Context, n int, told Told) (runtime.Report, error) {
			report, err := works(ctx, n, told)
			if n > 0 {
				report.Left = []runtime.Ref{{Agent: "bot", Replica: "bot-1", Generation: 1}, {Agent: "clerk", Replica: "clerk-1", Generation: 1}}
			}
			return report, err
		}
		r.retire = func(context.Context, runtime.Ref) (runtime.Change, error) {
			time.Sleep(time.Minute)
			return runtime.Change{}, nil
		}
		r.start()
		r.pass(time.Second)
		r.save(time.Second, "flisk.yaml")
		if e := r.last(Reloaded); !slices.Equal(e.Left, []string{"clerk"}) {
			t.Errorf("%q left", e.Left)
		}
		r.save(time.Second, "flisk.yaml")
		if e := r.last(Reloaded); e.Left != nil {
			t.Errorf("%q left again", e.Left)
		}
		r.stop()
	})
}

// TestFailedSaysWhoseFaultItIs, and which step failed.
func TestFailedSaysWhoseFaultItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.pass(time.Second)
		r.does(func(_ context.Context, _ int, told Told) (runtime.Report, error) {
			broken := fault.New(fault.Failed, "", "agent \"bot\" does not build")
			broken.Agents = []string{"bot"}
			return runtime.Report{}, runtime.StillRuns(plan().Do(told, func([]runtime.Step) error { return broken }))
		})
		r.change(time.Now(), "a.go", "b.go")
		r.pass(time.Second)
		if e := r.last(Failed); e.Step != runtime.Build || !slices.Equal(e.Broken, []string{"bot"}) {
			t.Errorf("told %+v", e)
		}
		r.stop()
	})
}
