package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

func testOptions() Options {
	return Options{
		Agent: testAgent, Nonce: testNonce, Seed: 4711, Hold: 500 * time.Millisecond, Drain: testDrain,
		Inputs: []json.RawMessage{json.RawMessage(`"remember 17"`), json.RawMessage(`"what did I say?"`), json.RawMessage(`"and before?"`)},
	}
}

// table is a report for the log of a test.
func table(r Report) string {
	var out strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&out, "%-12s %-16s %5d ms  %2d turns  %s\n", c.Check, c.Verdict, c.Millis, c.Turns, c.Summary())
	}
	return out.String()
}

// wholeRun is what a verification of the scaffold may take. A test shares its
// machine with others, and is asked for a fifth of the speed.
const wholeRun = time.Minute

// The scaffold is never red.
func TestScaffoldHolds(t *testing.T) {
	t.Parallel()
	runs := 1
	if os.Getenv("FLISK_TEST_LONG") != "" {
		runs = 20
	}
	for i := range runs {
		o := testOptions()
		o.Seed += uint64(i)
		report, err := Run(t.Context(), newBench(t, goodAgent(t)), o)
		if err != nil {
			t.Fatal(err)
		}
		if report.Verdict != Held || report.Count(Held) != len(Checks()) || report.Count(Skipped) != len(NeverChecked()) {
			t.Fatalf("run %d: %s\n%s", i+1, report.Verdict, table(report))
		}
		if report.Code != "c0de" || report.Turns > Turns(Checks()) {
			t.Errorf("code %q, %d turns of %d", report.Code, report.Turns, Turns(Checks()))
		}
		took := time.Duration(report.Millis) * time.Millisecond
		if took > 5*wholeRun {
			t.Errorf("it took %s, more than 5 times the %s that it may take", took, wholeRun)
		}
		if i == 0 {
			t.Logf("%s of %s\n%s", took, wholeRun, table(report))
		}
	}
}

// An agent that trims and an agent whose words differ every time keep their
// promises: what two undisturbed sessions do not have in common shows nothing.
func TestAgentsOfManyHabits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, code, seen string }{
		{"keeps two messages", "\tif n := len(cp.Messages); n > 2 { cp.Messages = cp.Messages[n-2:] }\n", "its messages and state are those of a session without a kill"},
		{"says whose session it is", "\tif true { cp.State.Last = cp.Session; return agent.Text(fmt.Sprint(cp.Session, cp.Turn)), nil }\n", "its state could not be checked: it differs already between two sessions without a kill"},
		{"notes what differs", "\tif m, err := agent.NewMessage(\"tool\", cp.Session); err == nil { cp.Messages = append(cp.Messages, m) }\n", "every message stayed as it was"},
		{"notes what differs and trims", "\tif m, err := agent.NewMessage(\"tool\", cp.Session); err == nil { cp.Messages = append(cp.Messages[max(0, len(cp.Messages)-3):], m) }\n", "its own messages could not be checked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.Only = []string{"continuity", "crash", "lost-reply"}
			report, err := Run(t.Context(), newBench(t, ownCode(t, strings.ReplaceAll(c.name, " ", "-"), c.code)), o)
			if err != nil || report.Verdict != Held || !strings.Contains(report.Checks[1].Summary(), c.seen) {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}

// An agent whose state is a matter of luck keeps its promises, too.
func TestAgentsOfManyMoods(t *testing.T) {
	t.Parallel()
	runs := 6
	if os.Getenv("FLISK_TEST_LONG") != "" {
		runs = 100
	}
	const imports, begins, turns = "import (\n\t\"context\"\n", "\tanswer, err := think(ctx, cp, said)\n", "// runTurn takes one input"
	for _, c := range []struct{ name, declare, mood string }{
		{"a coin", "", `[]string{"calm", "upset"}[rand.IntN(2)]`},
		{"a rare mood", "", `[]string{"calm", "calm", "calm", "calm", "upset"}[rand.IntN(5)]`},
		{"one of three", "", `[]string{"calm", "upset", "bored"}[rand.IntN(3)]`},
		{"a clock", "", `[]string{"calm", "upset"}[time.Now().UnixMilli()/70%2]`},
		{"a process", "var mood = []string{\"calm\", \"upset\"}[rand.IntN(2)]\n\n", "mood"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			agent := patchedAgent(t, "moody", map[string][]edit{"../../turn.go": {
				{imports, imports + "\t\"math/rand/v2\"\n\t\"time\"\n"},
				{turns, "var _, _ = rand.IntN, time.Now\n\n" + c.declare + turns},
				{begins, "\tdefer func() { cp.State.Last = " + c.mood + " }()\n" + begins},
			}})
			told := 0
			for i := range runs {
				o := testOptions()
				o.Seed, o.Only = o.Seed+uint64(i), []string{"continuity", "isolation", "crash", "lost-reply"}
				report, err := Run(t.Context(), newBench(t, agent), o)
				if err != nil || report.Verdict == Broken {
					t.Fatalf("run %d: %v\n%s", i+1, err, table(report))
				}
				for _, c := range report.Checks {
					// The turns that there are to spare may not do to tell it from chance.
					if c.Verdict == Unchecked && !strings.Contains(c.Reason, "whether by chance is open") {
						t.Errorf("run %d: %s: %s", i+1, c.Check, c.Reason)
					}
				}
				told += strings.Count(table(report), "its state could not be")
			}
			t.Logf("%d of %d checks could not compare the state", told, 4*runs)
		})
	}
}

// An agent that does not queue refuses what others let wait, and that breaks
// nothing.
func TestAgentThatRejects(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent(t))
	b.env.OnBusy = turn.BusyReject
	report, err := Run(t.Context(), b, testOptions())
	if err != nil || report.Verdict != Held {
		t.Errorf("%v\n%s", err, table(report))
	}
}

