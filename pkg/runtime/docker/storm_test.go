package docker

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// storm is how long a storm goes on.
type storm struct{ clients, restarts, requests int }

func stormSize() storm {
	if os.Getenv("FLISK_TEST_LONG") == "1" {
		return storm{clients: 8, restarts: 20, requests: 20_000}
	}
	return storm{clients: 8, restarts: 3, requests: 800}
}

// maxStorm bounds a storm that does not come to its end.
const maxStorm = 15 * time.Minute

// TestC25_RestartsUnderLoad: clients send turns, each under a key, while the agent
// is restarted again and again. No request fails, and the volume has every turn
// once. One turn in a hundred takes a while, so that drains have something to do.
func TestC25_RestartsUnderLoad(t *testing.T) {
	p := runtimetest.NewProject(t, realPlace(t))
	p.Up()
	size := stormSize()
	ctx, cancel := context.WithTimeout(t.Context(), maxStorm)
	defer cancel()
	calm, over := context.WithCancel(ctx)
	defer over()
	var all sync.WaitGroup
	var sending atomic.Int64
	clients := make([]talker, size.clients)
	for i := range clients {
		c := &clients[i]
		c.name = fmt.Sprintf("storm-%d", i)
		all.Go(func() { c.send(ctx, calm, p, (size.requests+size.clients-1)/size.clients, &sending) })
	}
	began := time.Now()
	var took []time.Duration
	for i := range size.restarts {
		// They are spread over the storm.
		for sending.Load() < int64(i*size.requests/size.restarts) {
			if err := pause(ctx, readyPoll); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if report := p.Restart(); len(report.Replaced) != 1 || report.Replaced[0].Exit.Code != 0 {
			t.Errorf("restart: %+v", report)
		}
		took = append(took, time.Since(start))
	}
	over()
	all.Wait()
	sent, failed := 0, 0
	for _, c := range clients {
		sent, failed = sent+c.sent, failed+len(c.failures)
		for _, f := range c.failures[:min(3, len(c.failures))] {
			t.Errorf("%s: %s", c.name, f)
		}
	}
	lost, doubled := inspect(t, p, clients)
	slices.Sort(took)
	t.Logf("%d restarts under %d clients in %.0f s: %d requests, %d failed, %d lost, %d doubled; a restart took %d ms (median; longest %d ms)",
		size.restarts, size.clients, time.Since(began).Seconds(), sent, failed, lost, doubled,
		took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds())
	if sent < size.requests || lost+doubled > 0 {
		t.Errorf("%d requests of %d, %d lost, %d doubled", sent, size.requests, lost, doubled)
	}
}

// aConversation is how many turns a session gets: the agent's answer is as long as
// the conversation.
const aConversation = 100

// talker is a client that sends the turns of its sessions in their order.
type talker struct {
	name     string
	sent     int
	failures []string
}

// session is that of a turn.
func (c *talker) session(n int) string { return fmt.Sprintf("%s-%d", c.name, (n-1)/aConversation) }

// send sends turns until calm has ended and there were enough of them.
func (c *talker) send(ctx, calm context.Context, p *runtimetest.Project, enough int, sending *atomic.Int64) {
	http := &http.Client{Transport: &http.Transport{}}
	defer http.CloseIdleConnections()
	for ctx.Err() == nil && (calm.Err() == nil || c.sent < enough) {
		c.sent++
		sending.Add(1)
		input := fmt.Sprintf("i%d", c.sent)
		if c.sent%100 == 0 {
			input = fmt.Sprintf("%dms", 300+c.sent%7) // a turn that takes so long
		}
		key := fmt.Sprintf("%s-%d", c.name, c.sent)
		a := runtimetest.Send(ctx, http, p.Setup.Stack.Gateway.URL(), "bot", c.session(c.sent), key, input)
		if a.Err != nil || a.Turn != (c.sent-1)%aConversation+1 {
			c.failures = append(c.failures, fmt.Sprintf("turn %d: %d %v %.300s", c.sent, a.Status, a.Err, a.Body))
			return // the numbers would not fit any more
		}
	}
}

// inspect compares the volume with what was sent.
func inspect(t *testing.T, p *runtimetest.Project, clients []talker) (lost, doubled int) {
	t.Helper()
	err := p.Driver().(*Driver).ReadVolume(t.Context(), func(dir string) error {
		r, err := checkpoint.OpenReader(dir, "bot")
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }() // only a handle
		for _, c := range clients {
			for n := 1; n <= c.sent; n += aConversation {
				v, err := r.View(t.Context(), c.session(n))
				if err != nil {
					return err
				}
				inputs := map[string]int{}
				turns := 0
				for _, m := range v.Messages {
					if m.Role == "user" {
						inputs[m.Text()]++
						turns++
					}
				}
				for text, times := range inputs {
					if strings.HasPrefix(text, "i") {
						doubled += times - 1
					}
				}
				want := min(aConversation, c.sent-n+1)
				lost, doubled = lost+max(0, want-turns), doubled+max(0, turns-want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lost, doubled
}
