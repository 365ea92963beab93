package claim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")

// File takes an exclusive flock on a file, made when needed, or returns
// ErrLocked.
func File(path string) (*os.File, error) {
	return tryLock(path, os.O_CREATE|os.O_RDWR)
}

// Dir does the same with a directory, which must exist. A locked directory
// is also one that systemd-tmpfiles does not clean up.
func Dir(path string) (*os.File, error) { return tryLock(path, syscall.O_DIRECTORY) }

// tryLock opens and locks. The kernel gives a flock back when the process dies,
// so there is no stale lock. What was removed between opening and locking is not
// a lock that anybody else would see: it is tried again.
func tryLock(path string, flags int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		case err != nil:
			return fmt.Errorf("lock %q: %w", f.Name(), err)
		}
		return nil
	}
}

// Project lets one command at a time change a project, over all processes of the
// machine: path is the same for all of its runtimes. It says so when it has to
// wait.
func Project(ctx context.Context, path string, p runtime.Progress) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, noLock(err)
	}
	f, err := File(path)
	if errors.Is(err, ErrLocked) {
		end := p.Begin("wait for another flisk command on this project")
		f, err = Wait(ctx, File, path)
		end("", err)
		if ctx.Err() != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, noLock(err)
	}
	return func() { _ = Unlock(f) }, nil // there is nothing to lose
}

// Unlock gives a lock back and closes its file. Closing alone would leave the lock
// to a process that is being started at this moment, until it is its own program.
func Unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

func noLock(err error) error {
	return fault.New(fault.Environment, "make room there, or make it writable; FLISK_HOME says where it is", "cannot keep others from changing the project meanwhile: %w", err)
}

// Wait polls: a flock that blocks cannot be given up when ctx ends, and the
// commands that wait here are people's, seconds apart.
func Wait(ctx context.Context, lock func(string) (*os.File, error), path string) (*os.File, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		f, err := lock(path)
		if !errors.Is(err, ErrLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