// Inputs by which no session can be told from another must not make isolation
// hold: a text that is like no other one is added, or the messages are compared;
// and where neither is possible, nothing is said to hold.
func TestIsolationOfEqualInputs(t *testing.T) {
	t.Parallel()
	const head = "func runTurn(ctx context.Context, cp *agent.Checkpoint[Memory], input agent.Input) (agent.Reply, error) {\n"
	leaky := patchedAgent(t, "leaky", map[string][]edit{"../../turn.go": {{head,
		"var all string\n\n" + head + "\tall += input.Text()\n\tif true { cp.State.Last = all; return agent.Text(\"noted\"), nil }\n"}}})
	differs := patchedAgent(t, "differs", map[string][]edit{"../../turn.go": {{head,
		head + "\tif m, err := agent.NewMessage(\"tool\", cp.Session); err == nil { cp.Messages = append(cp.Messages, m); return agent.Text(\"noted\"), nil }\n"}}})
	number := json.RawMessage(`{"n":1}`)
	for _, c := range []struct {
		name, agent string
		input       json.RawMessage
		want        Verdict
		says        string
	}{
		{"a text", leaky, text("hi"), Broken, "holds what was said in another one"},
		{"no text", mutatedAgent(t, "shared-messages"), number, Broken, "the messages of a session that met others"},
		{"no text, and messages that differ", differs, number, Unchecked, "could be told apart"},
		{"the scaffold", goodAgent(t), text("hi"), Held, "those of a session that has a process to itself"},
		{"the scaffold, without a text", goodAgent(t), number, Held, "those of a session that has a process to itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.Only, o.Inputs = []string{"isolation"}, []json.RawMessage{c.input}
			report, err := Run(t.Context(), newBench(t, c.agent), o)
			if err != nil || report.Verdict != c.want || !strings.Contains(report.Checks[0].Summary(), c.says) {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}

// A turn that a drain cuts when its time is up shows that turns take long, and
// not that the drain is broken.
func TestSlowTurnsAreNoCut(t *testing.T) {
	t.Parallel()
	const imports, begins = "import (\n\t\"context\"\n", "\tanswer, err := think(ctx, cp, said)\n"
	slow := patchedAgent(t, "slow", map[string][]edit{"../../turn.go": {
		{imports, imports + "\t\"time\"\n"},
		{begins, fmt.Sprintf("\tselect {\n\tcase <-ctx.Done():\n\tcase <-time.After(%d):\n\t}\n", testDrain*9/10) + begins},
	}})
	for _, check := range []string{"drain", "reload"} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.Only = []string{check}
			report, err := Run(t.Context(), newBench(t, slow), o)
			if err != nil || report.Verdict != Unchecked || !strings.Contains(report.Checks[0].Reason, "verify.env") {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}

// A hold that an earlier request had is not taken for that of a later one.
func TestHoldOfAnEarlierRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent(t))
	if err := b.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &run{Options: testOptions(), target: b, lot: rand.New(rand.NewPCG(1, 0)), client: newClient(testAgent)}
	s := &scene{run: r, Check: Check{Name: "test", Turns: 2}}
	l := s.session()
	var ids []string
	for range 2 {
		f, err := s.hold(t.Context(), l, turn.PointBegun, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		<-f.over
		if f.id != f.answer.result.TurnID {
			t.Errorf("the turn %q was seen, and it was %q", f.id, f.answer.result.TurnID)
		}
		ids = append(ids, f.id)
	}
	if ids[0] == ids[1] {
		t.Errorf("both are %q", ids[0])
	}
	s.flights.Wait()
}

// An agent that is not ready any more is told of with its last words.
func TestLastWords(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent(t))
	b.log("no model today")
	b.log("  ")
	s := &scene{run: &run{target: b}}
	if err := s.withLastWords(t.Context(), errors.New("not ready")); err.Error() != `not ready; the last that it wrote: "no model today"` {
		t.Error(err)
	}
}

// What is broken leaves its evidence behind: the volume, the log, and a report
// with the seed.
func TestEvidenceIsKept(t *testing.T) {
	t.Parallel()
	o := testOptions()
	o.Only, o.Keep = []string{"crash"}, filepath.Join(t.TempDir(), "kept")
	report, err := Run(t.Context(), killMisses{newBench(t, goodAgent(t))}, o)
	if err != nil || report.Verdict != Broken || report.KeptError != nil {
		t.Fatalf("%v, %v\n%s", err, report.KeptError, table(report))
	}
	var kept Report
	text, err := os.ReadFile(filepath.Join(report.Kept, keptReport))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &kept); err != nil || kept.Seed != o.Seed || kept.Kept != report.Kept || len(kept.Checks) != len(report.Checks) {
		t.Errorf("kept %s, %v", text, err)
	}
	reader, err := checkpoint.OpenReader(filepath.Join(report.Kept, keptVolume), testAgent)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if view, err := reader.View(t.Context(), report.Checks[0].Broken[0].Session); err != nil || view.Turn != 1 {
		t.Errorf("the kept session is at turn %d, %v", view.Turn, err)
	}
	if log, err := os.ReadFile(filepath.Join(report.Kept, keptLog)); err != nil || !strings.Contains(string(log), "msg=hold") {
		t.Errorf("the kept log is %q, %v", log, err)
	}
}

// Evidence of what was broken already is kept when somebody stops the run.
func TestEvidenceIsKeptWhenInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stopped := errors.New("stopped by the test")
	o := testOptions()
	o.Only, o.Keep = []string{"crash", "replay"}, filepath.Join(t.TempDir(), "kept")
	o.Begin = func(c Check) func(Result) {
		if c.Name == "replay" {
			cancel(stopped)
		}
		return func(Result) {}
	}
	report, err := Run(ctx, killMisses{newBench(t, goodAgent(t))}, o)
	if !errors.Is(err, stopped) || len(report.Checks) != 1 || report.Verdict != Broken || report.KeptError != nil {
		t.Fatalf("%v, %v\n%s", err, report.KeptError, table(report))
	}
	if _, err := os.Stat(filepath.Join(report.Kept, keptReport)); err != nil {
		t.Error(err)
	}
}

