package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/durable"
	"github.com/flisk-go/flisk/pkg/internal/durable/durabletest"
	"github.com/flisk-go/flisk/pkg/turn"
)

func TestReopenedStoreRemembers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var want []Turn
	for i := range 5 {
		f := openStore(t, dir, Options{})
		want = append(want, mustTurn(t, f, "s", fmt.Sprint("k", i), fmt.Sprint("in ", i), fmt.Sprint("out ", i)))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f := openStore(t, dir, Options{})
	v, err := f.View(t.Context(), "s")
	if err != nil || v.Turn != 5 || len(v.Messages) != 10 || v.Messages[9].Text() != "out 4" {
		t.Fatalf("view is %+v, %v", v, err)
	}
	s, err := f.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	for i, w := range want {
		got, ok := s.ByKey(fmt.Sprint("k", i))
		if !ok || got.ID != w.ID || string(got.Reply) != string(w.Reply) || got.InputHash != w.InputHash || got.State != turn.Committed {
			t.Errorf("turn %d is %+v, was %+v", i, got, w)
		}
	}
}

// TestOrderOfOperations asserts the sequences of the design, call by call.
func TestOrderOfOperations(t *testing.T) {
	t.Parallel()
	f, fsys := twin(t, t.TempDir(), Options{})
	check := func(what string, want ...durable.Op) {
		t.Helper()
		if got := fsys.Ops(); !slices.Equal(got, want) {
			t.Errorf("%s is\n%v, want\n%v", what, got, want)
		}
	}
	do := func(call func(Session) error) {
		t.Helper()
		s, err := f.Acquire(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		fsys.Ops()
		if err := call(s); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(s Session) error { _, err := s.Begin(Begin{Input: quoted("in")}); return err }
	commit := func(s Session) error { _, err := s.Commit(Commit{Reply: quoted("out")}); return err }

	do(func(s Session) error {
		if err := begin(s); err != nil {
			return err
		}
		check("create", durable.OpSessionMkdir, durable.OpShardSync, durable.OpEntryAdd,
			"create.clean", durable.OpCreateOpen, durable.OpPreallocate, durable.OpCreateWrite, "create.check", durable.OpCreateSync,
			durable.OpHintRead, durable.OpCreateRename, durable.OpCreateDirSync, durable.OpSessionOpen, durable.OpSessionStat)
		if err := commit(s); err != nil {
			return err
		}
		check("commit", durable.OpCommitCheck, durable.OpCommitWrite, durable.OpCommitSync, durable.OpMarkWrite, durable.OpHintWrite)
		err := s.Delivered()
		check("delivered", durable.OpDeliverWrite)
		return err
	})
	check("release", durable.OpLockRelease)
	s, err := f.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	check("warm acquire", durable.OpLockTry, durable.OpSessionStat, durable.OpHintRead)
	if err := begin(s); err != nil {
		t.Fatal(err)
	}
	check("warm begin", durable.OpBeginWrite) // the entry is there, and the space
	if err := s.Fail("no"); err != nil {
		t.Fatal(err)
	}
	check("fail", durable.OpFailWrite)
	if err := begin(s); err != nil {
		t.Fatal(err)
	}
	check("next warm begin", durable.OpBeginWrite)
	s.(*fileSession).s.reserved = 0 // as after a load
	if err := s.Fail("no"); err != nil {
		t.Fatal(err)
	}
	fsys.Ops()
	if err := begin(s); err != nil {
		t.Fatal(err)
	}
	check("begin after a load", durable.OpPreallocate, durable.OpBeginWrite)
	s.Release()
	fsys.Ops()
	if err := f.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	got := durabletest.Only(fsys.Ops(), durable.OpLockTry, durable.OpHintWrite, durable.OpHintSync, durable.OpDeleteRemove, durable.OpDeleteDirSync, durable.OpLockRelease)
	want := []durable.Op{durable.OpLockTry, durable.OpHintWrite, durable.OpHintSync, durable.OpDeleteRemove, durable.OpDeleteDirSync, durable.OpLockRelease}
	if !slices.Equal(got, want) {
		t.Errorf("delete is %v, want %v", got, want)
	}
}

// TestWarmSessionIsNotReadAgain, and is when another process wrote to it.
func TestWarmSessionIsNotReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, fsys := twin(t, dir, Options{})
	b := openStore(t, dir, Options{})
	for range 3 {
		mustTurn(t, a, "s", "", "in", "out")
	}
	if n := durabletest.Count(fsys.Ops(), durable.OpSessionRead); n != 0 {
		t.Errorf("a warm session was read %d times", n)
	}
	mustTurn(t, b, "s", "k", "in b", "out b")
	if got := mustTurn(t, a, "s", "", "in", "out"); got.Number != 5 {
		t.Errorf("turn %d after another process wrote", got.Number)
	}
	if n := durabletest.Count(fsys.Ops(), durable.OpSessionRead); n == 0 {
		t.Error("a session that another process wrote to was not read")
	}
	if got, ok := a.Replay("s", "k"); !ok || got.Number != 4 {
		t.Errorf("the other process's turn is %+v", got)
	}
	if err := b.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, ok := a.Replay("s", "k"); ok {
		t.Error("a turn is replayed that another process deleted")
	}
	if got := mustTurn(t, a, "s", "", "in", "out"); got.Number != 1 {
		t.Errorf("turn %d after another process deleted the session", got.Number)
	}
}

// TestReplacedFileIsReadAgain: the same name and size are not the same file.
func TestReplacedFileIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, fsys := twin(t, dir, Options{})
	mustTurn(t, f, "s", "", "in", "out")
	path := pathOf(dir, "s")
	writeFile(t, path+"2", readFile(t, path))
	if err := os.Rename(path+"2", path); err != nil {
		t.Fatal(err)
	}
	fsys.Ops()
	mustTurn(t, f, "s", "", "in", "out")
	if n := durabletest.Count(fsys.Ops(), durable.OpSessionRead); n == 0 {
		t.Error("it was not read")
	}
	if v, err := f.View(t.Context(), "s"); err != nil || v.Turn != 2 {
		t.Errorf("turn %d, %v", v.Turn, err)
	}
}

