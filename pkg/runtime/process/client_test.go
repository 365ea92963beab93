package process

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
)

// TestASupervisorThatIsGone, or goes before it answers, is said in words, and known
// for what it is.
func TestASupervisorThatIsGone(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "fc-") // short: a socket is in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close() // as a kill does
			_ = listener.Close()
		}
	}()
	for _, when := range []string{"in the middle", "before"} {
		err := newClient(socket).call(t.Context(), pathStop, stopRequest{}, nil)
		f, ok := asFault(err)
		if !ok || f.Kind != fault.Environment || f.Hint == "" || !strings.HasPrefix(f.Message, "the gateway's process ") || !unreachable(err) {
			t.Errorf("%s: %v", when, err)
		}
	}
}
