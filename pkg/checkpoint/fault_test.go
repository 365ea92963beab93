package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
	"github.com/flisk-go/flisk/pkg/turn"
)

// TestAnyCallMayFail fails the k-th call of a scenario, for every k and in
// several ways, and looks at what is there afterwards: whatever was
// acknowledged is, once and in order, and the session goes on.
func TestAnyCallMayFail(t *testing.T) {
	t.Parallel()
	scenarios := map[string]func(*scenario){
		"first turn": func(s *scenario) { s.turn("a") },
		"next turn":  func(s *scenario) { s.calm(func() { s.turn("a") }); s.turn("b"); s.turn("c") },
		"cold turn":  func(s *scenario) { s.calm(func() { s.turn("a"); s.reopen() }); s.turn("b") },
		"recovery": func(s *scenario) {
			s.calm(func() { s.turn("a"); s.unmarked("b"); s.reopen() })
			s.turn("c")
		},
		"torn": func(s *scenario) {
			s.calm(func() { s.turn("a"); s.torn(); s.reopen() })
			s.turn("b")
		},
		"delete": func(s *scenario) {
			s.calm(func() { s.turn("a") })
			s.delete()
			s.turn("b")
		},
	}
	faults := map[string]durabletest.Fault{
		"EIO":             {Err: syscall.EIO},
		"EIO, done":       {Err: syscall.EIO, Done: true},
		"ENOSPC, partly":  {Err: syscall.ENOSPC, Written: -1},
		"EROFS":           {Err: syscall.EROFS},
		"EIO from now on": {Err: syscall.EIO},
	}
	var states atomic.Int64
	t.Run("all", func(t *testing.T) {
		for name, run := range scenarios {
			for kind, fault := range faults {
				t.Run(name+"/"+kind, func(t *testing.T) {
					t.Parallel()
					for k := 1; ; k++ {
						s := newScenario(t, fmt.Sprintf("call %d", k))
						s.fault = fault
						s.fault.Nth = k
						s.lasting = kind == "EIO from now on"
						run(s)
						s.check()
						states.Add(1)
						if s.calls < k { // nothing failed any more
							break
						}
					}
				})
			}
		}
	})
	t.Logf("%d states", states.Load())
	if states.Load() < 500 {
		t.Errorf("%d states, want at least 500", states.Load())
	}
}

// scenario is a store, what happened to it, and what it acknowledged.
type scenario struct {
	t       *testing.T
	name    string
	dir     string
	f       *File
	fsys    *durabletest.FS
	fault   durabletest.Fault
	lasting bool
	armed   bool
	calls   int

	acked   []string // keys, in order
	maybe   []string // keys of turns that got an error
	deleted bool     // a deletion got an error
}

func newScenario(t *testing.T, name string) *scenario {
	s := &scenario{t: t, name: name, dir: fastDir(t)}
	s.open()
	return s
}

// fastDir is in memory where that is possible: hundreds of stores are opened,
// and what fails is injected.
func fastDir(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "flisk"); err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

func (s *scenario) open() { s.f, s.fsys = twin(s.t, s.dir, Options{}) }

// calm runs a part of the scenario in which nothing fails.
func (s *scenario) calm(run func()) {
	armed := s.armed
	s.armed = true
	run()
	s.armed = armed
	s.fsys.Ops()
}

// arm adds the fault before the first call that may fail.
func (s *scenario) arm() {
	if s.armed {
		return
	}
	s.armed = true
	s.fsys.Ops()
	nth := s.fault.Nth
	s.fsys.Fail(s.fault)
	for more := nth + 1; s.lasting && more < nth+40; more++ {
		again := s.fault
		again.Nth = more
		s.fsys.Fail(again)
	}
}

func (s *scenario) turn(key string) {
	s.arm()
	_, err := oneTurn(s.t.Context(), s.f, "s", key, "in "+key, "out "+key)
	if err == nil {
		s.acked = append(s.acked, key)
		return
	}
	s.maybe = append(s.maybe, key)
	s.known(err)
}

