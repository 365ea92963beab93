package dev

import (
	"context"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// places are what the looks know of the replicas that get requests, by name. The
// zero value knows none.
type places struct {
	at    map[string]*place
	fresh map[string]bool // agents that the loop has just replaced; false for those where that failed
}

// place is one replica as it was last seen.
type place struct {
	runtime.Replica
	told  bool      // that it is not fine
	ended time.Time // when it was last seen to have ended
	odd   int       // looks in a row in which it was not ready, and nothing says why
}

// calm is how long one that had ended must be fine: one that ends at every turn is
// ready in between.
const calm = 2 * time.Second

// maxOdd looks may find a replica unready before that is told: one that is busy may
// not have answered in time.
const maxOdd = 1

// started says that the loop replaced what there was of these agents.
func (p *places) started(agents []string) {
	if p.at == nil {
		p.at, p.fresh = map[string]*place{}, map[string]bool{}
	}
	for _, agent := range agents {
		p.fresh[agent] = true
		for name, known := range p.at {
			if known.Agent == agent {
				delete(p.at, name)
			}
		}
	}
}

// failed says that the loop tried to. Most of the time what ran before still does.
func (p *places) failed(agents []string) {
	for _, agent := range agents {
		if p.fresh != nil && !p.fresh[agent] {
			p.fresh[agent] = false
		}
	}
}

// notice tells what became of the replicas since the last look; but for those of
// which it is told why they are brought back.
func (l *loop) notice(ctx context.Context, seen runtime.Observed) {
	var restarted []string
	for _, r := range seen.Replicas {
		if !r.Serving || r.State == runtime.Gone || cutOff(r) || l.running.Agents[r.Agent] == 0 {
			continue
		}
		known, ok := l.places.at[r.Name]
		if !ok || known.Generation != r.Generation || known.Restarts > r.Restarts {
			if _, own := l.places.fresh[r.Agent]; ok && known.Generation != r.Generation && !own {
				restarted = append(restarted, r.Agent)
			}
			known = &place{Replica: r}
			if l.places.fresh[r.Agent] {
				known.Restarts = 0 // it may have ended already
			}
			known.Exit = nil
			l.places.at[r.Name] = known
		}
		l.judge(ctx, known, r)
	}
	clear(l.places.fresh)
	if len(restarted) > 0 {
		slices.Sort(restarted)
		l.tell(Event{Kind: Restarted, Reload: l.reloads, Agents: slices.Compact(restarted)})
	}
}

// judge compares a replica with what is known of it.
func (l *loop) judge(ctx context.Context, known *place, r runtime.Replica) {
	ended := r.Restarts > known.Restarts
	if r.Exit == nil && ended {
		if driver, ok := l.running.Driver.(Exits); ok {
			r.Exit = driver.LastExit(ctx, r)
		}
	}
	if r.Exit == nil && known.told && !ended {
		r.Exit = known.Exit
	}
	before := known.Replica
	known.Replica = r
	if ended {
		known.ended = time.Now()
	}
	if r.State == runtime.Ready && !ended {
		if known.told && time.Since(known.ended) < calm {
			if before.State != r.State {
				l.tell(Event{Kind: Failing, Reload: l.reloads, Agents: []string{r.Agent}, Replica: r})
			}
			return
		}
		if known.told {
			l.tell(Event{Kind: Ready, Reload: l.reloads, Agents: []string{r.Agent}, Replica: r})
		}
		known.told, known.odd = false, 0
		return
	}
	if sure := ended || r.State == runtime.Failing || r.State == runtime.Starting && r.Exit != nil; !sure && known.odd < maxOdd {
		known.odd++
		return
	}
	if !known.told || ended || before.State != r.State {
		known.told = true
		l.tell(Event{Kind: Failing, Reload: l.reloads, Agents: []string{r.Agent}, Replica: r})
	}
}