// The same seed makes the same sessions and keys.
func TestSeedReplays(t *testing.T) {
	t.Parallel()
	o := testOptions()
	o.Only = []string{"replay"}
	var sessions []string
	for range 2 {
		report, err := Run(t.Context(), newBench(t, goodAgent(t)), o)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, report.Checks[0].Sessions...)
	}
	if len(sessions) != 4 || !slices.Equal(sessions[:2], sessions[2:]) {
		t.Errorf("sessions %q", sessions)
	}
}

// An agent that holds nothing, an old library for example, proves nothing.
func TestUnseenHoldIsNoProof(t *testing.T) {
	t.Parallel()
	b := newBench(t, goodAgent(t))
	b.env.Verify = ""
	o := testOptions()
	o.Only = []string{"drain"}
	report, err := Run(t.Context(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Checks[0]; report.Verdict != Unchecked || !strings.Contains(r.Reason, "was not held") {
		t.Errorf("%s\n%s", report.Verdict, table(report))
	}
}

// A target that cannot do its part breaks no guarantee.
func TestTargetThatFails(t *testing.T) {
	t.Parallel()
	failed := errors.New("no such thing")
	report, err := Run(t.Context(), brokenRestart{newBench(t, goodAgent(t)), failed}, func() Options { o := testOptions(); o.Only = []string{"continuity"}; return o }())
	if err != nil || report.Verdict != Unchecked || !strings.Contains(report.Checks[0].Reason, failed.Error()) {
		t.Errorf("%v\n%s", err, table(report))
	}
	if _, err := Run(t.Context(), brokenUp{failed: failed}, testOptions()); !errors.Is(err, failed) {
		t.Errorf("a target that does not come up: %v", err)
	}
}

type brokenRestart struct {
	*bench
	failed error
}

func (b brokenRestart) Restart(context.Context) (Change, error) { return Change{}, b.failed }

type brokenUp struct {
	Target
	failed error
}

func (b brokenUp) Up(context.Context) error { return b.failed }

// ownCode is the scaffold with something else at the beginning of each turn.
func ownCode(t *testing.T, name, code string) string {
	t.Helper()
	const begins = "\tanswer, err := think(ctx, cp, said)\n"
	return patchedAgent(t, name, map[string][]edit{"../../turn.go": {{begins, code + begins}}})
}

// An agent whose code fails by itself proves nothing, whenever it fails: that is
// no request that a drain or a reload cut.
func TestFailureOfItsOwnIsNoCut(t *testing.T) {
	t.Parallel()
	agent := ownCode(t, "unwell", `
	switch said {
	case "fail":
		return agent.Reply{}, fmt.Errorf("the model is unwell")
	case "panic":
		panic("the model is unwell")
	case "big":
		return agent.Text(fmt.Sprintf("%09000000d", 0)), nil
	}
`)
	for _, c := range []struct {
		check  string
		inputs []json.RawMessage
	}{
		{"drain", []json.RawMessage{text("hello"), text("fail")}},                                                    // the one that SIGTERM meets
		{"drain", []json.RawMessage{text("hello"), text("panic")}},                                                   // the same
		{"drain", []json.RawMessage{text("hello"), text("big")}},                                                     // the same
		{"reload", []json.RawMessage{text("hello"), text("fail")}},                                                   // some of the load
		{"reload", append([]json.RawMessage{text("panic")}, slices.Repeat([]json.RawMessage{text("hello")}, 20)...)}, // the long one
	} {
		t.Run(c.check+string(c.inputs[0])+string(c.inputs[1]), func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.Only, o.Inputs = []string{c.check}, c.inputs
			report, err := Run(t.Context(), newBench(t, agent), o)
			if err != nil || report.Verdict != Unchecked || !strings.Contains(report.Checks[0].Reason, "the agent's own code failed a turn") {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}

// Only what the agent's code did by itself is its own failure.
func TestFailedItself(t *testing.T) {
	t.Parallel()
	own := []turn.Code{turn.RunFailed, turn.ReplyTooLarge, turn.StateMismatch}
	const limit = time.Second
	for _, code := range turn.Codes() {
		if got := (answer{problem: code, took: limit - 1}).failedItself(limit); got != slices.Contains(own, code) {
			t.Errorf("%s: %t", code, got)
		}
	}
	if !(answer{problem: turn.TurnTimeout, took: limit}).failedItself(limit) {
		t.Error("a turn that took all its time did not fail by itself")
	}
}

// A state that differs whenever the same code runs shows no leak, and the report
// says that it was not compared.
func TestStateThatAlwaysDiffers(t *testing.T) {
	t.Parallel()
	o := testOptions()
	o.Only = []string{"isolation"}
	agent := ownCode(t, "signs", "\tdefer func() { cp.State.Last = cp.Session }()\n")
	report, err := Run(t.Context(), newBench(t, agent), o)
	if err != nil || report.Verdict != Held || !strings.Contains(report.Checks[0].Summary(), "its state could not be compared: equal turns in new processes leave unequal ones") || report.Turns != 9 {
		t.Errorf("%v\n%s", err, table(report))
	}
	report, err = Run(t.Context(), newBench(t, goodAgent(t)), o)
	if err != nil || report.Verdict != Held || !strings.Contains(report.Checks[0].Summary(), "its messages and state are those of a session that has a process to itself") || report.Turns != 7 {
		t.Errorf("%v\n%s", err, table(report))
	}
}

// Whenever it is stopped, it ends soon, with the cause, and tells of no check
// that did not end.
func TestInterruptedAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			stopped := errors.New("stopped by the test")
			o := testOptions()
			o.Only = []string{c.Name}
			b := newBench(t, goodAgent(t))
			report, err := Run(ctx, stopper{b, func() { cancel(stopped) }}, o)
			if !errors.Is(err, stopped) || len(report.Checks) != 0 {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}

// stopper stops the run in the middle of a check: when it first asks for
// something beyond Up, or for the volume.
type stopper struct {
	*bench
	stop func()
}

func (s stopper) ReadVolume(ctx context.Context, read func(string) error) error {
	s.stop()
	return s.bench.ReadVolume(ctx, read)
}

func (s stopper) Logs(ctx context.Context, follow bool, emit func(string) error) error {
	s.stop()
	return s.bench.Logs(ctx, follow, emit)
}

// C25: what answers while nobody is there is waited out, and the gap is told.
func TestC25_NotReadyIsWaitedFor(t *testing.T) {
	t.Parallel()
	statuses := []int{http.StatusNotFound, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusOK}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(statuses[asked])
		asked++
	}))
	gap, err := newClient(testAgent).ready(t.Context(), server.URL)
	if err != nil || asked != len(statuses) || gap < 4*readyPoll/2 {
		t.Errorf("asked %d times, a gap of %s, %v", asked, gap, err)
	}
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*readyPoll)
	defer cancel()
	if _, err := newClient(testAgent).ready(ctx, server.URL); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody listens: %v", err)
	}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refuses.Close()
	if _, err := newClient(testAgent).ready(t.Context(), refuses.URL); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("an answer that will not change: %v", err)
	}
}