// known checks that an error has an identity.
func (s *scenario) known(err error) {
	s.t.Helper()
	for _, known := range []error{ErrUnavailable, ErrNoSpace, ErrReadOnly, ErrLostLock, ErrCommitUnknown} {
		if errors.Is(err, known) {
			return
		}
	}
	s.t.Errorf("%s: error %v", s.name, err)
}

func (s *scenario) delete() {
	s.arm()
	if err := s.f.Delete(s.t.Context(), "s"); err != nil {
		s.known(err)
		s.deleted = true
		return
	}
	s.acked = nil
}

// unmarked leaves a commit as a process does that is killed after the write.
func (s *scenario) unmarked(key string) {
	s.turn(key)
	data := readFile(s.t, pathOf(s.dir, "s"))
	lines := bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	writeFile(s.t, pathOf(s.dir, "s"), bytes.Join(lines[:len(lines)-1], nil)) // without its mark
	if err := os.Truncate(lockOf(s.dir, "s"), 0); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scenario) torn() {
	data := readFile(s.t, pathOf(s.dir, "s"))
	writeFile(s.t, pathOf(s.dir, "s"), append(data, `{"h":"torn`...))
}

func (s *scenario) reopen() {
	if err := s.f.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.open()
}

func (s *scenario) check() {
	s.t.Helper()
	s.calls = len(s.fsys.Ops())
	s.fsys.Heal()
	mustTurn(s.t, s.f, "s", "after", "in after", "out after")
	s.acked = append(s.acked, "after")
	if err := s.f.Close(); err != nil {
		s.t.Fatal(err)
	}
	reader, err := OpenReader(s.dir, "bot") // another process
	if err != nil {
		s.t.Fatal(err)
	}
	defer reader.Close()
	v, err := reader.View(s.t.Context(), "s")
	if err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	s.compare(v)
	for _, name := range tree(s.t, s.dir) {
		if strings.HasSuffix(name, tempSuffix) {
			s.t.Errorf("%s: %s was left behind", s.name, name)
		}
	}
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scenario) compare(v View) {
	s.t.Helper()
	var committed []string
	for _, turn_ := range v.Turns {
		if turn_.State == turn.Committed {
			committed = append(committed, turn_.Key)
			if turn_.Number != len(committed) || string(turn_.Reply) != string(quoted("out "+turn_.Key)) {
				s.t.Errorf("%s: turn %d is %+v", s.name, len(committed), turn_)
			}
		}
	}
	sure := slices.DeleteFunc(slices.Clone(committed), func(key string) bool { return slices.Contains(s.maybe, key) })
	want := s.acked
	if s.deleted && !slices.Equal(sure, want) {
		want = slices.DeleteFunc(slices.Clone(want), func(key string) bool { return key == "a" }) // it was deleted after all
	}
	if !slices.Equal(sure, want) || v.Turn != len(committed) || len(v.Messages) != 2*len(committed) {
		s.t.Errorf("%s: acknowledged %q, perhaps %q, found %q with %d messages", s.name, s.acked, s.maybe, committed, len(v.Messages))
	}
}

// begun is a store with one turn committed and one begun.
func begun(t *testing.T) (*File, *durabletest.FS, Session, string) {
	t.Helper()
	dir := t.TempDir()
	f, fsys := twin(t, dir, Options{})
	mustTurn(t, f, "s", "a", "in a", "out a")
	s, err := f.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	if _, err := s.Begin(Begin{Key: "b", Input: quoted("in b")}); err != nil {
		t.Fatal(err)
	}
	fsys.Ops()
	return f, fsys, s, dir
}

func commitB(s Session) error {
	_, err := s.Commit(Commit{Messages: s.Checkpoint().Messages, Add: []Message{{Role: "assistant", Content: quoted("out b")}}, Reply: quoted("out b")})
	return err
}

