package main_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// acked is a turn that was answered 200.
type acked struct{ session, input, reply string }

// crowd is clients that send turns without a pause, and never send one again.
type crowd struct {
	project *project
	client  *http.Client
	slow    string // how long some turns take; "" is 1s
	slowly  int    // one in so many; 0 is 100
	sent    atomic.Int64
	oldest  atomic.Int64 // the version of the code that may answer what is sent now

	mu     sync.Mutex
	acks   map[string]map[int]acked // by session and number
	failed []string
	twice  []string // numbers that were given to two turns
	older  []string // answers of older code than that
}

// TestRestartsUnderLoad: restarts by the command, one after the other, under
// clients whose turns are short, except for one in a hundred that takes a
// second. No request fails, no turn is lost, none is there twice. With
// FLISK_TEST_LONG=1 it is 20 restarts and 20,000 requests.
func TestRestartsUnderLoad(t *testing.T) {
	t.Parallel()
	restarts, requests := 4, 2_000
	if os.Getenv("FLISK_TEST_LONG") == "1" {
		restarts, requests = 20, 20_000
	}
	const clients = 8
	w := newWorld(t)
	p := w.project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	p.do("up")

	c := &crowd{
		project: p, acks: map[string]map[int]acked{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}},
	}
	defer c.client.CloseIdleConnections()
	load, calm := context.WithCancel(t.Context())
	defer calm()
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() { c.talk(t.Context(), load, n) })
	}
	var slowest time.Duration
	for k := range restarts {
		due := int64((k + 1) * requests / (restarts + 1))
		eventually(t, 2*time.Minute, fmt.Sprintf("%d requests were sent", due), func() bool { return c.sent.Load() >= due })
		began := time.Now()
		if out := p.do("restart", "bot"); !strings.Contains(out, "exit code 0") {
			t.Errorf("restart %d: the old process did not exit 0:\n%s", k+1, out)
		}
		slowest = max(slowest, time.Since(began))
	}
	eventually(t, 2*time.Minute, fmt.Sprintf("%d requests were sent", requests), func() bool { return c.sent.Load() >= int64(requests) })
	calm()
	all.Wait()
	lost, doubled := c.compare(t)
	t.Logf("%d restarts (the slowest took %s) under %d clients: %d requests, %d failed, %d lost, %d doubled",
		restarts, slowest.Round(time.Millisecond), clients, c.sent.Load(), len(c.failed), lost, doubled)
	for _, failed := range c.failed[:min(5, len(c.failed))] {
		t.Error(failed)
	}
	if len(c.failed)+lost+doubled > 0 {
		t.Errorf("%d failed, %d lost, %d doubled", len(c.failed), lost, doubled)
	}
}

// talk sends turns until load ends: most of them in a session of its own, some
// in one that all clients share. Both are begun anew from time to time.
func (c *crowd) talk(ctx, load context.Context, client int) {
	for n := 0; load.Err() == nil; n++ {
		session := fmt.Sprintf("c%d-%d", client, n/50)
		if n%8 == 7 {
			session = fmt.Sprintf("all-%d", n/50)
		}
		input := fmt.Sprintf("client %d, input %d", client, n)
		if slowly := cmp.Or(c.slowly, 100); n%slowly == slowly*client/10 {
			input = cmp.Or(c.slow, "1s") + " " + input
		}
		oldest := c.oldest.Load()
		got, err := c.post(ctx, session, input)
		c.mu.Lock()
		c.sent.Add(1)
		if version := versionOf(got.Reply); err == nil && version < oldest {
			c.older = append(c.older, fmt.Sprintf("session %s, %q: v%d answered after v%d was told", session, input, version, oldest))
		}
		switch seen := c.acks[session]; {
		case err != nil:
			c.failed = append(c.failed, fmt.Sprintf("session %s, %q: %v", session, input, err))
		case seen == nil:
			c.acks[session] = map[int]acked{got.Turn: {session, input, string(got.Reply)}}
		default:
			if other, ok := seen[got.Turn]; ok {
				c.twice = append(c.twice, fmt.Sprintf("session %s turn %d: %q and %q", session, got.Turn, other.input, input))
			}
			seen[got.Turn] = acked{session, input, string(got.Reply)}
		}
		c.mu.Unlock()
	}
}

// versionOf is the number in "v3 turn …"; 0 when there is none.
func versionOf(reply json.RawMessage) int64 {
	var text string
	var n int64
	if json.Unmarshal(reply, &text) == nil {
		_, _ = fmt.Sscanf(text, "v%d", &n)
	}
	return n
}

// post sends one turn, once: without GetBody the transport cannot send it again
// behind the test's back.
func (c *crowd) post(ctx context.Context, session, input string) (turn.Result, error) {
	var result turn.Result
	body, err := json.Marshal(turn.Request{Input: fmt.Appendf(nil, "%q", input)})
	if err != nil {
		return result, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.project.url(turn.TurnPath("bot")), bytes.NewReader(body))
	if err != nil {
		return result, err
	}
	req.GetBody = nil
	req.Header.Set("Content-Type", turn.JSONType)
	req.Header.Set(turn.HeaderSession, session)
	req.Header.Set(turn.HeaderKey, turn.QuoteKey(input))
	resp, err := c.client.Do(req)
	if err != nil {
		return result, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, reply)
	}
	if err != nil {
		return result, err
	}
	return result, json.Unmarshal(reply, &result)
}

// compare counts the answered turns that are not in their sessions as they were
// answered, and the turns that are there more than once.
func (c *crowd) compare(t *testing.T) (lost, doubled int) {
	t.Helper()
	doubled = len(c.twice)
	for session, acks := range c.acks {
		view := c.project.session(session)
		stored := map[string]int{}
		for i := range view.Turns {
			if stored[view.Messages[2*i].Text()]++; stored[view.Messages[2*i].Text()] > 1 {
				doubled++
			}
		}
		for number, a := range acks {
			if number < 1 || number > view.Turns || view.Messages[2*number-2].Text() != a.input || string(view.Messages[2*number-1].Content) != a.reply {
				t.Errorf("session %s: turn %d (%q) was answered, and is not there", session, number, a.input)
				lost++
			}
		}
		if view.Turns > len(acks) && len(c.failed) == 0 {
			t.Errorf("session %s: %d turns are stored, %d were answered", session, view.Turns, len(acks))
			doubled += view.Turns - len(acks)
		}
	}
	return lost, doubled
}
