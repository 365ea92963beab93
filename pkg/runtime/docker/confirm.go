package docker

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
)

// confirm asks for an agent's readiness as a client does, until it is answered
// by the table that the gateway shall have. An agent that is ready in its container
// and that the gateway does not reach is waited for a shorter time: nothing that it
// does would change that.
func (a *apply) confirm(ctx context.Context, agent string) error {
	l, err := a.d.place.readLive()
	if err != nil || l == nil {
		return cmp.Or(err, fmt.Errorf("there are no live routes in %q", a.d.place.routes()))
	}
	began := time.Now()
	within, reach := a.d.o.ReadyTimeout, min(a.d.o.ReadyTimeout, reachTime*a.d.o.GatewayTimeout)
	for looked := false; ; {
		status, routes, err := ask(ctx, a.target.address, agent)
		if err == nil && status == http.StatusOK && routes == l.Routes.Hash() {
			return nil
		}
		if err != nil {
			if gone := a.gatewayGone(ctx); gone != nil {
				return gone
			}
		}
		took := time.Since(began)
		if took > reach && !looked || took > within {
			looked = true
			now, ready, looking := a.readyInside(ctx, l, agent)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case ready:
				f := fault.New(fault.Failed, "see what compose.override.yaml says of the gateway and of networks, and what a firewall on the engine's machine does; flisk doctor looks at the rest",
					"agent %q is ready by itself, and the gateway does not reach it (%s)", agent, answered(status, err))
				f.Detail = gatewayWords(ctx, now)
				return f
			case took > within:
				f := fault.New(fault.Failed, "flisk logs "+agent+" may show why", "agent %q does not answer ready through the gateway (%s)", agent, answered(status, err))
				if looking == nil {
					f.Detail = gatewayWords(ctx, now)
				}
				return f
			}
		}
		if err := pause(ctx, readyPoll); err != nil {
			return err
		}
	}
}

// gatewayGone is the fault of a gateway that somebody removed or stopped, and that
// nothing brings back; nil while there is one.
func (a *apply) gatewayGone(ctx context.Context) error {
	l, err := a.d.look(ctx)
	if err != nil {
		return err
	}
	switch _, runs := l.gateway(); {
	case runs:
		return nil
	case len(l.gateways) == 0:
		return gatewayRemoved()
	}
	return a.gatewayFailed(ctx, l.gateways[0].ID, "has stopped")
}

// readyInside reports whether every generation of an agent that serves is ready in
// its container.
func (a *apply) readyInside(ctx context.Context, routes *live, agent string) (l look, ready bool, err error) {
	if l, err = a.d.look(ctx); err != nil {
		return l, false, err
	}
	for _, ref := range routes.refs() {
		if ref.Agent != agent {
			continue
		}
		c, ok := l.at(ref)
		if !ok || !c.runs() {
			return l, false, nil
		}
		if ready, err = healthy(ctx, l.e, c.ID, healthCommand(c.Config.Healthcheck)); err != nil || !ready {
			return l, false, err
		}
	}
	return l, ready, nil
}

// answered is what the gateway said last when it was asked for an agent's
// readiness, for people.
func answered(status int, err error) string {
	switch {
	case err != nil: // what a dial says is nothing to anybody
		return "it does not answer within " + askTime.String()
	case status == http.StatusOK:
		return "it answers by other routes than it should"
	}
	return fmt.Sprintf("it answers %d %s", status, http.StatusText(status))
}
