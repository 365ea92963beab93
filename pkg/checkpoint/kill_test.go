package checkpoint

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/turn"
)

// The tests here start this test binary again as a process of its own, and kill
// it with SIGKILL.

const (
	childDir  = "FLISK_TEST_CHILD_DIR"
	childWork = "FLISK_TEST_CHILD_WORK" // "loop", or the point at which a turn stops
)

// TestChild is that process. It says on stdout what happened.
func TestChild(t *testing.T) {
	dir, work := os.Getenv(childDir), os.Getenv(childWork)
	if dir == "" {
		t.Skip("not started by another test")
	}
	f, err := Open(dir, Options{Agent: "bot"})
	if err != nil {
		t.Fatal(err)
	}
	if work != "loop" {
		holdAt(t, f, turn.Point(work))
	}
	for i := 0; ; i++ {
		session := fmt.Sprint("s", i%2)
		got, err := oneTurn(t.Context(), f, session, "", fmt.Sprint("in ", i), fmt.Sprint("out ", i, strings.Repeat(" and more", i%50)))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("acked %s %d %s\n", session, got.Number, strconv.Quote(string(got.Reply)))
	}
}

// holdAt stops in a turn until it is killed.
func holdAt(t *testing.T, f *File, point turn.Point) {
	stop := func(at turn.Point, id string) {
		if at == point {
			fmt.Printf("held %s\n", id)
			select {}
		}
	}
	s, err := f.Acquire(t.Context(), "s0")
	if err != nil {
		t.Fatal(err)
	}
	begun, err := s.Begin(Begin{Key: "held", Input: quoted("in")})
	if err != nil {
		t.Fatal(err)
	}
	stop(turn.PointBegun, begun.ID)
	_, err = s.Commit(Commit{Messages: s.Checkpoint().Messages, Reply: quoted("held out"), At: func(at turn.Point) { stop(at, begun.ID) }})
	t.Fatalf("passed %s: %v", point, err)
}

type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, dir, work string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir, childWork+"="+work)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &child{t, cmd, bufio.NewScanner(out)}
}

// next is the rest of the next line that begins with a word.
func (c *child) next(word string) (string, bool) {
	for c.lines.Scan() {
		if rest, ok := strings.CutPrefix(c.lines.Text(), word+" "); ok {
			return rest, true
		}
	}
	return "", false
}

// kill returns when the process is gone, with what it had still said.
func (c *child) kill(word string) (rest []string) {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	for {
		line, ok := c.next(word)
		if !ok {
			break
		}
		rest = append(rest, line)
	}
	err := c.cmd.Wait()
	if c.cmd.ProcessState.ExitCode() != -1 {
		c.t.Fatalf("it was not killed: %v", err)
	}
	return rest
}

// TestC32_KilledInATightLoop: every acknowledged turn is there, once, in order,
// whenever the process is killed.
func TestC32_KilledInATightLoop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	acked := map[string][]string{}
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	total := 0
	for range rounds {
		c := startChild(t, dir, "loop")
		var lines []string
		for range 1 + r.IntN(60) {
			line, ok := c.next("acked")
			if !ok {
				t.Fatal("the process ended by itself")
			}
			lines = append(lines, line)
		}
		lines = append(lines, c.kill("acked")...)
		total += len(lines)
		for _, line := range lines {
			session, rest, _ := strings.Cut(line, " ")
			number, reply, _ := strings.Cut(rest, " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				break // the kill tore the line
			}
			for len(acked[session]) < n {
				acked[session] = append(acked[session], "") // committed, and the word of it lost
			}
			acked[session][n-1], _ = strconv.Unquote(reply)
		}
		f := openStore(t, dir, Options{})
		for session, replies := range acked {
			v := settledView(t, f, session)
			if v.Turn < len(replies) || v.Turn > len(replies)+1 {
				t.Fatalf("%s is at turn %d, %d are acknowledged", session, v.Turn, len(replies))
			}
			checkNumbers(t, v)
			for _, got := range v.Turns {
				if got.State == turn.Committed && got.Number <= len(replies) && replies[got.Number-1] != "" && string(got.Reply) != replies[got.Number-1] {
					t.Fatalf("%s: turn %d is %s, acknowledged was %s", session, got.Number, got.Reply, replies[got.Number-1])
				}
			}
			for len(acked[session]) < v.Turn {
				acked[session] = append(acked[session], "")
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills, %d acknowledged turns", rounds, total)
}

// settledView takes the session once, as the next turn would, and reads it.
func settledView(t *testing.T, f *File, id string) View {
	t.Helper()
	s, err := f.Acquire(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	s.Release()
	v, err := f.View(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func checkNumbers(t *testing.T, v View) {
	t.Helper()
	committed := 0
	for _, got := range v.Turns {
		if got.State == turn.Committed {
			if committed++; got.Number != committed {
				t.Fatalf("turn %d follows turn %d", got.Number, committed-1)
			}
		}
	}
	if committed != v.Turn || len(v.Messages) != 2*committed {
		t.Fatalf("%d turns and %d messages at turn %d", committed, len(v.Messages), v.Turn)
	}
}

// TestKilledAtEachPoint: before the commit line is whole the turn failed; from
// then on it counts, and readers agree with the next holder.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range []turn.Point{turn.PointBegun, turn.PointWritten, turn.PointSynced, turn.PointMarked} {
		dir := t.TempDir()
		c := startChild(t, dir, string(point))
		id, ok := c.next("held")
		if !ok {
			t.Fatalf("%s: the process ended by itself", point)
		}
		f := openStore(t, dir, Options{})
		// While it is held its process lives, and its lock keeps everybody out.
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		go func() { _, err := f.Acquire(ctx, "s0"); waiting <- err }()
		if got, err := f.Turn(t.Context(), id); err != nil || got.State == turn.Failed {
			t.Errorf("%s: while it is held: %+v, %v", point, got, err)
		}
		cancel()
		if err := <-waiting; err == nil {
			t.Errorf("%s: got the lock of a living process", point)
		}
		c.kill("held")
		want := turn.Committed
		if point == turn.PointBegun {
			want = turn.Failed
		}
		got, err := f.Turn(t.Context(), id)
		if err != nil || got.State != want {
			t.Errorf("%s: after the kill: %+v, %v", point, got, err)
		}
		s, err := f.Acquire(t.Context(), "s0")
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := s.ByKey("held"); !ok || got.State != want || got.ID != id {
			t.Errorf("%s: by its key: %+v", point, got)
		}
		s.Release()
		if got := mustTurn(t, f, "s0", "", "in", "out"); got.Number != map[turn.State]int{turn.Failed: 1, turn.Committed: 2}[want] {
			t.Errorf("%s: the next turn is %d", point, got.Number)
		}
	}
}

// TestC33_AnyTempDir: nothing of the store is ever in TMPDIR.
func TestC33_AnyTempDir(t *testing.T) {
	t.Parallel()
	dir, temp := t.TempDir(), t.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() { // another file system, where there is one
		other, err := os.MkdirTemp("/dev/shm", "flisk")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(other) })
		temp = other
	}
	cmd := exec.Command(os.Args[0], "-test.run=^(TestReopenedStoreRemembers|TestAgentsKeepTheirOwnSessions)$")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "TMPDIR=") }), "TMPDIR="+temp)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
