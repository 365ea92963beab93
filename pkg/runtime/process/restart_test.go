package process

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

func TestRestartStartsFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Stack.Agents = append(r.o.Stack.Agents, testAgentSpec(t, "ops"))
	r.install("ops", "c1")
	r.up()
	before := r.observe()
	slow := r.sent("bot", "700ms")
	r.logged("bot", "turn of 700ms begins")

	report, err := r.driver().Restart(t.Context(), "bot", r.p)
	if err != nil {
		t.Fatalf("restart: %v\n%s", err, r.p)
	}
	after := r.observe()
	bot, was := after.Replicas[0], before.Replicas[0]
	want := runtime.Change{
		Agent: "bot", Replica: "bot-1", Before: runtime.Process{PID: was.PID, Start: was.Start},
		After: runtime.Process{PID: bot.PID, Start: bot.Start},
	}
	if !report.Changed || len(report.Replaced) != 1 || report.Replaced[0] != want {
		t.Errorf("report: %+v, want %+v", report, want)
	}
	if bot.Generation != 2 || bot.State != runtime.Ready || bot.PID == was.PID || !reflect.DeepEqual(after.Replicas[1], before.Replicas[1]) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if got := <-slow; !strings.HasPrefix(got, "200 c1 ") {
		t.Errorf("the turn in flight was answered %q", got)
	}
	if report, err = r.driver().Restart(t.Context(), "", r.p); err != nil || len(report.Replaced) != 2 {
		t.Errorf("restart of all: %+v, %v", report, err)
	}
	if _, err := r.driver().Restart(t.Context(), "nobody", r.p); fault.KindOf(err) != fault.Usage {
		t.Errorf("restart of an agent that is not there: %v", err)
	}
}

func TestRestartThatFailsLeavesTheOldOneServing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	before := r.replica()
	program := filepath.Join(r.place().build, "bot-c1")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho broken; exit 9\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := r.driver().Restart(t.Context(), "", r.p)
	if f, ok := asFault(err); !ok || f.Kind != fault.Failed || !strings.Contains(f.Detail, "broken") {
		t.Errorf("restart: %v", err)
	}
	if after := r.replica(); !reflect.DeepEqual(after, before) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	r.mustTurn("bot", "")
}

func TestPlanChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, op := range []runtime.Op{runtime.OpUp, runtime.OpRestart} {
		plan, err := r.driver().Plan(t.Context(), op)
		if err != nil || len(plan) != 6 || plan[1].Do != runtime.StartGateway {
			t.Errorf("plan of nothing: %v\n%s", err, plan)
		}
	}
	if made, err := os.ReadDir(r.o.Home); err != nil || len(made) != 1 || made[0].Name() != "build" { // the rig's
		t.Errorf("a plan made %v (%v)", made, err)
	}
	r.up()
	before := r.replica()
	for op, steps := range map[runtime.Op]int{runtime.OpUp: 0, runtime.OpRestart: 6, runtime.OpDown: 2} {
		if plan, err := r.driver().Plan(t.Context(), op); err != nil || len(plan) != steps {
			t.Errorf("plan of %d: %v\n%s", op, err, plan)
		}
	}
	// What flisk.yaml changes is part of the settings.
	r.o.Stack.Agents[0].TurnTimeout++
	plan, err := r.driver().Plan(t.Context(), runtime.OpUp)
	if err != nil || len(plan) != 6 || plan[1].Cause != "turn_timeout 5s → 5.000000001s" {
		t.Errorf("plan of changed settings: %v\n%s", err, plan)
	}
	r.o.Stack.Agents[0].TurnTimeout--
	if after := r.replica(); !reflect.DeepEqual(after, before) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if _, err := r.driver().Plan(t.Context(), runtime.OpRestart, "nobody"); fault.KindOf(err) != fault.Usage {
		t.Errorf("plan for an agent that is not there: %v", err)
	}
}
