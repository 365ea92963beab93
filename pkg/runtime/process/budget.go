package process

import (
	"time"

	"github.com/flisk-go/flisk/pkg/stack"
)

// What stopping takes, from the inside out. What comes with the stack is inside
// of it: turn timeout < drain < stop grace < [stack.DriverTimeout].
const (
	// letGoTime bounds how long the gateway is waited for before a replica gets
	// SIGTERM: enough for every request that was given to it to have arrived
	// there. From then on its own drain takes care of them.
	letGoTime = time.Second

	// killTime is from SIGKILL to the end of a process.
	killTime = 5 * time.Second

	// logTail is how long the output of a dead process is waited for. Its group
	// is dead as well then, so only a process that left the group can keep the
	// pipe open.
	logTail = 2 * time.Second

	// copyGrace is how long the gateway goes on when the replicas are gone: what
	// is left then is answers on their way to slow clients.
	copyGrace = 10 * time.Second

	// settleTime is how long control calls may take to be answered at the end.
	settleTime = 2 * time.Second

	// gatewayTimeout is how long a supervisor without replicas may take to end.
	gatewayTimeout = copyGrace + settleTime + 5*time.Second
)

// rollbackGrace is the grace of a replica that never got a request.
const rollbackGrace = 5 * time.Second

// supervisorTimeout is how long the supervisor may take from SIGTERM to its end.
// It is asked when the supervisor does not answer; the records have the grace of
// what runs now.
func (p place) supervisorTimeout() time.Duration {
	grace := time.Duration(0)
	for _, r := range p.records() {
		grace = max(grace, r.Grace)
	}
	return stack.DriverTimeout(grace) + gatewayTimeout
}