// No check may send more turns than it says.
func TestTurnsAreBounded(t *testing.T) {
	t.Parallel()
	s := &scene{run: &run{client: newClient(testAgent), target: newBench(t, goodAgent(t))}, Check: Check{Turns: 1}}
	if err := s.target.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := (&ledger{session: "s"}).add("k", text("hello"), "")
	if got, err := s.post(t.Context(), a); err != nil || !got.ok() {
		t.Fatalf("%s, %v", got, err)
	}
	if _, err := s.post(t.Context(), a); err == nil || s.result.Turns != 1 {
		t.Errorf("a turn too many was sent: %v", err)
	}
	most := 0
	for _, c := range Checks() {
		most += c.Most()
		if one := []Check{c}; Turns(one) != c.Most() {
			t.Errorf("%s alone sends %d turns, and says %d", c.Name, Turns(one), c.Most())
		}
	}
	if n := Turns(Checks()); n >= most || n > 50 {
		t.Errorf("all checks send %d turns, %d one by one: above 50 everybody would be asked", n, most)
	}
	for _, c := range Checks() {
		if rounds*c.Again > SpareTurns || (c.Again == 0) != (c.Undisturbed == 0) {
			t.Errorf("%s needs %d turns to tell a difference from chance, and there are %d", c.Name, rounds*c.Again, SpareTurns)
		}
	}
}
