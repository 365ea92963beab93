package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/console"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime/claim"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
	"github.com/flisk-go/flisk/pkg/runtime/process"
	"github.com/flisk-go/flisk/pkg/stack"
)

const (
	roomPrefix     = "flisk-verify-"
	demoRoomPrefix = "flisk-demo-"
	// A room has these directories for its stack.
	roomHome, roomRun = "home", "r"
	// roomOwner names the file in a room that says what runs in there.
	roomOwner = "owner.json"
	// roomBegins is how long a room without that file is left alone: its
	// verification may only just have made it.
	roomBegins = time.Minute
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

// claimRoom says whose a room is, for as long as the returned file is open, which
// has a lock on the directory. The kernel gives it back when the process dies,
// however that is, and never to a stranger with its number.
func claimRoom(root string, on project.Runtime, s stack.Stack) (*os.File, error) {
	dir, err := claim.Dir(root)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(claimed{on, stack.Stack{Name: s.Name, ID: s.ID, Instance: s.Instance, Dir: s.Dir, Volume: s.Volume, Gateway: s.Gateway}})
	if err == nil {
		err = os.WriteFile(filepath.Join(root, roomOwner), text, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// roomProcesses is a driver of the local processes of the stack in a room.
func roomProcesses(root string, o process.Options) (*process.Driver, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fault.New(fault.Environment, "", "cannot find flisk's own executable: %w", err)
	}
	o.Executable, o.Home, o.RunBase = executable, filepath.Join(root, roomHome), filepath.Join(root, roomRun)
	return process.New(o)
}

// roomContainers is a driver of the containers of the stack in a room. What they
// are made of says which room that is.
func (a *app) roomContainers(root string, o docker.Options) (*docker.Driver, error) {
	o.Home, o.Room, o.Surroundings = filepath.Join(root, roomHome), root, a.surroundings()
	return docker.New(o)
}

// clearRooms ends and removes what verifications and demos left that were killed
// by SIGKILL. What cannot be cleared is told, and keeps nobody from anything.
func (a *app) clearRooms(ctx context.Context, on project.Runtime, progress *console.Progress) {
	rooms, err := roomsIn(roomParent())
	if err != nil {
		a.warn(fmt.Sprintf("cannot look for what a killed flisk left: %v", err))
	}
	for _, root := range rooms {
		if err := a.clearRoom(ctx, root, progress); err != nil {
			a.warn(fmt.Sprintf("cannot clear %q, which a killed flisk left: %v", root, err))
		}
	}
	if on != project.Docker {
		return
	}
	if err := a.clearContainers(ctx); err != nil {
		a.warn(fmt.Sprintf("cannot clear the containers that a killed flisk verify left: %v", err))
	}
}

// roomsIn are the directories of a directory that have the name of a room: a
// prefix and a number, by [os.MkdirTemp].
func roomsIn(parent string) ([]string, error) {
	entries, err := os.ReadDir(parent)
	var rooms []string
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), roomPrefix)
		if !ok {
			number, ok = strings.CutPrefix(e.Name(), demoRoomPrefix)
		}
		if ok && number != "" && strings.Trim(number, "0123456789") == "" && e.IsDir() {
			rooms = append(rooms, filepath.Join(parent, e.Name()))
		}
	}
	return rooms, err
}

func (a *app) clearRoom(ctx context.Context, root string, progress *console.Progress) (err error) {
	info, err := os.Lstat(root)
	if err != nil || !info.IsDir() || !own(info) {
		return nil // gone, or somebody else's
	}
	owner, runs, err := readOwner(root)
	if err != nil {
		return err
	}
	if !runs && time.Since(info.ModTime()) < roomBegins {
		return nil
	}
	dir, err := claim.Dir(root)
	if errors.Is(err, claim.ErrLocked) || errors.Is(err, os.ErrNotExist) {
		return nil // its verification lives, or somebody else has cleared it
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	done := progress.Wait("clearing what a killed flisk left")
	defer done()
	if runs {
		if err := a.clearStack(ctx, root, owner); err != nil {
			return err
		}
	}
	return os.RemoveAll(root)
}

// readOwner reads what runs in a room. Nothing does where it is not said, or not
// said whole: it is written before anything is started, and taken away when all
// has ended.
func readOwner(root string) (c claimed, runs bool, err error) {
	text, err := os.ReadFile(filepath.Join(root, roomOwner))
	if errors.Is(err, os.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	return c, json.Unmarshal(text, &c) == nil, nil
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
	_, err = driver.Down(ctx, console.Silent())
	if err != nil && ctx.Err() == nil {
		// The stack ends by itself as well when its owner is gone, and may have done
		// so between two questions.
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
