package process

import (
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/stack"
)

// Each budget has time to see the ones inside it end by themselves. These are
// the values that an agent and the supervisor are given, not those of a file.
func TestC12_BudgetsNest(t *testing.T) {
	t.Parallel()
	r := scaffolded(t)
	target, err := r.driver().target("v1")
	if err != nil {
		t.Fatal(err)
	}
	given := target.agent("bot").start(runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1})
	for _, step := range []struct {
		inner, outer string
		in, out      time.Duration
	}{
		{"two polls", "linger", 2*readyPoll - 1, given.Env.Linger},
		{"turn timeout", "drain", given.Env.TurnTimeout, given.Env.Drain},
		{"linger and drain", "stop grace", given.Env.Linger + given.Env.Drain, given.Grace},
		{"stop of a replica", "driver timeout", letGoTime + given.Grace + killTime + logTail, stack.DriverTimeout(given.Grace)},
		{"rollback", "driver timeout", letGoTime + rollbackGrace + killTime + logTail, stack.DriverTimeout(given.Grace)},
		{"end of a gateway", "gateway timeout", copyGrace + settleTime, gatewayTimeout},
	} {
		if step.in >= step.out {
			t.Errorf("%s (%s) is not below %s (%s)", step.inner, step.in, step.outer, step.out)
		}
	}
}

// A supervisor that does not answer has the time that its replicas have now, not
// that of the first up.
func TestSupervisorHasTheGraceOfWhatRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.up()
	const longer = 5 * time.Minute
	r.o.Stack.Agents[0].StopGrace = longer
	r.up()
	if got, most := r.place().supervisorTimeout(), letGoTime+longer+killTime+logTail+copyGrace+settleTime; got <= most {
		t.Errorf("it is given %s, and may need %s", got, most)
	}
}
