package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/turn"
)

// slowTurns makes the agent's code wait for as long as the input says, when the
// input is a duration, and say so first.
func (p *project) slowTurns() {
	p.t.Helper()
	p.write("turn.go", slowCode)
	p.removeTest()
}

// slowCode is that code.
const slowCode = `package main

import (
	"context"
	"fmt"
	"time"

	"github.com/flisk-go/flisk/pkg/agent"
)

type Memory struct {
	First string ` + "`json:\"first\"`" + `
}

func runTurn(ctx context.Context, cp *agent.Checkpoint[Memory], input agent.Input) (agent.Reply, error) {
	first, _, _ := cutSpace(input.Text())
	if d, err := time.ParseDuration(first); err == nil {
		fmt.Println("turn runs", first)
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return agent.Reply{}, context.Cause(ctx)
		}
	}
	if cp.Turn == 1 {
		cp.State.First = input.Text()
	}
	return agent.Text(fmt.Sprintf("turn %d after %q", cp.Turn, cp.State.First)), nil
}

func cutSpace(s string) (string, string, bool) {
	for i := range s {
		if s[i] == ' ' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
`

// TestKillStorm: 50 SIGKILLs at random moments under four clients that retry
// with their keys. Every acknowledged turn is there once, at its number, in
// order; nothing is there twice.
func TestKillStorm(t *testing.T) {
	t.Parallel()
	const kills, clients, sessions = 50, 4, 2
	w := newWorld(t)
	p := w.project(filepath.Join(t.TempDir(), "bot"))
	p.slowTurns()
	p.do("up")

	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	storm, calm := context.WithCancel(t.Context())
	type ack struct {
		session, input, reply string
		turn                  int
	}
	var mu sync.Mutex
	var acks []ack
	retries, replays := 0, 0
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(seed), uint64(c)))
			for n := 0; storm.Err() == nil; n++ {
				session := fmt.Sprintf("s%d", random.IntN(sessions))
				input := fmt.Sprintf("%dms client %d, input %d", random.IntN(30), c, n)
				header := http.Header{turn.HeaderSession: {session}, turn.HeaderKey: {turn.QuoteKey(input)}}
				for try := 0; ; try++ {
					a, err := p.post(t.Context(), "bot", fmt.Sprintf("%q", input), header)
					if err == nil && a.status == http.StatusOK {
						mu.Lock()
						acks = append(acks, ack{session, input, string(a.result.Reply), a.result.Turn})
						retries += try
						if a.result.Replayed {
							replays++
						}
						mu.Unlock()
						break
					}
					if err == nil && !a.problem.Code.Retryable() {
						t.Errorf("%q: %d %v", input, a.status, &a.problem)
						return
					}
					if try == 200 {
						t.Errorf("%q: no answer after %d tries, last %d %v", input, try, a.status, err)
						return
					}
				}
			}
		})
	}

	random := rand.New(rand.NewPCG(uint64(seed), 99))
	for k := range kills {
		var pid int
		eventually(t, 20*time.Second, fmt.Sprintf("a replica is ready for kill %d", k+1), func() bool { pid = p.pid(); return pid != 0 })
		<-time.After(time.Duration(random.IntN(150)) * time.Millisecond) // the moment is what is random
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill %d of process %d did not kill: %v", k+1, pid, err)
		}
		eventually(t, 20*time.Second, "the killed process is gone", func() bool { return p.pid() != pid })
	}
	calm()
	wg.Wait()
	t.Logf("%d kills, %d acknowledged turns, %d retries, %d replays", kills, len(acks), retries, replays)

	total := 0
	for s := range sessions {
		id := fmt.Sprintf("s%d", s)
		view := p.session(id)
		if len(view.Messages) != 2*view.Turns {
			t.Fatalf("session %s: %d messages for %d turns", id, len(view.Messages), view.Turns)
		}
		total += view.Turns
		seen := map[string]int{}
		for i := range view.Turns {
			seen[view.Messages[2*i].Text()]++
		}
		for input, n := range seen {
			if n != 1 {
				t.Errorf("session %s: %q is there %d times", id, input, n)
			}
		}
		for _, a := range acks {
			if a.session != id {
				continue
			}
			if a.turn < 1 || a.turn > view.Turns {
				t.Errorf("session %s: turn %d was acknowledged and is missing", id, a.turn)
				continue
			}
			input, reply := view.Messages[2*a.turn-2], view.Messages[2*a.turn-1]
			if input.Text() != a.input || string(reply.Content) != a.reply {
				t.Errorf("session %s turn %d: acknowledged %q → %s, stored %q → %s", id, a.turn, a.input, a.reply, input.Text(), reply.Content)
			}
		}
	}
	if total != len(acks) {
		t.Errorf("%d turns are stored, %d were acknowledged (every client waited for its last one)", total, len(acks))
	}
	if len(acks) < kills {
		t.Errorf("only %d turns under %d kills: this was no storm", len(acks), kills)
	}
}

// secondAgent adds an agent that runs the same code under another name.
func (p *project) secondAgent(name string) {
	p.t.Helper()
	p.edit("flisk.yaml", regexp.MustCompile(`(?m)^agents:\n`), "agents:\n  "+name+": {path: .}\n")
}

// removeTest removes the scaffold's own test, which does not fit other code.
func (p *project) removeTest() {
	p.t.Helper()
	p.write("turn_test.go", strings.Join([]string{"package main", ""}, "\n"))
}
