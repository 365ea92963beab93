package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
)

func TestIdleSessionsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ want, files, got int }{{512, 20_000, 512}, {512, 1024, 128}, {512, 256, 32}, {512, 64, 8}, {512, 4, 1}, {3, 1024, 3}} {
		if got := idleLimit(c.want, c.files); got != c.got {
			t.Errorf("%d of %d descriptors: %d sessions, want %d", c.want, c.files, got, c.got)
		}
	}
	if n := durable.MaxOpenFiles(); n < 16 {
		t.Errorf("this process may have %d files open", n)
	}
}

// TestRoomIsMadeForAFile: whatever call of a turn meets the limit, idle sessions
// are closed, and the turn goes on.
func TestRoomIsMadeForAFile(t *testing.T) {
	t.Parallel()
	const idle = 6
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE} {
		for _, op := range []durable.Op{
			durable.OpLockOpen, durable.OpSessionStat, durable.OpSessionMkdir, durable.OpShardSync, durable.OpEntryAdd, "create.clean",
			durable.OpCreateOpen, durable.OpCreateRename, durable.OpCreateDirSync, durable.OpSessionOpen, durable.OpCommitCheck,
		} {
			f, fsys := twin(t, t.TempDir(), Options{})
			for i := range idle {
				mustTurn(t, f, fmt.Sprint("s", i), "", "in", "out")
			}
			fsys.Fail(durabletest.Fault{Op: op, Err: errno, Nth: 1})
			if _, err := oneTurn(t.Context(), f, "new", "", "in", "out"); err != nil {
				t.Errorf("%v at %s: %v", errno, op, err)
			}
			if n := f.idle.Len(); n != idle/2+1 {
				t.Errorf("%v at %s: %d sessions are still loaded", errno, op, n)
			}
			mustTurn(t, f, "s0", "", "in", "out")
		}
	}
	// Where nothing can be closed it is an error, and not for ever.
	f, fsys := twin(t, t.TempDir(), Options{})
	fsys.Fail(durabletest.Fault{Op: durable.OpLockOpen, Err: syscall.EMFILE})
	if _, err := oneTurn(t.Context(), f, "s", "", "in", "out"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("error is %v", err)
	}
	fsys.Heal()
	mustTurn(t, f, "s", "", "in", "out")
}

const childFiles = "FLISK_TEST_CHILD_FILES"

// TestChildWithFewFiles is a process of its own: see TestFewDescriptorsAreEnough.
func TestChildWithFewFiles(t *testing.T) {
	dir := os.Getenv(childFiles)
	if dir == "" {
		t.Skip("not started by another test")
	}
	const files, held, sessions = 64, 16, 60
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files}); err != nil {
		t.Fatal(err)
	}
	f := openStore(t, dir, Options{})
	for i := range sessions {
		mustTurn(t, f, fmt.Sprint("before", i), "", "in", "out")
	}
	if n := f.idle.Len(); n > files/8 {
		t.Errorf("%d sessions are idle and loaded", n)
	}
	for i := range held { // these take half of all, and what is idle has to give way
		s, err := f.Acquire(t.Context(), fmt.Sprint("held", i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Release)
		if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sessions {
		mustTurn(t, f, fmt.Sprint("after", i), "", "in", "out")
	}
	fmt.Println("enough")
}

func TestFewDescriptorsAreEnough(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildWithFewFiles$", "-test.v")
	cmd.Env = append(os.Environ(), childFiles+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "enough\n") {
		t.Fatalf("%v\n%s", err, out)
	}
}
