package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// A turn of 2 KiB, half input and half reply.
var (
	benchInput = json.RawMessage(`"` + strings.Repeat("i", 1022) + `"`)
	benchReply = Text(strings.Repeat("r", 1022))
)

// benchServer is an agent on a real volume whose code does nothing, in a process
// as Main would have it.
func benchServer(b *testing.B) (s *Server, size func(session string) int64) {
	b.Helper()
	before := runtime.GOMAXPROCS(processors())
	b.Cleanup(func() { runtime.GOMAXPROCS(before) })
	dir := b.TempDir()
	env := turn.DefaultEnv()
	store, err := checkpoint.Open(dir, checkpoint.Options{Agent: env.Agent})
	if err != nil {
		b.Fatal(err)
	}
	s = NewServer(func(context.Context, *Checkpoint[memory], Input) (Reply, error) {
		return benchReply, nil
	}, store, env, slog.New(slog.DiscardHandler))
	b.Cleanup(func() {
		s.Close()
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	paths := map[string]string{}
	return s, func(session string) int64 {
		path := paths[session]
		if path == "" {
			view, err := store.View(context.Background(), session)
			if err != nil {
				b.Fatal(err)
			}
			name, _, _ := strings.Cut(view.Turns[0].ID, "-") // a turn's id begins with its file's name
			path = filepath.Join(dir, "a", env.Agent, "s", name[:2], name+".jsonl")
			paths[session] = path
		}
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		return info.Size()
	}
}

// engineTurn takes a turn as the server does, without HTTP.
func engineTurn(b *testing.B, s *Server) func(session string) {
	hash, err := inputHash(benchInput)
	if err != nil {
		b.Fatal(err)
	}
	return func(session string) {
		err := s.engine.do(context.Background(), request{session: session, input: benchInput, hash: hash}, client{deliver: func(turn.Result) bool { return true }})
		if err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkEngineTurn is what the turn engine and the store take for a turn,
// from a request that was read to a session that is free again.
func BenchmarkEngineTurn(b *testing.B) {
	s, size := benchServer(b)
	take := engineTurn(b, s)
	durabletest.BenchTurns(b, durabletest.Turns{Size: size, Take: func(session string) {
		take(session)
		s.engine.flights.join()
	}})
}

// BenchmarkSixteenSessions compares the throughput of sixteen sessions at once
// with that of sixteen goroutines that append the same bytes to files of their
// own. One iteration is a round of each; "throughput" is the median over the
// rounds of ours divided by the floor's. The processor time of a turn and of an
// append is what the difference comes from where syncs are fast.
func BenchmarkSixteenSessions(b *testing.B) {
	const sessions, turns = 16, 50
	s, size := benchServer(b)
	take := engineTurn(b, s)
	all := make([]string, sessions)
	floors := make([]*durabletest.Floor, sessions)
	for i := range all {
		all[i], floors[i] = fmt.Sprint("s", i), durabletest.NewFloor(b)
		take(all[i])
	}
	s.engine.flights.join()
	together := func(one func(i int)) time.Duration {
		start := time.Now()
		var done sync.WaitGroup
		for i := range sessions {
			done.Go(func() {
				for range turns {
					one(i)
				}
			})
		}
		done.Wait()
		return time.Since(start)
	}
	var ratios, perSecond, cpu, floorCPU []float64
	for b.Loop() {
		before := size(all[0])
		used := cpuTime(b)
		took := together(func(i int) { take(all[i]) })
		s.engine.flights.join()
		cpu = append(cpu, durabletest.Micros(cpuTime(b)-used)/(sessions*turns))
		grown := int(size(all[0])-before) / turns
		used = cpuTime(b)
		floor := together(func(i int) { floors[i].Append(grown) })
		floorCPU = append(floorCPU, durabletest.Micros(cpuTime(b)-used)/(sessions*turns))
		ratios = append(ratios, float64(floor)/float64(took))
		perSecond = append(perSecond, sessions*turns/took.Seconds())
	}
	b.ReportMetric(durabletest.Median(cpu), "cpu-µs")
	b.ReportMetric(durabletest.Median(floorCPU), "floor-cpu-µs")
	b.ReportMetric(durabletest.Median(perSecond), "turns/s")
	b.ReportMetric(durabletest.Median(ratios), "throughput")
	b.ReportMetric(0, "ns/op") // of a pair of rounds: means nothing
}

// cpuTime is what this process has used of the processors.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHTTP sends the same turn to an agent and to a bare handler that
// appends and syncs the same bytes and answers with as many, over kept
// connections, in turns.
func BenchmarkHTTP(b *testing.B) {
	s, size := benchServer(b)
	agent := benchListen(b, func(ln net.Listener) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx, ln) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				b.Error(err)
			}
		}
	})
	floor := durabletest.NewFloor(b)
	var grown int
	var answer []byte
	bare := benchListen(b, func(ln net.Listener) (stop func()) {
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				b.Error(err)
			}
			floor.Append(grown)
			w.Header().Set("Content-Type", turn.JSONType)
			_, _ = w.Write(answer)
		})}
		done := make(chan error, 1)
		go func() { done <- srv.Serve(ln) }()
		return func() {
			_ = srv.Close()
			<-done
		}
	})

	body := []byte(`{"input":` + string(benchInput) + `}`)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	send := func(url string) ([]byte, time.Duration) {
		start := time.Now()
		req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", turn.JSONType)
		req.Header.Set(turn.HeaderSession, "s")
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		_ = resp.Body.Close()
		return got, time.Since(start)
	}
	answer, _ = send(agent)
	s.engine.flights.join()
	last := size("s")
	var turns, floors []time.Duration
	for b.Loop() {
		_, took := send(agent)
		turns = append(turns, took)
		s.engine.flights.join() // what follows the answer must not burden the floor
		now := size("s")
		grown, last = int(now-last), now
		_, took = send(bare)
		floors = append(floors, took)
	}
	took, bareTook := durabletest.Median(turns), durabletest.Median(floors)
	b.ReportMetric(durabletest.Micros(took), "p50-µs")
	b.ReportMetric(durabletest.Micros(bareTook), "bare-p50-µs")
	b.ReportMetric(float64(took)/float64(bareTook), "ratio")
	b.ReportMetric(0, "ns/op") // of a pair: means nothing
}

// benchListen serves turns on a TCP port until the benchmark ends, and returns
// the address of the turn.
func benchListen(b *testing.B, serve func(net.Listener) (stop func())) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(serve(ln))
	return "http://" + ln.Addr().String() + turn.TurnPath("bot")
}

func BenchmarkWeave(b *testing.B) {
	earlier := make([]Message, 10_000)
	for i := range earlier {
		earlier[i] = Message{Role: "user", Content: json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", 100)))}
	}
	m := Message{Role: "user", Content: json.RawMessage(`"x"`)}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := weave(earlier, earlier, m, m); err != nil {
			b.Fatal(err)
		}
	}
}