// TestC32_FullVolume: no space is its own error, the state before it is intact,
// and when there is space again the same turn goes through.
func TestC32_FullVolume(t *testing.T) {
	t.Parallel()
	_, fsys, s, dir := begun(t)
	before := readFile(t, pathOf(dir, "s"))
	fsys.Fail(durabletest.Fault{Op: durable.OpCommitWrite, Err: syscall.ENOSPC, Written: -1, Nth: 1})
	if err := commitB(s); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("error is %v", err)
	}
	if after := readFile(t, pathOf(dir, "s")); !bytes.Equal(before, after) {
		t.Fatal("the file is not as it was")
	}
	if err := commitB(s); err != nil {
		t.Fatal(err)
	}
	fsys.Fail(durabletest.Fault{Op: durable.OpPreallocate, Err: syscall.ENOSPC})
	fsys.Fail(durabletest.Fault{Op: durable.OpBeginWrite, Err: syscall.ENOSPC, Written: 5})
	fresh, err := s.(*fileSession).f.Acquire(t.Context(), "fresh")
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Release()
	if _, err := fresh.Begin(Begin{Input: quoted("in")}); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("a first turn on a full volume: %v", err)
	}
	if _, err := s.Begin(Begin{Input: quoted("in")}); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("a turn on a full volume: %v", err)
	}
	fsys.Heal()
	if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil {
		t.Fatal(err)
	}
}

// TestFailedSyncIsNeverRepeated: the turn goes to a new inode, and the old one
// is not synced again.
func TestFailedSyncIsNeverRepeated(t *testing.T) {
	t.Parallel()
	f, fsys, s, dir := begun(t)
	old, err := os.Stat(pathOf(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	fsys.Fail(durabletest.Fault{Op: durable.OpCommitSync, Err: syscall.EIO, Nth: 1})
	if err := commitB(s); err != nil {
		t.Fatal(err)
	}
	ops := durabletest.Only(fsys.Ops(), durable.OpCommitWrite, durable.OpCommitSync, durable.OpRewriteWrite, durable.OpRewriteSync, durable.OpRewriteRename, durable.OpRewriteDirSync, durable.OpMarkWrite, durable.OpHintWrite)
	want := []durable.Op{durable.OpCommitWrite, durable.OpCommitSync, durable.OpRewriteWrite, durable.OpRewriteSync, durable.OpRewriteRename, durable.OpRewriteDirSync, durable.OpMarkWrite, durable.OpHintWrite}
	if !slices.Equal(ops, want) {
		t.Errorf("operations are %v", ops)
	}
	now, err := os.Stat(pathOf(dir, "s"))
	if err != nil || os.SameFile(old, now) {
		t.Errorf("the file is the same, %v", err)
	}
	s.Release()
	if got := mustTurn(t, f, "s", "c", "in", "out"); got.Number != 3 {
		t.Errorf("the next turn is %d", got.Number)
	}
}

// TestFailedCutGoesToANewFile: no space is only said when the cut succeeded.
func TestFailedCutGoesToANewFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rewrite error
		want    error
	}{{nil, nil}, {syscall.ENOSPC, ErrCommitUnknown}} {
		f, fsys, s, _ := begun(t)
		fsys.Fail(durabletest.Fault{Op: durable.OpCommitWrite, Err: syscall.ENOSPC, Written: -1})
		fsys.Fail(durabletest.Fault{Op: durable.OpCut, Err: syscall.EIO})
		if c.rewrite != nil {
			fsys.Fail(durabletest.Fault{Op: durable.OpRewriteWrite, Err: c.rewrite})
		}
		if err := commitB(s); !errors.Is(err, c.want) {
			t.Errorf("error is %v, want %v", err, c.want)
		}
		s.Release()
		fsys.Heal()
		want := map[bool]int{true: 3, false: 2}[c.want == nil]
		if got := mustTurn(t, f, "s", "", "in", "out"); got.Number != want {
			t.Errorf("the next turn is %d, want %d", got.Number, want)
		}
	}
}

