package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("another process holds the lock")

// lockFile takes an exclusive flock on a file, made when needed, or returns
// errLocked.
func lockFile(path string) (*os.File, error) {
	return tryLock(path, os.O_CREATE|os.O_RDWR)
}

// lockDir does the same with a directory, which must exist. A locked directory
// is also one that systemd-tmpfiles does not clean up.
func lockDir(path string) (*os.File, error) { return tryLock(path, syscall.O_DIRECTORY) }

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
			return errLocked
		case err != nil:
			return fmt.Errorf("lock %q: %w", f.Name(), err)
		}
		return nil
	}
}

// lockOperation lets one up or down of this project run at a time, over all
// processes of the machine. It says so when it has to wait.
func (d *Driver) lockOperation(ctx context.Context, p runtime.Progress) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(d.place.lock), userOnly); err != nil {
		return nil, err
	}
	f, err := lockFile(d.place.lock)
	if errors.Is(err, errLocked) {
		end := p.Begin("wait for another flisk command on this project")
		f, err = waitLock(ctx, lockFile, d.place.lock)
		end("", err)
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil // closing is what unlocks; there is nothing to lose
}

// waitLock polls: a flock that blocks cannot be given up when ctx ends, and the
// commands that wait here are people's, seconds apart.
func waitLock(ctx context.Context, lock func(string) (*os.File, error), path string) (*os.File, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		f, err := lock(path)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
