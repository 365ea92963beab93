package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// sendTurn writes the request of a turn of session s in the background.
func sendTurn(conn net.Conn, input string) {
	body := inputBody(input)
	go fmt.Fprintf(conn, "POST /api/bot/turn HTTP/1.1\r\nHost: x\r\nX-Session-Id: s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// readAnswer reads what came back for it.
func readAnswer(conn net.Conn) (status int, code turn.Code, err error) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp.StatusCode, "", err
	}
	var p turn.Problem
	err = json.Unmarshal(body, &p)
	return resp.StatusCode, p.Code, err
}

// TestDrainWaitsForATurnThatNobodyWaitsFor: without a client there is no
// connection left that would hold the drain.
func TestDrainWaitsForATurnThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		store := checkpoint.NewMemory()
		dial, drain := servePipe(t, NewServer(g.run, store, pipeEnv(), slog.New(slog.DiscardHandler)))
		client := dial()
		sendTurn(client, "x")
		receive(t, g.running, "the turn")
		_ = client.Close()
		synctest.Wait() // the server has seen it
		drained := make(chan bool, 1)
		go func() { drain(); drained <- true }()
		synctest.Wait()
		select {
		case <-drained:
			t.Fatal("the drain left a begun turn behind")
		default:
		}
		g.open <- struct{}{}
		receive(t, drained, "the end of the drain")
		if view, err := store.View(t.Context(), "s"); err != nil || view.Turn != 1 {
			t.Errorf("session %+v, %v", view, err)
		}
	})
}

func TestC12_SIGTERMDuringATurnOfAClientThatLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startAgent(t, dir, "FLISK_VERIFY=nonce")
	leaving, leave := context.WithCancel(t.Context())
	gone := p.goTurn(leaving, "s", "", script{Say: "a"}, turn.HeaderHold, "nonce:returned:500")
	p.waitLine(t, "hold point=returned")
	leave()
	receive(t, gone, "the client that left")
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	if view := startAgent(t, dir).view(t, "s"); view.Turns != 1 {
		t.Errorf("session %+v", view)
	}
}

// TestEndOfTheDrainBudget: runTurn hears why it is cancelled and has settleTime
// to return. What it returns by then counts; an error does not count against it.
func TestEndOfTheDrainBudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes   time.Duration // from the end of its context to its return
		err     error
		status  int
		problem turn.Code
	}{
		"a reply in time":  {takes: 500 * time.Millisecond, status: 200},
		"a reply too late": {takes: 1500 * time.Millisecond, status: 503, problem: turn.Draining},
		"an error in time": {takes: 500 * time.Millisecond, err: errors.New("cut short"), status: 503, problem: turn.Draining},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				store := &faulty{Store: checkpoint.NewMemory()}
				running, causes := make(chan bool, 1), make(chan error, 1)
				env := pipeEnv()
				env.Drain = env.TurnTimeout / 10
				dial, drain := servePipe(t, NewServer(func(ctx context.Context, _ *Checkpoint[memory], _ Input) (Reply, error) {
					running <- true
					<-ctx.Done()
					causes <- context.Cause(ctx)
					<-time.After(c.takes)
					return Text("the last word"), c.err
				}, store, env, slog.New(slog.NewTextHandler(&log, nil))))
				client := dial()
				defer client.Close()
				sendTurn(client, "x")
				receive(t, running, "the turn")
				began := time.Now()
				drained := make(chan time.Duration, 1)
				go func() { drain(); drained <- time.Since(began) }()
				if status, problem, err := readAnswer(client); err != nil || status != c.status || problem != c.problem {
					t.Errorf("answered %d %q, %v", status, problem, err)
				}
				if cause := <-causes; !errors.Is(cause, ErrDraining) {
					t.Errorf("runTurn was cancelled because %v", cause)
				}
				if took, want := <-drained, env.Drain+c.takes; took != want {
					t.Errorf("the drain took %v, want %v", took, want)
				}
				view, err := store.View(t.Context(), "s")
				if committed := view.Turn == 1; err != nil || committed != (c.status == 200) {
					t.Errorf("session %+v, %v", view, err)
				}
				if len(store.failed) > 0 {
					t.Errorf("recorded as failed: %q", store.failed)
				}
				back := strings.Contains(log.String(), `level=INFO msg="turn given back" session=s`)
				if back != (c.status != 200) || strings.Contains(log.String(), "turn failed") {
					t.Errorf("the log says\n%s", &log)
				}
			})
		})
	}
}
