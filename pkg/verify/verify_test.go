package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
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
		if report.Verdict != Held || report.Count(Held) != len(Checks()) || report.Count(Skipped) != 1 {
			t.Fatalf("run %d: %s\n%s", i+1, report.Verdict, table(report))
		}
		if report.Code != "c0de" || report.Turns > Turns(Checks()) {
			t.Errorf("code %q, %d turns of %d", report.Code, report.Turns, Turns(Checks()))
		}
		if i == 0 {
			t.Log("\n" + table(report))
		}
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
	if view, err := reader.View(t.Context(), report.Checks[0].Sessions[0]); err != nil || view.Turn != 1 {
		t.Errorf("the kept session is at turn %d, %v", view.Turn, err)
	}
	if log, err := os.ReadFile(filepath.Join(report.Kept, keptLog)); err != nil || !strings.Contains(string(log), "msg=hold") {
		t.Errorf("the kept log is %q, %v", log, err)
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
	if len(sessions) != 2 || sessions[0] != sessions[1] {
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
	}
`)
	for _, c := range []struct {
		check  string
		inputs []json.RawMessage
	}{
		{"drain", []json.RawMessage{text("hello"), text("fail")}},                                                    // the one that SIGTERM meets
		{"drain", []json.RawMessage{text("hello"), text("panic")}},                                                   // the same
		{"reload", []json.RawMessage{text("hello"), text("fail")}},                                                   // some of the load
		{"reload", append([]json.RawMessage{text("panic")}, slices.Repeat([]json.RawMessage{text("hello")}, 20)...)}, // the long one
	} {
		t.Run(c.check+string(c.inputs[0])+string(c.inputs[1]), func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.Only, o.Inputs = []string{c.check}, c.inputs
			report, err := Run(t.Context(), newBench(t, agent), o)
			if err != nil || report.Verdict != Unchecked || !strings.Contains(report.Checks[0].Reason, "500 run-failed") {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
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
	if err != nil || report.Verdict != Held || !strings.Contains(report.Checks[0].Summary(), "its state is not compared") || report.Turns != 5 {
		t.Errorf("%v\n%s", err, table(report))
	}
	report, err = Run(t.Context(), newBench(t, goodAgent(t)), o)
	if err != nil || report.Verdict != Held || !strings.Contains(report.Checks[0].Summary(), "its state is that of a new process") || report.Turns != 4 {
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

func (s stopper) Volume() string { s.stop(); return s.bench.Volume() }

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
	if n := Turns(Checks()); n > 50 {
		t.Errorf("all checks send %d turns: above 50 everybody would be asked", n)
	}
}
