package runtime

import (
	"slices"
	"strings"
	"testing"
)

const here = "127.0.0.1:8080"

func bot(replicas int, code, settings string) Desired {
	return Desired{Gateway: here, Agents: []Want{{"bot", replicas, code, settings, nil}}}
}

func running(replicas ...Replica) Observed {
	return Observed{Running: true, Gateway: here, Replicas: replicas}
}

func replica(name string, generation int, code, settings string) Replica {
	agent, _, _ := strings.Cut(name, "-")
	return Replica{Agent: agent, Name: name, Generation: generation, State: Ready, Serving: true, Code: code, Settings: settings}
}

func named(d Desired, settings ...Setting) Desired {
	d.Agents[0].Named = settings
	return d
}

func (r Replica) named(settings ...Setting) Replica {
	r.Named = settings
	return r
}

func set(name, value string) Setting    { return Setting{Name: name, Value: value} }
func secret(name, value string) Setting { return Setting{Name: name, Value: value, Secret: true} }

// A value of an environment variable is in no cause, whatever becomes of it.
func TestChangesHideSecrets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		old, now []Setting
		want     string
	}{
		{nil, nil, ""},
		{[]Setting{set("drain", "2m0s")}, []Setting{set("drain", "2m0s")}, ""},
		{nil, []Setting{secret("KEY", "hidden")}, "KEY is new"},
		{[]Setting{secret("KEY", "hidden")}, nil, "KEY is gone"},
		{[]Setting{secret("KEY", "hidden")}, []Setting{secret("KEY", "hush")}, "KEY changed"},
		{[]Setting{secret("KEY", "hidden")}, []Setting{set("KEY", "hush")}, "KEY changed"},
		{nil, []Setting{secret("A", ""), secret("B", ""), secret("C", ""), secret("D", ""), secret("E", "")}, "A is new, B is new, C is new, and 2 more"},
	} {
		if got := changes(c.old, c.now); got != c.want {
			t.Errorf("%v → %v: %q, want %q", c.old, c.now, got, c.want)
		}
	}
}

func (r Replica) in(state State, serving bool) Replica {
	r.State, r.Serving = state, serving
	return r
}

