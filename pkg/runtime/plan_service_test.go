package runtime

import (
	"slices"
	"strings"
	"testing"
)

func with(d Desired, setup string, services ...Service) Desired {
	d.Setup, d.Services = setup, services
	return d
}

func (o Observed) with(setup string, services ...Service) Observed {
	o.Setup, o.Services = setup, services
	return o
}

// Plans where the gateway has settings of its own, and things run that are
// neither an agent nor the gateway.
func TestPlansWithServices(t *testing.T) {
	t.Parallel()
	db, cache := Service{Name: "db", Settings: "d1"}, Service{Name: "cache", Settings: "c1"}
	one := replica("bot-1", 1, "c1", "s1")
	moved := bot(1, "c1", "s2")
	moved.Gateway = "127.0.0.1:9090"
	for _, tt := range []struct {
		name     string
		desired  Desired
		observed Observed
		op       Op
		want     string
	}{
		{"nothing runs: services come before those that may need them", with(bot(1, "c1", "s1"), "g1", db, cache), Observed{}, OpUp, `
build          bot               it does not run
start service  db                it does not run
start service  cache             it does not run
start gateway                    nothing listens on 127.0.0.1:8080 yet
start          bot-1.1           it does not run
await          bot-1.1           it gets requests only when it is ready
switch routes  bot-1.1           these are ready and as desired
confirm        bot               done means that clients get answers
`},
		{"C19: a second up has nothing to do", with(bot(1, "c1", "s1"), "g1", db, cache), running(one).with("g1", db, cache), OpUp, ``},
		{"only what changed is made again", with(bot(1, "c1", "s1"), "g1", Service{Name: "db", Settings: "d2"}, cache), running(one).with("g1", db, cache), OpUp, `
stop service   db                its settings changed
start service  db                its settings changed
`},
		{"one that stopped is started", with(bot(1, "c1", "s1"), "g1", db), running(one).with("g1", Service{"db", "d1", true}), OpUp, `
start service  db                it has stopped
`},
		{"one that is gone from the project is stopped last", with(bot(1, "c2", "s1"), "g1", db), running(one).with("g1", db, cache), OpUp, `
build          bot               its code changed
start          bot-1.2           its code changed
await          bot-1.2           it gets requests only when it is ready
switch routes  bot-1.2           these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
stop service   cache             the project has no such service any more
`},
		{"restart leaves services alone", with(bot(1, "c1", "s1"), "g1", db), running(one).with("g1", db), OpRestart, `
build          bot               restart was asked for
start          bot-1.2           restart was asked for
await          bot-1.2           it gets requests only when it is ready
switch routes  bot-1.2           these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
`},
		{"a gateway with other settings: agents stay", with(bot(1, "c1", "s1"), "g2"), running(one).with("g1"), OpUp, `
swap gateway                     its settings changed
`},
		{"a gateway that moves: agents learn of it, and do not stop before others are ready", with(moved, "g2"), running(one).with("g1"), OpUp, `
build          bot               the gateway moves from 127.0.0.1:8080 to 127.0.0.1:9090
start          bot-1.2           the gateway moves from 127.0.0.1:8080 to 127.0.0.1:9090
await          bot-1.2           it gets requests only when it is ready
swap gateway                     the gateway moves from 127.0.0.1:8080 to 127.0.0.1:9090
switch routes  bot-1.2           these are ready and as desired
confirm        bot               done means that clients get answers
stop           bot-1.1           replaced by bot-1.2
`},
		{"C15: down stops services last, in reverse", Desired{}, running(one).with("g1", db, cache), OpDown, `
stop           bot-1.1           down was asked for
stop gateway                     down was asked for
stop service   cache             down was asked for
stop service   db                down was asked for
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan := NewPlan(tt.desired, tt.observed, tt.op)
			if got, want := plan.String(), strings.TrimPrefix(tt.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if got, want := plan.Changes(), tt.want != ""; got != want {
				t.Errorf("Changes is %t, want %t", got, want)
			}
		})
	}
}

// Whatever services are observed, a second plan is empty.
func TestC19_PlansWithServicesConverge(t *testing.T) {
	t.Parallel()
	var all [][]Service
	for i := range 4 * 4 {
		var some []Service
		for j, name := range []string{"db", "cache"} {
			switch k := i >> (2 * j) & 3; k {
			case 1, 2:
				some = append(some, Service{Name: name, Settings: "v1", Stopped: k == 2})
			case 3:
				some = append(some, Service{Name: name, Settings: "v2"})
			}
		}
		all = append(all, some)
	}
	for _, desired := range all {
		if slices.ContainsFunc(desired, func(s Service) bool { return s.Stopped }) {
			continue
		}
		for _, observed := range all {
			want := with(Desired{Gateway: here}, "g1", desired...)
			now := running().with("g0", observed...)
			for _, s := range NewPlan(want, now, OpUp) {
				byName := func(o Service) bool { return o.Name == s.Service }
				switch s.Do {
				case StopService:
					now.Services = slices.DeleteFunc(slices.Clone(now.Services), byName)
				case StartService:
					now.Services = slices.DeleteFunc(slices.Clone(now.Services), byName)
					now.Services = append(now.Services, desired[slices.IndexFunc(desired, byName)])
				case SwapGateway:
					now.Setup = want.Setup
				}
			}
			if again := NewPlan(want, now, OpUp); len(again) > 0 {
				t.Fatalf("from %+v to %+v a second plan is\n%s", observed, desired, again)
			}
		}
	}
}
