package verify

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"
)

func results(verdicts ...Verdict) Report {
	r := Report{Agent: "bot", Seed: 17}
	for _, v := range verdicts {
		r.Checks = append(r.Checks, Result{
			Check: "check-" + string(v), Promise: "it holds", Verdict: v, Reason: "because", Seen: []string{"a \x1b[31mred\x00 thing", "b"},
			Broken: []Finding{{Lost, "turn 2 <is> gone", "s"}}, Millis: 1500,
		})
	}
	return r
}

func TestWorstVerdictCounts(t *testing.T) {
	t.Parallel()
	for want, verdicts := range map[Verdict][][]Verdict{
		Held:      {{Held}, {Held, Skipped}},
		Unchecked: {{Held, Unchecked, Skipped}},
		Broken:    {{Held, Broken, Unchecked}, {Broken, Skipped}},
	} {
		for _, v := range verdicts {
			r := results(v...)
			r.conclude(&run{client: newClient("bot")}, time.Second)
			if r.Verdict != want {
				t.Errorf("%v come to %q, want %q", v, r.Verdict, want)
			}
		}
	}
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteJUnit(&out, []Report{results(Held, Broken, Unchecked, Skipped)}); err != nil {
		t.Fatal(err)
	}
	for dec := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
		if _, err := dec.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v\n%s", err, &out)
		}
	}
	for _, want := range []string{
		`<testsuite name="flisk verify bot" tests="4" failures="1" errors="1" skipped="1"`,
		`<property name="seed" value="17">`,
		`<testcase name="check-held" classname="flisk.verify.bot" time="1.500">`,
		`<failure message="lost: turn 2 &lt;is&gt; gone">`,
		`<error message="could not be checked: because">`,
		`<skipped message="because">`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %s:\n%s", want, &out)
		}
	}
}

// A consumer must be able to iterate over every list.
func TestReportHasNoNullLists(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), newBench(t, goodAgent(t)), Options{Agent: testAgent, Nonce: testNonce, Inputs: testOptions().Inputs, Only: []string{"isolation"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(report)
	if err != nil || strings.Contains(string(out), "null") {
		t.Errorf("%s, %v", out, err)
	}
	if len(report.Checks) != 1 || report.Checks[0].Verdict != Held || report.Turns != 7 {
		t.Errorf("%+v", report)
	}
}
