package process

import (
	"net"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

func TestC20_UpTurnDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	report := r.up()
	if !report.Changed || !report.Created || report.URL != r.url() || report.Place != r.place().volume {
		t.Errorf("report of the first up: %+v", report)
	}
	// The very first request after up is answered: no retry here.
	if got := r.mustTurn("bot", ""); !strings.HasPrefix(got, "c1 ") {
		t.Errorf("turn answered %q", got)
	}
	o := r.observe()
	if !o.Running || o.Dir != r.o.Stack.Dir || o.URL != r.url() || o.Routes == "" || len(o.Stale) > 0 {
		t.Errorf("observed: %+v", o)
	}
	bot := r.replica()
	if bot.State != runtime.Ready || !bot.Serving || bot.Name != "bot-1" || bot.Code != "c1" || bot.Restarts != 0 || bot.Started.IsZero() {
		t.Errorf("replica: %+v", bot)
	}
	agent, supervisor := identify(t, bot.PID), r.supervisor()
	if o.GatewayPID != supervisor.PID {
		t.Errorf("the gateway's process is %d, and %d is observed", supervisor.PID, o.GatewayPID)
	}

	if report := r.down(); !report.Changed {
		t.Errorf("report of down: %+v", report)
	}
	mustBeGone(t, agent)
	mustBeGone(t, supervisor)
	if !strings.Contains(r.p.String(), "end stop bot-1: exit code 0") {
		t.Errorf("the agent did not exit 0:\n%s", r.p)
	}
	if o := r.observe(); o.Running || len(o.Replicas) > 0 || len(o.Stale) > 0 {
		t.Errorf("observed after down: %+v", o)
	}
	if _, err := os.Stat(r.place().volume); err != nil {
		t.Errorf("down must keep the volume: %v", err)
	}
	if report := r.down(); report.Changed {
		t.Errorf("a second down changed something: %+v", report)
	}
}

func TestC19_SecondUpIsANoOp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	before := r.observe()
	if report := r.up(); report.Changed || report.Created {
		t.Errorf("a second up changed something: %+v", report)
	}
	after := r.observe()
	if len(after.Replicas) != 1 || !reflect.DeepEqual(after.Replicas[0], before.Replicas[0]) || after.Routes != before.Routes {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
}

func TestC20_AnAgentThatExitsFailsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mode(modeExit)
	_, err := r.driver().Up(t.Context(), r.p)
	f, ok := asFault(err)
	if !ok || f.Kind != fault.Failed || !strings.Contains(f.Message, "bot-1 ended before it was ready (exit code 7)") ||
		!strings.Contains(f.Detail, "the model key is missing") {
		t.Errorf("up: %+v", f)
	}
	r.mustBeClean() // and nothing waited for the 20 s of the rig
}

func TestC20_AnAgentThatNeverGetsReady(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mode(modeMute)
	r.o.ReadyTimeout = 300 * time.Millisecond
	_, err := r.driver().Up(t.Context(), r.p)
	f, ok := asFault(err)
	if !ok || f.Kind != fault.Failed || !strings.Contains(f.Message, "bot-1 was not ready within 300ms: it never will be") ||
		!strings.Contains(f.Detail, "started c1 as ") {
		t.Errorf("up: %+v", f)
	}
	r.mustBeClean()
}

func TestC19_PortInUse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(r.o.Stack.Gateway.Port))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.driver().Up(t.Context(), r.p)
	f, ok := asFault(err)
	if !ok || f.Kind != fault.Environment || !strings.Contains(f.Message, "port "+strconv.Itoa(r.o.Stack.Gateway.Port)+" is in use") ||
		!strings.Contains(f.Hint, "gateway.port") {
		t.Fatalf("up: %+v", err)
	}
	if pid, _ := claim.PortHolder(r.o.Stack.Gateway.Port); pid != 0 && !strings.Contains(f.Message, "by process "+strconv.Itoa(os.Getpid())+" (") {
		t.Errorf("the holder is not named: %q", f.Message)
	}
	r.mustBeClean()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	r.up()
	r.mustTurn("bot", "")
}