func TestPlans(t *testing.T) {
	t.Parallel()
	two := Desired{Gateway: here, Agents: []Want{{"bot", 1, "c1", "s1", nil}, {"ops", 1, "c2", "s1", nil}}}
	moved := bot(1, "c1", "s1")
	moved.Gateway = "127.0.0.1:9090"
	for _, tt := range []struct {
		name     string
		desired  Desired
		observed Observed
		op       Op
		want     string
		agents   []string
	}{
		{"nothing runs", bot(2, "c1", "s1"), Observed{}, OpUp, `
build          bot               it does not run
start gateway                    nothing listens on 127.0.0.1:8080 yet
start          bot-1.1           it does not run
start          bot-2.1           it does not run
await          bot-1.1           it gets requests only when it is ready
await          bot-2.1           it gets requests only when it is ready
switch routes  bot-1.1 bot-2.1   these are ready and as desired
confirm        bot               done means that clients get answers
`, nil},
		{"C19: a second up has nothing to do", bot(1, "c1", "s1"), running(replica("bot-1", 1, "c1", "s1")), OpUp, ``, nil},
		{"C08 C12 C25: changed code starts first, and touches no other agent", two,
			running(replica("bot-1", 3, "c0", "s1"), replica("ops-1", 1, "c2", "s1")), OpUp, `
build          bot               its code changed
start          bot-1.4           its code changed
await          bot-1.4           it gets requests only when it is ready
switch routes  bot-1.4 ops-1.1   these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.3           replaced by bot-1.4
`, nil},
		{"changed settings", bot(1, "c1", "s2"), running(replica("bot-1", 1, "c1", "s1")), OpUp, `
build          bot               its settings changed
start          bot-1.2           its settings changed
await          bot-1.2           it gets requests only when it is ready
switch routes  bot-1.2           these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
`, nil},
		{"changed settings that have names", named(bot(1, "c1", "s2"), set("turn_timeout", "30s"), set("gateway.hosts", "bot.test"), secret("MODEL_KEY", "b")),
			running(replica("bot-1", 1, "c1", "s1").named(set("turn_timeout", "1m40s"), set("gateway.hosts", ""), secret("MODEL_KEY", "a"))), OpUp, `
build          bot               turn_timeout 1m40s → 30s, gateway.hosts none → bot.test, MODEL_KEY changed
start          bot-1.2           turn_timeout 1m40s → 30s, gateway.hosts none → bot.test, MODEL_KEY changed
await          bot-1.2           it gets requests only when it is ready
switch routes  bot-1.2           these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
`, nil},
		{"a replica that is being restarted is waited for", bot(1, "c1", "s1"),
			running(replica("bot-1", 1, "c1", "s1").in(Failing, true)), OpUp, `
await          bot-1.1           it is failing
confirm        bot               done means that clients get answers
`, nil},
		{"an up that was killed before its switch is finished", bot(1, "c2", "s1"),
			running(replica("bot-1", 1, "c1", "s1"), replica("bot-1", 2, "c2", "s1").in(Waiting, false)), OpUp, `
switch routes  bot-1.2           these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
`, nil},
		{"an up that was killed after its switch is finished", bot(1, "c2", "s1"),
			running(replica("bot-1", 1, "c1", "s1").in(Waiting, false), replica("bot-1", 2, "c2", "s1")), OpUp, `
stop           bot-1.1           replaced by bot-1.2
`, nil},
		{"going back to what still serves", bot(1, "c1", "s1"),
			running(replica("bot-1", 1, "c1", "s1"), replica("bot-1", 2, "c2", "s1").in(Failing, false)), OpUp, `
stop           bot-1.2           replaced by bot-1.1
`, nil},
		{"C18: a project that was moved", Desired{Dir: "/new", Gateway: here, Agents: []Want{{"bot", 1, "c1", "s1", nil}}}, running(replica("bot-1", 1, "c1", "s1")), OpUp, `
switch routes  bot-1.1           the project moved to /new
`, nil},
		{"a gateway without anything", bot(1, "c1", "s1"), running(), OpUp, `
build          bot               it does not run
start          bot-1.1           it does not run
await          bot-1.1           it gets requests only when it is ready
switch routes  bot-1.1           these are ready and as desired
confirm        bot               done means that clients get answers
`, nil},
		{"fewer replicas and agents", bot(1, "c1", "s1"),
			running(replica("bot-1", 1, "c1", "s1"), replica("bot-2", 1, "c1", "s1"), replica("ops-1", 1, "c2", "s1")), OpUp, `
switch routes  bot-1.1           these are ready and as desired
stop           bot-2.1           1 of this agent shall run
stop           ops-1.1           the project has no such agent any more
`, nil},
		{"the gateway moves: what can fail early comes before the gap", moved, running(replica("bot-1", 2, "c1", "s1")), OpUp, `
build          bot               the gateway moves from 127.0.0.1:8080 to 127.0.0.1:9090
stop           bot-1.2           the gateway moves from 127.0.0.1:8080 to 127.0.0.1:9090
stop gateway                     the gateway moves from 127.0.0.1:8080 to 127.0.0.1:9090
start gateway                    nothing listens on 127.0.0.1:9090 yet
start          bot-1.1           the gateway moves from 127.0.0.1:8080 to 127.0.0.1:9090
await          bot-1.1           it gets requests only when it is ready
switch routes  bot-1.1           these are ready and as desired
confirm        bot               done means that clients get answers
`, nil},
		{"C15: down stops agents before the gateway", Desired{},
			running(replica("bot-1", 1, "c1", "s1"), replica("bot-1", 2, "c2", "s1").in(Starting, false)), OpDown, `
stop           bot-1.1           down was asked for
stop           bot-1.2           down was asked for
stop gateway                     down was asked for
`, nil},
		{"down twice", Desired{}, Observed{}, OpDown, ``, nil},
		{"restart of one starts first, and touches no other agent", two,
			running(replica("bot-1", 1, "c1", "s1"), replica("ops-1", 1, "c2", "s1")), OpRestart, `
build          bot               restart was asked for
start          bot-1.2           restart was asked for
await          bot-1.2           it gets requests only when it is ready
switch routes  bot-1.2 ops-1.1   these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
`, []string{"bot"}},
		{"restart of all, in one switch", Desired{Gateway: here, Agents: []Want{{"bot", 2, "c1", "s1", nil}, {"ops", 1, "c2", "s1", nil}}},
			running(replica("bot-1", 1, "c1", "s1"), replica("bot-2", 1, "c1", "s1"), replica("ops-1", 7, "c2", "s1")), OpRestart, `
build          bot               restart was asked for
build          ops               restart was asked for
start          bot-1.2           restart was asked for
start          bot-2.2           restart was asked for
start          ops-1.8           restart was asked for
await          bot-1.2           it gets requests only when it is ready
await          bot-2.2           it gets requests only when it is ready
await          ops-1.8           it gets requests only when it is ready
switch routes  bot-1.2 bot-2.2 ops-1.8  these are ready and as desired
confirm        bot               done means that clients get answers
confirm        ops               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
stop           bot-2.1           replaced by bot-2.2
stop           ops-1.7           replaced by ops-1.8
`, nil},
		{"restart of one applies what changed of the others, and says so", two,
			running(replica("bot-1", 1, "c0", "s1"), replica("ops-1", 1, "c2", "s0")), OpRestart, `
build          bot               its code changed
build          ops               its settings changed
start          bot-1.2           its code changed
start          ops-1.2           its settings changed
await          bot-1.2           it gets requests only when it is ready
await          ops-1.2           it gets requests only when it is ready
switch routes  bot-1.2 ops-1.2   these are ready and as desired
confirm        bot               done means that clients get answers
confirm        ops               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
stop           ops-1.1           replaced by ops-1.2
`, []string{"bot"}},
		{"restart after one that was killed replaces what both left", bot(1, "c1", "s1"),
			running(replica("bot-1", 1, "c1", "s1"), replica("bot-1", 2, "c1", "s1").in(Waiting, false)), OpRestart, `
build          bot               restart was asked for
start          bot-1.3           restart was asked for
await          bot-1.3           it gets requests only when it is ready
switch routes  bot-1.3           these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.1           replaced by bot-1.3
stop           bot-1.2           replaced by bot-1.3
`, nil},
		{"restart of nothing is up", bot(1, "c1", "s1"), Observed{}, OpRestart, `
build          bot               it does not run
start gateway                    nothing listens on 127.0.0.1:8080 yet
start          bot-1.1           it does not run
await          bot-1.1           it gets requests only when it is ready
switch routes  bot-1.1           these are ready and as desired
confirm        bot               done means that clients get answers
`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan := NewPlan(tt.desired, tt.observed, tt.op, tt.agents...)
			if got, want := plan.String(), strings.TrimPrefix(tt.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			waits := strings.Contains(tt.name, "waited for")
			if got, want := plan.Changes(), tt.want != "" && !waits; got != want {
				t.Errorf("Changes is %t, want %t", got, want)
			}
		})
	}
}

