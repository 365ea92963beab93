package process

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// leaving is a rig with two generations of its agent: one serves, and the other
// has a turn and is left. The turn's answer comes later.
func leaving(t *testing.T) (r *rig, old runtime.Ref, answer <-chan string) {
	t.Helper()
	r = newRig(t)
	r.o.Leave = true
	r.up()
	answer = r.sent("bot", "700ms")
	r.logged("bot", "turn of 700ms begins")
	r.change("c2")
	report := r.up()
	if len(report.Left) != 1 || len(report.Replaced) > 0 {
		t.Fatalf("up left %+v", report)
	}
	return r, report.Left[0], answer
}

func (r *rig) mustAnswer(answer <-chan string, code string) {
	r.t.Helper()
	if got := <-answer; !strings.HasPrefix(got, "200 "+code+" ") {
		r.t.Errorf("the turn of what was left: %s", got)
	}
}

// TestRetire takes what an up left through its drain, while the new one serves.
func TestRetire(t *testing.T) {
	t.Parallel()
	r, old, answer := leaving(t)
	before := r.observe().Replicas
	if len(before) != 2 || before[0].Serving == before[1].Serving {
		t.Fatalf("there are %+v", before)
	}
	if got := r.mustTurn("bot", ""); !strings.HasPrefix(got, "c2 ") {
		t.Errorf("beside it answers %q", got)
	}
	type retired struct {
		change runtime.Change
		err    error
	}
	var both [2]retired
	var all sync.WaitGroup
	for i := range both {
		d := r.driver()
		all.Go(func() { both[i].change, both[i].err = d.Retire(t.Context(), old) })
	}
	if got := r.mustTurn("bot", ""); !strings.HasPrefix(got, "c2 ") {
		t.Errorf("meanwhile answers %q", got)
	}
	r.mustAnswer(answer, "c1")
	all.Wait()
	now := r.replica()
	seen := 0
	for i, got := range both {
		if got.err != nil {
			t.Errorf("retire %d: %v", i, got.err)
		}
		if got.change.Before == (runtime.Process{}) {
			continue // it came when all was over
		}
		seen++
		if c := got.change; c.Agent != "bot" || c.Replica != "bot-1" || c.Exit != (runtime.Exit{}) || c.After != (runtime.Process{PID: now.PID, Start: now.Start}) {
			t.Errorf("retire %d: %+v", i, c)
		}
	}
	if seen == 0 {
		t.Error("nobody saw how it ended")
	}
	if now.Code != "c2" || !now.Serving {
		t.Errorf("what runs: %+v", now)
	}

	ref := runtime.Ref{Agent: now.Agent, Replica: now.Name, Generation: now.Generation}
	if _, err := r.driver().Retire(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "serves") {
		t.Errorf("one that serves: %v", err)
	}
	if after := r.replica(); after.PID != now.PID {
		t.Errorf("one that serves was replaced: %+v", after)
	}
	gone := func(when string) {
		t.Helper()
		if change, err := r.driver().Retire(t.Context(), old); err != nil || change != (runtime.Change{Agent: "bot", Replica: "bot-1"}) {
			t.Errorf("one that is gone %s: %+v, %v", when, change, err)
		}
	}
	gone("beside another")
	r.down()
	gone("with everything")
}

// TestRetireBesideOtherChanges neither waits for them nor minds when they were
// first.
func TestRetireBesideOtherChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *rig) error{
		"up":   func(r *rig) error { _, err := r.driver().Up(r.t.Context(), r.p); return err },
		"down": func(r *rig) error { _, err := r.driver().Down(r.t.Context(), r.p); return err },
		"an up that changes": func(r *rig) error {
			r.change("c3")
			_, err := r.driver().Up(r.t.Context(), r.p)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, old, answer := leaving(t)
			r.o.Leave = false
			var all sync.WaitGroup
			d := r.driver()
			all.Go(func() {
				if _, err := d.Retire(t.Context(), old); err != nil {
					t.Errorf("retire: %v", err)
				}
			})
			if err := change(r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			r.mustAnswer(answer, "c1")
			all.Wait()
			if name == "down" {
				if o := r.observe(); o.Running || len(o.Replicas) > 0 {
					t.Errorf("down left %+v", o)
				}
				return
			}
			want := map[string]string{"up": "c2", "an up that changes": "c3"}[name]
			if now := r.replica(); now.Code != want || !now.Serving {
				t.Errorf("what runs: %+v", now)
			}
		})
	}
}

// TestKillBesideADrain: what finishes its turns is left to do so, and nothing is
// waited for in its place.
func TestKillBesideADrain(t *testing.T) {
	t.Parallel()
	r, old, answer := leaving(t)
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := r.driver().Retire(t.Context(), old); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the drain to begin", func() bool {
		return slices.ContainsFunc(r.observe().Replicas, func(seen runtime.Replica) bool { return seen.State == runtime.Draining })
	})
	killed, err := r.driver().Kill(t.Context(), "bot")
	if err != nil || len(killed) != 1 {
		t.Errorf("kill: %+v, %v", killed, err)
	}
	r.mustAnswer(answer, "c1")
	all.Wait()
	if got := r.mustTurn("bot", ""); !strings.HasPrefix(got, "c2 ") {
		t.Errorf("then answers %q", got)
	}
}
