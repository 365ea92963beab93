package process

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
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

// A replica that the gateway has let go of hears so by the end of its lifeline,
// and one that has requests in flight does not.
func TestLetGo(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"idle": true, "with a turn": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			script := filepath.Join(dir.Name(), "agent")
			if err := os.WriteFile(script, []byte("#!/bin/sh\ntrap '' TERM\necho started\ncat <&3\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			log, err := openLog(filepath.Join(dir.Name(), "bot.log"), maxLogFile)
			if err != nil {
				t.Fatal(err)
			}
			defer log.close()
			grace := killTime
			if !gone {
				grace = 100 * time.Millisecond // nothing but SIGKILL ends it
			}
			k := newKeeper(startRequest{
				Ref: runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1}, Binary: script, WorkDir: dir.Name(), Grace: grace,
			}, dir, log, func(string) {}, letGo(gone))
			ended := make(chan struct{})
			go func() { defer close(ended); k.run() }()
			eventually(t, "the agent to start", func() bool {
				data, _ := os.ReadFile(log.path)
				return strings.Contains(string(data), " started\n")
			})
			k.stop(0)
			<-ended
			if got := k.stopped(); got.Killed == gone || gone && got.How != (runtime.Exit{}) {
				t.Errorf("it ended as %+v", got)
			}
		})
	}
}

// letGo is a hub that says whether a replica has nothing in flight.
type letGo bool

func (letGo) changed()                       {}
func (gone letGo) letGo(stack.Endpoint) bool { return bool(gone) }

// TestIdleDrain: nothing waits for an agent that has nothing to do. The best of
// three counts: the machine does other things, too.
func TestIdleDrain(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, suitePlace(t))
	p.Up()
	for range 3 {
		p.MustTurn("s1", "a")
		p.Restart()
	}
	best := time.Hour
	for _, found := range regexp.MustCompile(`end stop bot-1 \(old\): exit code 0 after (\d+) ms`).FindAllStringSubmatch(p.P.String(), -1) {
		if ms, err := strconv.Atoi(found[1]); err == nil {
			best = min(best, time.Duration(ms)*time.Millisecond)
		}
	}
	t.Logf("an idle agent drains in %s", best)
	if best >= linger {
		t.Errorf("an idle agent drains in %s, and lingers for %s", best, linger)
	}
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
