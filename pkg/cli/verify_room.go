package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
	"github.com/flisk-go/flisk/pkg/runtime/process"
	"github.com/flisk-go/flisk/pkg/stack"
)

const (
	roomPrefix = "flisk-verify-"
	// roomOwner names the file in a room that its verification holds a lock on,
	// and which says what runs in there. The kernel gives the lock back when the
	// process dies, however that is, and never to a stranger with its number.
	roomOwner = "owner.json"
)

// longestParent keeps the sockets of a stack, up to 85 bytes below it, within the
// 103 that a socket's name may have.
const longestParent = 18

// roomParent is the directory for temporary directories that a stack fits into.
func roomParent() string {
	if parent := os.TempDir(); len(parent) <= longestParent {
		return parent
	}
	return "/tmp"
}

// makeRoom makes a temporary directory that a stack fits into.
func makeRoom(prefix string) (string, error) {
	root, err := os.MkdirTemp(roomParent(), prefix)
	if err != nil {
		return "", fault.New(fault.Environment, "set TMPDIR to a directory of yours", "there is no place for a stack of its own: %w", err)
	}
	return root, nil
}

// claimed is what a room's owner says runs in there.
type claimed struct {
	Runtime project.Runtime
	Stack   stack.Stack
}

// claimRoom says whose a room is, for as long as the returned file is open. The
// file gets its name when it is locked: nobody finds it without its owner.
func claimRoom(root string, on project.Runtime, s stack.Stack) (*os.File, error) {
	f, err := os.CreateTemp(root, roomOwner+"-")
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = json.NewEncoder(f).Encode(claimed{on, stack.Stack{Name: s.Name, ID: s.ID, Instance: s.Instance, Dir: s.Dir, Volume: s.Volume, Gateway: s.Gateway}})
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(root, roomOwner))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// roomProcesses is a driver of the local processes of the stack in a room.
func roomProcesses(root string, o process.Options) (*process.Driver, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fault.New(fault.Environment, "", "cannot find flisk's own executable: %w", err)
	}
	o.Executable, o.Home, o.RunBase = executable, filepath.Join(root, "home"), filepath.Join(root, "r")
	return process.New(o)
}

// roomContainers is a driver of the containers of the stack in a room. What they
// are made of says which room that is.
func (a *app) roomContainers(root string, o docker.Options) (*docker.Driver, error) {
	o.Home, o.Room, o.Surroundings = filepath.Join(root, "home"), root, a.surroundings()
	return docker.New(o)
}

// clearRooms ends and removes what verifications left that were killed by
// SIGKILL. What cannot be cleared is told, and keeps nobody from anything.
func (a *app) clearRooms(ctx context.Context, on project.Runtime, progress *console.Progress) {
	rooms, err := filepath.Glob(filepath.Join(roomParent(), roomPrefix+"*"))
	if err != nil {
		panic(err) // a malformed pattern
	}
	for _, root := range rooms {
		if err := a.clearRoom(ctx, root, progress); err != nil {
			a.warn(fmt.Sprintf("cannot clear %q, which a killed flisk verify left: %v", root, err))
		}
	}
	if on != project.Docker {
		return
	}
	if err := a.clearContainers(ctx); err != nil {
		a.warn(fmt.Sprintf("cannot clear the containers that a killed flisk verify left: %v", err))
	}
}

func (a *app) clearRoom(ctx context.Context, root string, progress *console.Progress) (err error) {
	info, err := os.Lstat(root)
	if err != nil || !info.IsDir() || !own(info) {
		return nil // gone, or somebody else's
	}
	f, err := os.OpenFile(filepath.Join(root, roomOwner), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil // it begins or ends just now, or is no such room
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil // its verification lives
	}
	done := progress.Wait("clearing what a killed flisk verify left")
	defer done()
	var c claimed
	if err := json.NewDecoder(f).Decode(&c); err != nil {
		return os.RemoveAll(root) // what is not written whole has not begun
	}
	if err := a.clearStack(ctx, root, c); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

// clearStack ends and removes what runs in a room whose owner is gone.
func (a *app) clearStack(ctx context.Context, root string, c claimed) error {
	if c.Runtime == project.Docker {
		driver, err := a.roomContainers(root, docker.Options{Stack: c.Stack})
		if err != nil {
			return err
		}
		return errors.Join(driver.Erase(ctx, console.Silent()), driver.Close())
	}
	force := make(chan struct{})
	close(force)
	driver, err := roomProcesses(root, process.Options{Stack: c.Stack, Force: force})
	if err != nil {
		return err
	}
	if _, err = driver.Down(ctx, console.Silent()); err != nil {
		// It ends by itself, because its owner is gone, and may have done so just
		// then: whoever looks again finds that.
		_, err = driver.Down(ctx, console.Silent())
	}
	return err
}

// clearContainers removes the containers of verifications whose rooms are gone:
// a machine that was switched off meanwhile has forgotten those, and its engine
// starts the containers again. Others are left alone, and so are rooms that are
// there: they say themselves what becomes of them.
func (a *app) clearContainers(ctx context.Context) error {
	left, err := docker.LeftRooms(ctx, a.surroundings())
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range left {
		if _, err := os.Lstat(l.Room); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		root, err := makeRoom("flisk-clear-")
		if err != nil {
			return err
		}
		errs = append(errs, a.clearStack(ctx, root, claimed{project.Docker, stack.Stack{Name: l.Name, ID: l.ID, Dir: l.Dir}}), os.RemoveAll(root))
	}
	return errors.Join(errs...)
}

// own reports whether a file belongs to this user.
func own(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
