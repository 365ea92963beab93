package runtime

import (
	"slices"
	"testing"
)

func TestFilled(t *testing.T) {
	t.Parallel()
	desired := Desired{Gateway: "127.0.0.1:8080", Agents: []Want{{Agent: "bot", Replicas: 2, Code: "c1"}}}
	runs := Replica{Agent: "bot", Name: "bot-1", Generation: 4, State: Ready, Serving: true, Code: "c1"}
	gone := Replica{Agent: "bot", Name: "bot-2", Generation: 3, State: Gone}
	for name, c := range map[string]struct {
		op       Op
		observed Observed
		want     []string
	}{
		"nothing ran":             {OpRestart, Observed{}, nil},
		"one of two ran":          {OpRestart, Observed{Running: true, Gateway: desired.Gateway, Replicas: []Replica{runs}}, []string{"bot-2"}},
		"one was removed by hand": {OpUp, Observed{Running: true, Gateway: desired.Gateway, Replicas: []Replica{runs, gone}}, []string{"bot-2"}},
		"only the gateway ran":    {OpUp, Observed{Running: true, Gateway: desired.Gateway}, []string{"bot-1", "bot-2"}},
	} {
		plan := NewPlan(desired, c.observed, c.op)
		if got := Filled(plan, c.observed); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q by\n%s", name, got, c.want, plan)
		}
		for _, s := range plan {
			if s.Do == Stop && s.Ref() == (Ref{"bot", "bot-2", 3}) {
				t.Errorf("%s: it stops what is not there:\n%s", name, plan)
			}
		}
	}
}
