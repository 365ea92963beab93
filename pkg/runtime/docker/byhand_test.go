package docker

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestRemovedByHand: what somebody removed past flisk is shown as what should run
// and does not, and the next change mends it and says what it had to start.
func TestRemovedByHand(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		p.MustTurn("s1", "a")
		byHand := func(what string, do func(e *engine, l look) error) runtime.Observed {
			t.Helper()
			l, err := driverOf(p).look(t.Context())
			if err == nil {
				err = do(mustEngine(t, p), l)
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			return p.Observe()
		}
		remove := func(e *engine, c seen) error {
			if _, _, err := e.signalContainer(t.Context(), c.ID, syscall.SIGKILL); err != nil {
				return err
			}
			return e.removeContainer(t.Context(), c.ID)
		}
		restarted := func(turn int, input string) {
			t.Helper()
			r := p.Restart()
			if len(r.Replaced) > 0 || !slices.Equal(r.Filled, []string{"bot-1"}) {
				t.Errorf("the restart says %+v", r)
			}
			if a := p.MustTurn("s1", input); a.Turn != turn {
				t.Errorf("the turn after it: %+v", a)
			}
		}

		o := byHand("docker rm -f of the agent", func(e *engine, l look) error { return remove(e, l.agents[0]) })
		if !o.Running || len(o.Replicas) != 1 || o.Replicas[0].Name != "bot-1" || o.Replicas[0].State != runtime.Gone ||
			!strings.Contains(o.Replicas[0].Detail, "flisk up") || len(o.Stale) > 0 {
			t.Errorf("without the agent's container: %+v", o)
		}
		restarted(2, "b")

		byHand("docker kill of the agent", func(e *engine, l look) error {
			_, _, err := e.signalContainer(t.Context(), l.agents[0].ID, syscall.SIGKILL)
			return err
		})
		restarted(3, "another") // the same again could be a retry

		o = byHand("docker rm -f of the gateway", func(e *engine, l look) error { return remove(e, l.gateways[0]) })
		if !o.Running || o.URL != "" || len(o.Stale) != 1 || !strings.Contains(o.Stale[0], "gateway's container was removed") ||
			len(o.Replicas) != 1 || !strings.Contains(o.Replicas[0].Detail, "there is no gateway") || strings.Contains(o.Replicas[0].Detail, "right now") {
			t.Errorf("without the gateway's container: %+v", o)
		}
		before := o.Replicas[0].PID
		if r := p.Up(); !r.Changed || len(r.Filled) > 0 || p.Replica().PID != before {
			t.Errorf("the up that brings the gateway back: %+v", r)
		}
		p.MustTurn("s1", "c")

		o = byHand("docker rm -f of both", func(e *engine, l look) error {
			if err := remove(e, l.gateways[0]); err != nil {
				return err
			}
			return remove(e, l.agents[0])
		})
		if o.Running || len(o.Replicas) > 0 || len(o.Stale) > 0 {
			t.Errorf("without any container, as after docker compose down: %+v", o)
		}
		if r := p.Restart(); len(r.Replaced)+len(r.Filled) > 0 || !r.Changed {
			t.Errorf("the restart where nothing ran: %+v", r)
		}
		p.MustTurn("s1", "d")
	})
}