// Whatever is observed, doing the plan must lead to a state with an empty plan:
// otherwise a second up would not be a no-op.
func TestC19_PlansConverge(t *testing.T) {
	t.Parallel()
	states := []State{Starting, Ready, Draining, Failing} // Ready is Waiting where it does not serve
	for _, desired := range []Desired{bot(1, "c1", "s1"), bot(2, "c1", "s1"), {Gateway: here}} {
		for i := range 2 * 2 * 4 * 2 {
			for j := range 2 * 2 * 4 * 2 {
				var seen []Replica
				for generation, k := range []int{i, j} {
					r := replica("bot-1", generation+1, []string{"c1", "c0"}[k&1], []string{"s1", "s0"}[k>>1&1])
					r = r.in(states[k>>2&3], k>>4 == 1)
					if r.State == Ready && !r.Serving {
						r.State = Waiting
					}
					seen = append(seen, r)
				}
				for _, op := range []Op{OpUp, OpRestart} {
					after := simulate(running(seen...), NewPlan(desired, running(seen...), op), desired)
					if again := NewPlan(desired, after, OpUp); len(again) > 0 {
						t.Fatalf("from %+v a second plan, after operation %d, is\n%s", seen, op, again)
					}
				}
			}
		}
	}
}

// simulate does the steps on paper.
func simulate(o Observed, plan Plan, desired Desired) Observed {
	replicas := map[Ref]Replica{}
	for _, r := range o.Replicas {
		replicas[Ref{r.Agent, r.Name, r.Generation}] = r
	}
	for _, s := range plan {
		switch r := replicas[s.Ref()]; s.Do {
		case Start:
			r = replica(s.Replica, s.Generation, desired.Agents[0].Code, desired.Agents[0].Settings)
			replicas[s.Ref()] = r.in(Starting, false)
		case Await:
			replicas[s.Ref()] = r.in(Waiting, false)
			if r.Serving {
				replicas[s.Ref()] = r.in(Ready, true)
			}
		case Stop:
			delete(replicas, s.Ref())
		case Switch:
			for ref, r := range replicas {
				switch serves := slices.Contains(s.Serve, ref); {
				case r.State == Ready && !serves:
					r.State = Waiting
				case r.State == Waiting && serves:
					r.State = Ready
				}
				replicas[ref] = r.in(r.State, slices.Contains(s.Serve, ref))
			}
		}
	}
	o.Replicas = nil
	for _, r := range replicas {
		o.Replicas = append(o.Replicas, r)
	}
	return o
}
