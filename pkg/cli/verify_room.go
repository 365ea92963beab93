package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
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

// claimRoom says whose a room is, for as long as the returned file is open. The
// file gets its name when it is locked: nobody finds it without its owner.
func claimRoom(root string, s stack.Stack) (*os.File, error) {
	f, err := os.CreateTemp(root, roomOwner+"-")
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = json.NewEncoder(f).Encode(stack.Stack{Name: s.Name, ID: s.ID, Instance: s.Instance, Dir: s.Dir, Volume: s.Volume, Gateway: s.Gateway})
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(root, roomOwner))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// roomDriver is a driver of the stack in a room.
func roomDriver(root string, o process.Options) (*process.Driver, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fault.New(fault.Environment, "", "cannot find flisk's own executable: %w", err)
	}
	o.Executable, o.Home, o.RunBase = executable, filepath.Join(root, "home"), filepath.Join(root, "r")
	return process.New(o)
}

// clearRooms ends and removes what verifications left that were killed by
// SIGKILL. What cannot be cleared is told, and keeps nobody from anything.
func (a *app) clearRooms(ctx context.Context, progress *console.Progress) {
	rooms, err := filepath.Glob(filepath.Join(roomParent(), roomPrefix+"*"))
	if err != nil {
		panic(err) // a malformed pattern
	}
	for _, root := range rooms {
		if err := clearRoom(ctx, root, progress); err != nil {
			a.warn(fmt.Sprintf("cannot clear %q, which a killed flisk verify left: %v", root, err))
		}
	}
}

func clearRoom(ctx context.Context, root string, progress *console.Progress) (err error) {
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
	var s stack.Stack
	if err := json.NewDecoder(f).Decode(&s); err != nil {
		return os.RemoveAll(root) // what is not written whole has not begun
	}
	force := make(chan struct{})
	close(force)
	driver, err := roomDriver(root, process.Options{Stack: s, Force: force})
	if err != nil {
		return err
	}
	if _, err := driver.Down(ctx, console.Silent()); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

// own reports whether a file belongs to this user.
func own(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
