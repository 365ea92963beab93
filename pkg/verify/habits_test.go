package verify

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// An input may be any JSON, and is what the agent gets, however it is written.
func TestInputsOfAnyKind(t *testing.T) {
	t.Parallel()
	for name, inputs := range map[string][]string{
		"markup":    {`"Tom & Jerry"`, `"<b>what did I say?</b>"`, `"a > b"`},
		"lines":     {"\"one\u2028two\u2029three\"", `"one\u2028two, escaped"`, `"a\/b\u0026c"`},
		"non-ASCII": {`"grüß Gott, 你好 🐟"`, `"\u4f60\u597d, again"`, `"\ud83d\udc1f"`},
		"numbers":   {`1.0`, `1e300`, `-0`, `12345678901234567890.10`},
		"objects":   {`{"b":[1.0,{"a":"R&D <x>"}],"a":{"":null}}`, `[[["deep & deeper"]],true]`, `{"n":1e300}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOptions()
			o.Inputs = nil
			for _, in := range inputs {
				o.Inputs = append(o.Inputs, json.RawMessage(in))
			}
			report, err := Run(t.Context(), newBench(t, goodAgent(t)), o)
			if err != nil || report.Verdict != Held {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}

// What an agent stores may be written in another way than what it was sent.
func TestSameValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`"R&D"`, `"R\u0026D"`, true},
		{"\"a\u2028\"", `"a\u2028"`, true},
		{`{"a":1,"b":[2]}`, `{"b":[2],"a":1}`, true},
		{`1e400`, `1e400`, true},
		{`1`, `1.0`, false},
		{`12345678901234567890`, `12345678901234567891`, false},
		{`"1"`, `1`, false},
		{`[1,2]`, `[2,1]`, false},
		{`null`, ``, false},
	} {
		if got := sameValue(json.RawMessage(c.a), json.RawMessage(c.b)); got != c.want {
			t.Errorf("%s and %s: %t", c.a, c.b, got)
		}
	}
}

// An agent may hold by itself what another session says; only what comes from
// there is a leak.
func TestWordsThatAreTheAgentsOwn(t *testing.T) {
	t.Parallel()
	const (
		note = "\tif m, err := agent.NewMessage(\"system\", %); err == nil { cp.Messages = append(cp.Messages, m) }\n"
		// It leaves other messages in every session, so that these cannot be compared.
		later = "\tmenu := cp.Session\n\tif served.Add(1) > 1 { menu += \", and before?\" }\n"
	)
	noting := func(what string) string { return strings.Replace(note, "%", what, 1) }
	for _, c := range []struct {
		name, declare, code string
		want                Verdict
		says                string
	}{
		{"a menu", "", noting(`"Commands: remember 17, what did I say?, and before?"`), Held, "those of a session that has a process to itself"},
		{"a menu that differs", "", noting(`"and before? " + cp.Session`), Held, "its messages could only be searched"},
		{"a menu at times", "var served atomic.Int64\n\n", later + noting("menu"), Held, "what nobody comes up with was not taken over"},
		{"a menu and nothing else", "var served atomic.Int64\n\n", "\tif strings.ContainsAny(said, \"0123456789\") && said != \"remember 17\" { return agent.Reply{}, fmt.Errorf(\"no such command\") }\n" +
			later + noting("menu"), Unchecked, "whether it comes from there is open"},
		{"a cache of answers", "var answers sync.Map\n\n", "\tif _, known := answers.LoadOrStore(said, true); known { cp.State.First += \"!\" }\n", Held, "those of a session that has a process to itself"},
		{"the last input of all", "var last string\n\n", noting(`last + " " + cp.Session`) + "\tlast = said\n", Broken, `holds what was said in another one: "and before?"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const imports, begins, head = "import (\n\t\"context\"\n", "\tanswer, err := think(ctx, cp, said)\n", "// runTurn takes one input"
			packages := ""
			for _, name := range []string{"strings", "sync", "sync/atomic"} {
				if strings.Contains(c.declare+c.code, name[strings.LastIndex(name, "/")+1:]+".") {
					packages += "\t\"" + name + "\"\n"
				}
			}
			agent := patchedAgent(t, strings.ReplaceAll(c.name, " ", "-"), map[string][]edit{"../../turn.go": {
				{imports, imports + packages}, {head, c.declare + head}, {begins, c.code + begins},
			}})
			o := testOptions()
			o.Only = []string{"isolation"}
			report, err := Run(t.Context(), newBench(t, agent), o)
			if err != nil || report.Verdict != c.want || !strings.Contains(report.Checks[0].Summary(), c.says) {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}

// Turns that take nearly all the time that they have make those wait too long
// that are behind them. No guarantee is broken by that.
func TestTurnsThatTakeNearlyAllTheirTime(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	const imports, begins = "import (\n\t\"context\"\n", "\tanswer, err := think(ctx, cp, said)\n"
	tight := patchedAgent(t, "tight", map[string][]edit{"../../turn.go": {
		{imports, imports + "\t\"time\"\n"}, {begins, "\t<-time.After(850 * time.Millisecond)\n" + begins},
	}})
	for check, says := range map[string]string{
		"reload": "refused because the session was busy",
		"drain":  "could not be checked: it waited for as long as a turn may take, 1.0 s",
		"race":   "refused because the session was busy",
	} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tight)
			b.env.TurnTimeout = limit
			o := testOptions()
			o.Only, o.TurnTimeout = []string{check}, limit
			report, err := Run(t.Context(), b, o)
			if err != nil || report.Verdict != Held || !strings.Contains(report.Checks[0].Summary(), says) {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}

// An agent that takes short inputs only gets no long ones; and where the given
// ones are too long, that breaks nothing.
func TestShortBodies(t *testing.T) {
	t.Parallel()
	long := text("hello, which is far too long")
	for name, c := range map[string]struct {
		inputs []json.RawMessage
		only   []string
		want   Verdict
	}{
		"short":    {[]json.RawMessage{text("hello")}, nil, Held},
		"long":     {[]json.RawMessage{long}, nil, Unchecked},
		"one long": {[]json.RawMessage{text("hello"), long}, []string{"reload"}, Unchecked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, goodAgent(t))
			b.env.MaxBody = 32
			o := testOptions()
			o.Inputs, o.Only = c.inputs, c.only
			report, err := Run(t.Context(), b, o)
			if err != nil || report.Verdict != c.want || c.only == nil && report.Count(c.want) != len(Checks()) {
				t.Errorf("%v\n%s", err, table(report))
			}
		})
	}
}
