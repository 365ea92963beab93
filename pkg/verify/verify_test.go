package verify

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
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