// TestUnknownCommitIsSaidAndSettled: when the way out fails too, nobody knows;
// the next holder does.
func TestUnknownCommitIsSaidAndSettled(t *testing.T) {
	t.Parallel()
	f, fsys, s, _ := begun(t)
	fsys.Fail(durabletest.Fault{Op: durable.OpCommitSync, Err: syscall.EIO})
	fsys.Fail(durabletest.Fault{Op: durable.OpRewriteOpen, Err: syscall.EIO})
	if err := commitB(s); !errors.Is(err, ErrCommitUnknown) {
		t.Fatalf("error is %v", err)
	}
	last, _ := s.Last()
	if _, ok := f.Replay("s", "b"); ok {
		t.Error("a commit that may not be durable is replayed")
	}
	if v, err := f.View(t.Context(), "s"); err != nil || v.Turn != 1 {
		t.Errorf("a commit that may not be durable is shown: turn %d, %v", v.Turn, err)
	}
	s.Release()
	if _, err := f.Acquire(t.Context(), "s"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("while it cannot be made sure: %v", err)
	}
	fsys.Heal()
	got, err := f.Turn(t.Context(), last.ID)
	if err != nil || got.State != turn.Committed {
		t.Errorf("settled it is %+v, %v", got, err)
	}
}

func TestReadOnlyVolumeKeepsReading(t *testing.T) {
	t.Parallel()
	f, fsys, s, dir := begun(t)
	fsys.Fail(durabletest.Fault{Op: durable.OpCommitWrite, Err: syscall.EROFS})
	fsys.Fail(durabletest.Fault{Op: durable.OpBeginWrite, Err: syscall.EROFS})
	fsys.Fail(durabletest.Fault{Op: durable.OpLockOpen, Err: syscall.EROFS})
	if err := commitB(s); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("commit: %v", err)
	}
	s.Release()
	if f.Info().Writable {
		t.Error("writable")
	}
	if _, err := oneTurn(t.Context(), f, "s", "", "in", "out"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("begin: %v", err)
	}
	if _, err := f.Acquire(t.Context(), "other"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("acquire: %v", err)
	}
	if v, err := f.View(t.Context(), "s"); err != nil || v.Turn != 1 {
		t.Errorf("view: %v", err)
	}
	if got, ok := f.Replay("s", "a"); !ok || string(got.Reply) != `"out a"` {
		t.Errorf("replay: %+v", got)
	}
	fsys.Heal()
	mustTurn(t, f, "s", "", "in", "out")
	if !f.Info().Writable {
		t.Error("still not writable")
	}
	_ = dir
}

// TestUnreadableIsNotEmpty: whatever keeps a file from being read, the session
// does not begin anew.
func TestUnreadableIsNotEmpty(t *testing.T) {
	t.Parallel()
	for _, errno := range []error{syscall.EIO, syscall.EACCES, syscall.EMFILE, syscall.ESTALE} {
		for _, op := range []durable.Op{durable.OpSessionStat, durable.OpSessionOpen, durable.OpSessionRead, durable.OpHintRead} {
			dir := t.TempDir()
			mustTurn(t, openStore(t, dir, Options{CacheBytes: -1}), "s", "", "in", "out")
			f, fsys := twin(t, dir, Options{CacheBytes: -1})
			fsys.Fail(durabletest.Fault{Op: op, Err: errno})
			if _, err := f.Acquire(t.Context(), "s"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s %v: Acquire: %v", op, errno, err)
			}
			if _, err := f.View(t.Context(), "s"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s %v: View: %v", op, errno, err)
			}
			fsys.Heal()
			if got := mustTurn(t, f, "s", "", "in", "out"); got.Number != 2 {
				t.Errorf("%s %v: turn %d afterwards", op, errno, got.Number)
			}
		}
	}
}

