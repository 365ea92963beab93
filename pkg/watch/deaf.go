package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
)

// patience is how long the probe waits for an event, which comes within a
// millisecond where it comes at all.
const patience = time.Second

// probeDir is where the probe file is: in a directory that counts for nothing.
const probeDir = ".flisk"

const pollHint = "flisk looks at the files in intervals instead, and sees a change a little later"

// deaf finds out why no events are to be expected from the project's directory.
// nil says that they come, or that it could not be found out.
func (w *Watcher) deaf(ctx context.Context) error {
	dir := w.o.Project.Dir
	if w.o.Poll {
		return nil
	}
	if name := remote(dir); name != "" {
		return fault.New(fault.Environment, pollHint, "%q is on a file system (%s) that does not tell of every change", dir, name)
	}
	heard, err := w.probe(ctx, filepath.Join(dir, probeDir))
	switch {
	case err != nil && limit(err) != "":
		return explain(err, dir)
	case err == nil && !heard && ctx.Err() == nil:
		return fault.New(fault.Environment, pollHint, "a new file in %q gives no event", dir)
	}
	return nil // a directory that nobody can write to needs no events
}

// probe makes a file in dir and reports whether there is an event of it. It leaves
// nothing behind.
func (w *Watcher) probe(ctx context.Context, dir string) (heard bool, err error) {
	if err := os.Mkdir(dir, 0o700); err == nil {
		defer os.Remove(dir) // unless somebody has put something into it
	} else if !errors.Is(err, os.ErrExist) {
		return false, err
	}
	n, err := w.open()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Add(dir); err != nil {
		return false, err
	}
	file, err := os.CreateTemp(dir, "watch-probe-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return false, err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case event, ok := <-n.events():
			if !ok {
				return false, nil
			}
			if event.Name == file.Name() {
				return true, nil
			}
		case err, ok := <-n.errs():
			if !ok || err != nil {
				return false, err
			}
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// explain says why a directory cannot be watched, in words that name the way out.
func explain(err error, dir string) error {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f
	}
	if remedy := limit(err); remedy != "" {
		f := fault.New(fault.Environment, fmt.Sprintf("%s; until then %s", remedy, pollHint), "not every directory of %q can be watched: %w", dir, err)
		if what := used(err); what != "" {
			f.Message = fmt.Sprintf("not every directory of %q can be watched: %s", dir, what)
		}
		return f
	}
	return fault.New(fault.Environment, pollHint, "the directories of %q cannot be watched: %w", dir, err)
}

// tooManyFiles reports whether this process may open no other file.
func tooManyFiles() bool {
	f, err := os.Open(os.DevNull)
	if err == nil {
		_ = f.Close() // it was not written to
	}
	return errors.Is(err, syscall.EMFILE)
}
