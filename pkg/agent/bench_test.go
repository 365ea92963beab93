package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/turn"
)

// fileStore is what an agent runs on; what a turn costs is above all its sync.
func fileStore(b *testing.B) checkpoint.Store {
	b.Helper()
	store, err := checkpoint.Open(b.TempDir(), checkpoint.Options{Agent: "bot"})
	if err != nil {
		b.Fatal(err)
	}
	return store
}

func benchServer(b *testing.B, store checkpoint.Store) *Server {
	b.Helper()
	s := NewServer(func(_ context.Context, cp *Checkpoint[memory], _ Input) (Reply, error) {
		cp.State.Count++
		return Text(strings.Repeat("x", 1000)), nil
	}, store, turn.DefaultEnv(), slog.New(slog.DiscardHandler))
	b.Cleanup(func() {
		s.Close()
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func BenchmarkEngine(b *testing.B) {
	input := json.RawMessage(`"` + strings.Repeat("y", 1000) + `"`)
	hash, err := inputHash(input)
	if err != nil {
		b.Fatal(err)
	}
	ask := func(b *testing.B, s *Server, session string) {
		err := s.engine.do(context.Background(), request{session: session, input: input, hash: hash}, func(turn.Result) bool { return true })
		if err != nil {
			b.Error(err)
		}
	}
	b.Run("one session", func(b *testing.B) {
		s := benchServer(b, fileStore(b))
		for b.Loop() {
			ask(b, s, "s")
		}
	})
	// Without a sync it shows what the length of a conversation costs.
	for _, earlier := range []int{1, 5000} {
		b.Run(fmt.Sprintf("in memory, %d earlier turns", earlier), func(b *testing.B) {
			s := benchServer(b, checkpoint.NewMemory())
			for range earlier {
				ask(b, s, "s")
			}
			b.ReportAllocs()
			for b.Loop() {
				ask(b, s, "s")
			}
		})
	}
	b.Run("sessions in parallel", func(b *testing.B) {
		s := benchServer(b, fileStore(b))
		var next atomic.Int64
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			session := fmt.Sprint("s", next.Add(1))
			for pb.Next() {
				ask(b, s, session)
			}
		})
	})
}

func BenchmarkHTTP(b *testing.B) {
	s := benchServer(b, fileStore(b))
	server := httptest.NewServer(s)
	defer server.Close()
	body := inputBody(strings.Repeat("y", 1000))
	client := server.Client()
	for b.Loop() {
		req, err := http.NewRequest(http.MethodPost, server.URL+turn.TurnPath("bot"), strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Content-Type", turn.JSONType)
		req.Header.Set(turn.HeaderSession, "s")
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		resp.Body.Close()
	}
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