// TestLostLockWritesNothing: somebody wrote to the file, or put another one in
// its place, past the lock.
func TestLostLockWritesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string, data []byte) error{
		"appended": func(path string, data []byte) error { return os.WriteFile(path, append(data, "x\n"...), 0o600) },
		"replaced": func(path string, data []byte) error {
			if err := os.WriteFile(path+"2", data, 0o600); err != nil {
				return err
			}
			return os.Rename(path+"2", path)
		},
		"moved": func(path string, _ []byte) error { return os.Rename(path, path+"2") },
	} {
		_, _, s, dir := begun(t)
		path := pathOf(dir, "s")
		if err := change(path, readFile(t, path)); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		if err := commitB(s); !errors.Is(err, ErrLostLock) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s: the file was written to", name)
		}
		if err := s.Fail("x"); !errors.Is(err, ErrLostLock) {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

// othersFS is a volume in which a directory is of another user.
type othersFS struct {
	durable.FS
	dir string
	uid int
}

func (f othersFS) Stat(op durable.Op, name string) (durable.Info, error) {
	info, err := f.FS.Stat(op, name)
	if name == f.dir {
		info.UID = f.uid
	}
	return info, err
}

// TestC34_WhatIsMountedWithinTheVolumeIsNamed where that is what cannot be written,
// and not the volume, which is this process's own.
func TestC34_WhatIsMountedWithinTheVolumeIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, _, err := InitVolume(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, agentsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	other := os.Getuid() + 1
	_, err := Open(dir, Options{Agent: "bot", wrap: func(inner durable.FS) durable.FS {
		fsys := durabletest.New(othersFS{inner, agentsDir, other})
		fsys.Fail(durabletest.Fault{Op: durable.OpReplicaDir, Err: &os.PathError{Op: "mkdirat", Path: agentsDir + "/bot", Err: syscall.EACCES}})
		return fsys
	}})
	mounted := filepath.Join(dir, agentsDir)
	for _, part := range []string{fmt.Sprintf("%q belongs to uid %d", mounted, other), fmt.Sprintf("chown -R %d %q", os.Getuid(), mounted)} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v lacks %q", err, part)
		}
	}
}

// TestC34_UnwritableVolumeIsExplained: path, uid, owner and the remedy. It is
// asserted with the error that the kernel gives, for the tests may run as root.
func TestC34_UnwritableVolumeIsExplained(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, _, err := InitVolume(dir); err != nil {
		t.Fatal(err)
	}
	for _, op := range []durable.Op{durable.OpReplicaDir, "probe.open", durable.OpReplicaOpen} {
		_, err := Open(dir, Options{Agent: "bot", wrap: func(inner durable.FS) durable.FS {
			fsys := durabletest.New(inner)
			fsys.Fail(durabletest.Fault{Op: op, Err: &os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}})
			return fsys
		}})
		if !errors.Is(err, ErrNotVolume) || !errors.Is(err, os.ErrPermission) {
			t.Fatalf("%s: %v", op, err)
		}
		for _, part := range []string{dir, fmt.Sprint("belongs to uid ", os.Getuid()), fmt.Sprintf("chown -R %d %q", os.Getuid(), dir)} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q lacks %q", op, err, part)
			}
		}
	}
	// Every step of the probe counts, and nothing is left of it.
	before := tree(t, dir)
	for _, op := range []durable.Op{"probe.write", "probe.sync", "probe.rename", "probe.dirsync", durable.OpProbeLock} {
		_, err := Open(dir, Options{Agent: "bot", wrap: func(inner durable.FS) durable.FS {
			fsys := durabletest.New(inner)
			fsys.Fail(durabletest.Fault{Op: op, Err: syscall.EROFS})
			return fsys
		}})
		if !errors.Is(err, ErrNotVolume) || !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v", op, err)
		}
	}
	if after := tree(t, dir); len(after) > len(before)+1 { // "probe.dirsync" fails behind the rename
		t.Errorf("files are %v", after)
	}
}