// TestDirectoryIsSyncedForTheDead: a process that was killed between the rename
// of a session's file and the sync of its directory leaves a name that a power
// cut may take, so the next one syncs before it acknowledges anything.
func TestDirectoryIsSyncedForTheDead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := openStore(t, dir, Options{})
	s, err := first.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(Begin{Input: quoted("in")}); err != nil { // all that create writes
		t.Fatal(err)
	}
	s.Release()
	for _, want := range []int{1, 0} {
		f, fsys := twin(t, dir, Options{})
		mustTurn(t, f, "s", "", "in", "out")
		if n := durabletest.Count(fsys.Ops(), durable.OpShardSync); n != want {
			t.Errorf("the directory was synced %d times, want %d", n, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGoneProcessIsAskedAfterwards: a turn that commits between the look at its
// file and the look for its process did not fail.
func TestGoneProcessIsAskedAfterwards(t *testing.T) {
	t.Parallel()
	f := openStore(t, t.TempDir(), Options{})
	s, err := f.Acquire(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	begun, err := s.Begin(Begin{Input: quoted("in")})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := f.turn(t.Context(), begun.ID, func(identity, *state) bool {
		if _, err := s.Commit(Commit{Reply: quoted("out")}); err != nil {
			t.Error(err)
		}
		return false // and its process is gone
	})
	if err != nil || got.State != turn.Committed {
		t.Errorf("turn is %+v, %v", got, err)
	}
}

// TestC30_TwoReplicasTakeTurns: two stores on one volume, as two processes have
// it, with 20 turns at once in one session.
func TestC30_TwoReplicasTakeTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stores := []*File{openStore(t, dir, Options{}), openStore(t, dir, Options{})}
	errs := make(chan error)
	for i := range 20 {
		go func() {
			_, err := oneTurn(t.Context(), stores[i%2], "s", fmt.Sprint("k", i), fmt.Sprint("in ", i), "out")
			errs <- err
		}()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	v, err := stores[0].View(t.Context(), "s")
	if err != nil || v.Turn != 20 || len(v.Messages) != 40 {
		t.Fatalf("%d turns, %d messages, %v", v.Turn, len(v.Messages), err)
	}
}

func TestLockWaitIsGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	for _, asks := range []string{"the other process", "this process"} {
		dir := t.TempDir()
		a := openStore(t, dir, Options{})
		b, fsys := twin(t, dir, Options{})
		held, err := a.Acquire(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(held.Release)
		why := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		given := make(chan error, 1)
		go func() { _, err := b.Acquire(ctx, "s"); given <- err }()
		until(t, func() bool { return slices.Contains(fsys.Ops(), durable.OpLockWait) })
		e := b.entries[fileName("s")]
		cancel(why)
		if err := <-given; !errors.Is(err, why) {
			t.Fatalf("error is %v", err)
		}
		wait := e.wait // a goroutine that waits in the kernel, for nobody
		next := make(chan error, 1)
		acquire := func(f *File) {
			s, err := f.Acquire(t.Context(), "s")
			if err == nil {
				s.Release()
			}
			next <- err
		}
		if asks == "this process" {
			go acquire(b) // it takes the goroutine over, or comes behind it
			held.Release()
		} else {
			held.Release()
			<-wait.done
			go acquire(a)
		}
		select {
		case err := <-next:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s did not get the lock", asks)
		}
		runtime.KeepAlive(wait) // a file that is collected gives its lock back too
	}
}

// until waits for a condition that another goroutine brings about.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to pass in 10 s")
		}
	}
}

func TestC29_NothingIsMadeOutsideOfTheVolume(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "volume")
	f := openStore(t, dir, Options{})
	before := tree(t, parent)
	for _, id := range []string{"../x", "a/b", "", strings.Repeat("x", 5000), ".tmp", "..", "a\x00"} {
		if _, err := oneTurn(t.Context(), f, id, "", "in", "out"); !errors.Is(err, turn.ErrSessionID) {
			t.Errorf("%.10q: %v", id, err)
		}
	}
	if after := tree(t, parent); !slices.Equal(before, after) {
		t.Errorf("files are %v, were %v", after, before)
	}
	for _, id := range []string{"CON", "x.tmp", "A", "a"} {
		mustTurn(t, f, id, "", "in", "out")
	}
	lower := map[string]bool{}
	for _, name := range tree(t, parent) {
		if !strings.HasPrefix(name, "volume/") {
			t.Errorf("%s is outside of the volume", name)
		}
		if lower[strings.ToLower(name)] {
			t.Errorf("%s has a twin where case does not count", name)
		}
		lower[strings.ToLower(name)] = true
	}
}

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "volume")
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s", "", "in", "out")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestC35_FileIsLinearInTurns: the bytes of a turn do not depend on how many
// there were.
func TestC35_FileIsLinearInTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	var sizes []int64
	for i := range 400 {
		mustTurn(t, f, "s", "", "the question", "the answer")
		if i == 99 || i == 199 || i == 299 || i == 399 {
			info, err := os.Stat(pathOf(dir, "s"))
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, info.Size())
		}
	}
	first, last := sizes[1]-sizes[0], sizes[3]-sizes[2]
	if last > first+first/20 || sizes[3] > 400*1200 {
		t.Errorf("sizes after every 100 turns are %v", sizes)
	}
	t.Logf("%d bytes a turn", last/100)
}

func TestSpaceIsGivenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s", "", "in", "out")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if used := blocks(t, pathOf(dir, "s")); used > 16<<10 {
		t.Errorf("a session of one turn takes %d bytes of disk", used)
	}
}

func TestClosedStoreLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := openStore(t, dir, Options{})
	mustTurn(t, f, "s", "", "in", "out")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w := identity{agent: "bot", name: fileName("s")}
	if got, want := tree(t, dir), []string{"VOLUME", w.lock(), w.path()}; !slices.Equal(got, want) {
		t.Errorf("files are %v, want %v", got, want)
	}
}

func TestCacheStaysInItsBudget(t *testing.T) {
	t.Parallel()
	f := openStore(t, t.TempDir(), Options{CacheSessions: 3})
	for i := range 10 {
		mustTurn(t, f, fmt.Sprint("s", i), "k", "in", "out")
	}
	if len(f.entries) != 3 || f.idle.Len() != 3 {
		t.Errorf("%d entries, %d of them idle", len(f.entries), f.idle.Len())
	}
	if _, ok := f.Replay("s9", "k"); !ok {
		t.Error("the newest is gone")
	}
	if _, ok := f.Replay("s0", "k"); ok {
		t.Error("the oldest is there")
	}
	small := openStore(t, t.TempDir(), Options{CacheBytes: 20 << 10})
	for i := range 10 {
		mustTurn(t, small, fmt.Sprint("s", i), "k", "in", strings.Repeat("x", 4<<10))
	}
	if n := small.idle.Len(); n < 1 || n > 3 || small.loaded > 20<<10 {
		t.Errorf("%d sessions, %d bytes", n, small.loaded)
	}
}

