package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestWhoLooksDuringADown is told of that, and not that somebody else removed what
// the down removes.
func TestWhoLooksDuringADown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		looked := false
		look := func() {
			looked = true
			if o := p.Observe(); len(o.Replicas) > 0 || len(o.Stale) != 1 || !strings.Contains(o.Stale[0], "it is being stopped") {
				t.Errorf("in the middle of a down: %+v", o)
			}
		}
		if _, err := p.Driver().Down(t.Context(), &atStep{p.P, "stop gateway", look}); err != nil || !looked {
			t.Errorf("down: %v, looked: %t", err, looked)
		}
		if o := p.Observe(); o.Running || len(o.Replicas) > 0 || len(o.Stale) > 0 {
			t.Errorf("after the down: %+v", o)
		}
	})
}

// TestDownThatWasInterrupted is told of as one until an up, or until another down
// ends it; also where nothing was stopped yet.
func TestDownThatWasInterrupted(t *testing.T) {
	t.Parallel()
	for what, interrupted := range map[string]func(t *testing.T, p *runtimetest.Project){
		"before its first stop": func(t *testing.T, p *runtimetest.Project) {
			d := driverOf(p)
			l, err := d.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d.sayEnding(l)
		},
		"when no agent runs": func(t *testing.T, p *runtimetest.Project) {
			killed := errors.New("killed")
			defer func() {
				if r := recover(); r != killed {
					t.Errorf("it ended with %v", r)
				}
			}()
			_, _ = p.Driver().Down(t.Context(), &atStep{p.P, "stop gateway", func() { panic(killed) }})
		},
	} {
		for _, then := range []string{"up", "down"} {
			t.Run(what+", then "+then, func(t *testing.T) {
				t.Parallel()
				p, _ := onFake(t, dockertest.Options{})
				p.Up()
				p.MustTurn("s1", "a")
				interrupted(t, p)
				o := p.Observe()
				if len(o.Stale) != 1 || !strings.Contains(o.Stale[0], "a down was interrupted; flisk down finishes that") {
					t.Errorf("after it: %+v", o)
				}
				for _, r := range o.Replicas {
					if r.State == runtime.Gone {
						t.Errorf("after it: %+v", r)
					}
				}
				if then == "down" {
					p.Down()
				} else {
					p.Up()
					if a := p.MustTurn("s1", "b"); a.Turn != 2 {
						t.Errorf("after the up: %+v", a)
					}
				}
				if o := p.Observe(); len(o.Stale) > 0 || o.Running == (then == "down") {
					t.Errorf("after the %s: %+v", then, o)
				}
			})
		}
	}
}