func TestC18_AnotherVolumeIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.down()
	refused := func(why string) {
		t.Helper()
		_, err := r.driver().Up(t.Context(), r.p)
		if f, ok := asFault(err); !ok || f.Kind != fault.Environment || !strings.Contains(f.Message, why) || !strings.Contains(f.Hint, r.memory().Path()) {
			t.Errorf("up: %v", err)
		}
		r.mustBeClean()
	}
	away := r.place().volume + ".away"
	if err := os.Rename(r.place().volume, away); err != nil {
		t.Fatal(err)
	}
	refused("is gone or was emptied")
	if err := os.Mkdir(r.place().volume, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("is gone or was emptied")
	other, _, err := checkpoint.InitVolume(r.place().volume)
	if err != nil {
		t.Fatal(err)
	}
	refused("is another volume (" + other + ") than")
	if err := os.RemoveAll(r.place().volume); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, r.place().volume); err != nil {
		t.Fatal(err)
	}
	name := r.o.Stack.Volume.Name
	r.o.Stack.Volume.Name = "another"
	refused(`are in volume "` + name + `"`)
	r.o.Stack.Volume.Name = name
	if report := r.up(); report.Created {
		t.Errorf("report: %+v", report)
	}
}

// put makes a session of an agent on the rig's volume.
func (r *rig) put(agent, session string) {
	r.t.Helper()
	store, err := checkpoint.Open(r.place().volume, checkpoint.Options{Agent: agent})
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	s, err := store.Acquire(r.t.Context(), session)
	if err != nil {
		r.t.Fatal(err)
	}
	defer s.Release()
	if _, err := s.Begin(checkpoint.Begin{Input: []byte(`"hi"`)}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := s.Commit(checkpoint.Commit{Reply: []byte(`"hello"`)}); err != nil {
		r.t.Fatal(err)
	}
}

// Renaming an agent is refused while it has sessions, until somebody says that
// they may be left alone. A name that is back is asked about again.
func TestARenamedAgentIsNotForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.put("bot", "s1")
	r.put("bot", "s2")
	r.down()
	rename := func(name string) {
		r.o.Stack.Agents = []stack.Agent{testAgentSpec(t, name)}
		r.install(name, *r.code)
	}
	refused := func(message string) {
		t.Helper()
		_, err := r.driver().Up(t.Context(), r.p)
		if f, ok := asFault(err); !ok || f.Kind != fault.Environment || f.Message != message ||
			!strings.Contains(f.Hint, "put the name back") || !strings.Contains(f.Hint, "flisk up --yes") {
			t.Errorf("up: %+v", err)
		}
		r.mustBeClean()
	}
	rename("clerk")
	refused(`the volume holds 2 sessions of agent "bot", and flisk.yaml names no such agent`)
	r.o.LeaveAgents = true
	r.up()
	r.down()
	r.o.LeaveAgents = false
	r.up() // asked once
	r.put("clerk", "s1")
	r.down()
	rename("bot")
	refused(`the volume holds 1 session of agent "clerk", and flisk.yaml names no such agent`)
	r.o.Stack.Agents = append(r.o.Stack.Agents, testAgentSpec(t, "clerk"))
	r.up() // all are there, nothing is left to remember
	r.down()
	rename("clerk")
	refused(`the volume holds 2 sessions of agent "bot", and flisk.yaml names no such agent`)
}

// Replacing says which of the two is stopped, and a start that failed how.
func TestStepsSayWhich(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	r.change("c2")
	r.up()
	if !strings.Contains(r.p.String(), "begin stop bot-1 (old)\n") {
		t.Errorf("a replacement:\n%s", r.p)
	}
	r.p = &progress{}
	r.change("c3")
	env := r.o.Env
	r.mode(modeMute)
	r.o.ReadyTimeout = 300 * time.Millisecond
	if _, err := r.driver().Up(t.Context(), r.p); err == nil {
		t.Error("a mute agent got ready")
	}
	if got := r.p.String(); !strings.Contains(got, "end start bot-1: not ready after ") || !strings.Contains(got, "begin stop bot-1 (new)\n") {
		t.Errorf("a replacement that never got ready:\n%s", got)
	}
	r.p, r.o.Env = &progress{}, env
	r.mode(modeExit)
	if _, err := r.driver().Up(t.Context(), r.p); err == nil {
		t.Error("an agent that exits got ready")
	}
	if got := r.p.String(); !strings.Contains(got, "end start bot-1: exit code 7 after ") || strings.Contains(got, "stop bot-1") {
		t.Errorf("a replacement that exits:\n%s", got)
	}
	r.p, r.o.Env = &progress{}, env
	r.down()
	if !strings.Contains(r.p.String(), "begin stop bot-1\n") {
		t.Errorf("down:\n%s", r.p)
	}
}

func TestAnotherCopyOfTheProjectIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	mine := r.o.Stack.Dir
	r.o.Stack.Dir = t.TempDir()
	_, err := r.driver().Up(t.Context(), r.p)
	if f, ok := asFault(err); !ok || f.Kind != fault.Environment || !strings.Contains(f.Message, mine) ||
		!strings.HasPrefix(f.Hint, "run this one beside it, with conversations of its own: flisk up --instance NAME; or stop the other: flisk -C ") {
		t.Errorf("up from a copy: %v", err)
	}
	if _, err := r.driver().Down(t.Context(), r.p); fault.KindOf(err) != fault.Environment {
		t.Errorf("down from a copy: %v", err)
	}
	r.mustTurn("bot", "")

	// A directory that was moved is not a copy (C18).
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	r.up()
	if o := r.observe(); o.Dir != r.o.Stack.Dir {
		t.Errorf("the project is in %q, and %q is observed", r.o.Stack.Dir, o.Dir)
	}
}

func TestC08_ABrokenChangeLeavesTheOldOneServing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	before := r.observe()
	env := r.o.Env
	r.change("c2")
	r.mode(modeExit)
	if _, err := r.driver().Up(t.Context(), r.p); fault.KindOf(err) != fault.Failed {
		t.Errorf("up: %v", err)
	}
	after := r.observe()
	if len(after.Replicas) != 1 || !reflect.DeepEqual(after.Replicas[0], before.Replicas[0]) {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if got := r.mustTurn("bot", ""); !strings.HasPrefix(got, "c1 ") {
		t.Errorf("turn answered %q", got)
	}
	r.o.Env = env // the fix
	r.up()
	if got := r.mustTurn("bot", ""); !strings.HasPrefix(got, "c2 ") {
		t.Errorf("turn answered %q", got)
	}
}

func TestSecretsStayOffTheDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	file := t.TempDir() + "/.env"
	if err := os.WriteFile(file, []byte("FROM_ENV_FILE=hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.o.Stack.Agents[0].EnvFiles = []string{file}
	r.up()
	if got := r.mustTurn("bot", ""); !strings.HasSuffix(got, " hunter2") {
		t.Errorf("turn answered %q", got)
	}
	for _, dir := range []string{r.o.Home, r.o.RunBase} {
		grep(t, dir, "hunter2")
	}
	// A changed value is a changed setting.
	if err := os.WriteFile(file, []byte("FROM_ENV_FILE=hunter3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.up()
	if got := r.mustTurn("bot", ""); !strings.HasSuffix(got, " hunter3") {
		t.Errorf("turn answered %q", got)
	}
}

func TestUpGivesUpWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mode(modeMute)
	ctx, cancel := interruptible(t)
	failed := make(chan error, 1)
	go func() {
		_, err := r.driver().Up(ctx, r.p)
		failed <- err
	}()
	r.logged("bot", "started c1")
	cancel()
	if err := <-failed; fault.KindOf(err) != fault.Interrupted {
		t.Errorf("up: %v", err)
	}
	r.mustBeClean()
}

func TestTwoUpsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 4
	reports := make(chan bool, n)
	for range n {
		go func() {
			report, err := r.driver().Up(t.Context(), r.p)
			if err != nil {
				t.Errorf("up: %v", err)
			}
			reports <- report.Changed
		}()
	}
	changed := 0
	for range n {
		if <-reports {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d of %d ups changed something, want 1", changed, n)
	}
	if !strings.Contains(r.p.String(), "wait for another flisk command") {
		t.Errorf("nobody said that it waits:\n%s", r.p)
	}
	if status, body := r.turn("bot", ""); status != http.StatusOK {
		t.Errorf("turn: %d %s", status, body)
	}
}

// hooked is a progress that calls begin before each step.
type hooked struct {
	runtime.Progress
	begin func(step string)
}

func (h hooked) Begin(step string) func(string, error) {
	h.begin(step)
	return h.Progress.Begin(step)
}

// TestPortTakenDuringAMove: between the look at the new port and its use there is
// the drain of everything that runs, and then there is no way back.
func TestPortTakenDuringAMove(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.excused = " is in use " // where the new supervisor finds out, and not who starts it
	r.up()
	r.o.Stack.Gateway.Port = porttest.Free(t)
	progress := hooked{r.p, func(step string) {
		if step == "stop gateway" {
			runtimetest.Occupy(t, r.o.Stack.Gateway.Port)
		}
	}}
	_, err := r.driver().Up(t.Context(), progress)
	f, ok := asFault(err)
	if !ok || !strings.Contains(f.Message, "is in use") || !strings.Contains(f.Message, "nothing of the project runs now") || !strings.HasSuffix(f.Hint, "; then flisk up") {
		t.Errorf("up: %+v", err)
	}
	r.mustBeClean()
}