// TestDeadReplicaIsSwept: what it finished is cleared away, what it did not is
// left for whoever resumes it.
func TestDeadReplicaIsSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := openStore(t, dir, Options{})
	mustTurn(t, dead, "done", "", "in", "out")
	s, err := dead.Acquire(t.Context(), "open")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	begun, err := s.Begin(Begin{Key: "k", Input: quoted("in")})
	if err != nil {
		t.Fatal(err)
	}
	alive := openStore(t, dir, Options{})
	if got, err := alive.Turn(t.Context(), begun.ID); err != nil || got.State != turn.Running {
		t.Fatalf("seen from another replica the turn is %+v, %v", got, err)
	}
	list := filepath.Join(dir, "a/bot/open", dead.replica)
	if names := tree(t, list); len(names) != 2 {
		t.Fatalf("entries are %v", names)
	}
	// It dies: its locks are free, and nothing is tidied.
	_ = dead.life.Close()
	_ = s.(*fileSession).e.lock.Close()
	if got, err := alive.Turn(t.Context(), begun.ID); err != nil || got.State != turn.Failed {
		t.Fatalf("after its death the turn is %+v, %v", got, err)
	}
	next := openStore(t, dir, Options{})
	if names := tree(t, list); !slices.Equal(names, []string{fileName("open")}) {
		t.Errorf("entries are %v", names)
	}
	mustTurn(t, next, "open", "k", "in", "out")
	third := openStore(t, dir, Options{})
	if _, err := os.Stat(list); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the list of a dead replica with nothing open: %v", err)
	}
	if third.alive(dead.replica) || !third.alive(next.replica) || !third.alive(third.replica) {
		t.Error("who lives is wrong")
	}
}

func TestVolumeIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not there yet", "v")
	if _, err := VolumeID(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no volume: %v", err)
	}
	type result struct {
		id      string
		created bool
		err     error
	}
	results := make(chan result)
	for range 10 {
		go func() { id, created, err := InitVolume(dir); results <- result{id, created, err} }()
	}
	created := 0
	ids := map[string]bool{}
	for range 10 {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		if r.created {
			created++
		}
		ids[r.id] = true
	}
	if created != 1 || len(ids) != 1 {
		t.Errorf("%d created, ids %v", created, ids)
	}
	if got := tree(t, dir); !slices.Equal(got, []string{"VOLUME"}) {
		t.Errorf("files are %v", got)
	}
	id, err := VolumeID(dir)
	if err != nil || !ids[id] || !validUUID(id) {
		t.Errorf("id is %q, %v", id, err)
	}
}

func TestOtherVolumeIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id, _, err := InitVolume(dir)
	if err != nil {
		t.Fatal(err)
	}
	openStore(t, dir, Options{ExpectVolume: id})
	if _, err := Open(dir, Options{Agent: "bot", ExpectVolume: "another"}); !errors.Is(err, ErrOtherVolume) {
		t.Errorf("another volume: %v", err)
	}
	empty := t.TempDir()
	if _, err := Open(empty, Options{Agent: "bot", ExpectVolume: id}); !errors.Is(err, ErrOtherVolume) {
		t.Errorf("an emptied volume: %v", err)
	}
	if got := tree(t, empty); len(got) != 0 {
		t.Errorf("an emptied volume now has %v", got)
	}
	for _, bad := range []string{"", "{}", `{"v":2,"volume":"x","secret":"00"}`, "\x00\x00"} {
		writeFile(t, filepath.Join(dir, "VOLUME"), []byte(bad))
		if _, err := Open(dir, Options{Agent: "bot"}); !errors.Is(err, ErrNotVolume) {
			t.Errorf("VOLUME %q: %v", bad, err)
		}
	}
}

func TestAgentsKeepTheirOwnSessions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, agent := range []string{"bot", "other"} {
		f := openStore(t, dir, Options{Agent: agent})
		if got := mustTurn(t, f, "s1", "", "I am "+agent, "hello"); got.Number != 1 {
			t.Errorf("%s begins at turn %d", agent, got.Number)
		}
	}
	agents, err := Agents(dir)
	if err != nil || !slices.Equal(agents, []string{"bot", "other"}) {
		t.Errorf("agents are %v, %v", agents, err)
	}
	if n, err := CountSessions(dir); err != nil || n != 2 {
		t.Errorf("%d sessions, %v", n, err)
	}
	// A file that got under another agent's name is not shown as its session.
	writeFile(t, strings.Replace(pathOf(dir, "s1"), "/bot/", "/other/", 1), readFile(t, pathOf(dir, "s1")))
	f := openStore(t, dir, Options{Agent: "other"})
	if _, err := f.Acquire(t.Context(), "s1"); err == nil {
		t.Error("another agent's file was taken")
	}
}
