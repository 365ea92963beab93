package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
)

// benchTurns takes turns of 2 KiB: half of it input, half of it reply.
func benchTurns(b *testing.B) durabletest.Turns {
	b.Helper()
	dir := b.TempDir()
	store := openStore(b, dir, Options{})
	input, reply := quoted(strings.Repeat("i", 1022)), quoted(strings.Repeat("r", 1022))
	hash := strings.Repeat("0", 64)
	return durabletest.Turns{
		Take: func(session string) {
			s, err := store.Acquire(b.Context(), session)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Release()
			cp := s.Checkpoint()
			if _, err := s.Begin(Begin{InputHash: hash, Input: input}); err != nil {
				b.Fatal(err)
			}
			add := []Message{{Role: "user", Content: input}, {Role: "assistant", Content: reply}}
			if _, err := s.Commit(Commit{Messages: cp.Messages, Add: add, Reply: reply}); err != nil {
				b.Fatal(err)
			}
			if err := s.Delivered(); err != nil {
				b.Fatal(err)
			}
		},
		Size: func(session string) int64 {
			info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(store.identify(session).path())))
			if err != nil {
				b.Fatal(err)
			}
			return info.Size()
		},
	}
}

// BenchmarkTurn is what the store takes for a turn: Acquire, Begin, Commit,
// Delivered and Release.
func BenchmarkTurn(b *testing.B) { durabletest.BenchTurns(b, benchTurns(b)) }
