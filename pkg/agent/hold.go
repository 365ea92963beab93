package agent

import (
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// holdAt makes the agent wait at a point of a turn if its request asked for it
// there, so that a prover can kill it exactly there. The line that it logs is
// what the prover waits for.
func (e *engine) holdAt(req request, p turn.Point, turnID string) {
	if req.hold.Point != p {
		return
	}
	e.log.Info("hold", "point", string(p), "session", req.session, "turn", turnID)
	timer := time.NewTimer(req.hold.For)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
	}
}
