package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/internal/proc"
)

// spawn starts the supervisor of a run directory and returns when it listens.
// When it cannot, nothing of it is left.
func (d *Driver) spawn(ctx context.Context) error {
	if err := d.place.makeRunDir(); err != nil {
		return err
	}
	err := d.startSupervisor(ctx)
	if err != nil {
		err = errors.Join(err, d.place.removeRunDir())
	}
	return err
}

func (d *Driver) startSupervisor(ctx context.Context) error {
	if err := writeFile(filepath.Join(d.place.run, settingsFile), d.settings()); err != nil {
		return err
	}
	binary := filepath.Join(d.place.run, supervisorCopy)
	if err := copyProgram(d.o.Executable, binary); err != nil {
		return err
	}
	output, err := d.supervisorOutput()
	if err != nil {
		return err
	}
	defer output.Close() // the supervisor has its own copy
	pipeR, pipeW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer pipeR.Close()

	cmd, err := startProgram(ctx, exec.Cmd{
		Path:        binary,
		Args:        []string{binary, "supervise", d.place.run},
		Dir:         d.o.Home, // not the project: its directory may be moved or removed
		Stdout:      output,
		Stderr:      output,
		ExtraFiles:  d.supervisorFiles(pipeW),
		SysProcAttr: proc.NewSession(),
	})
	if err = errors.Join(err, pipeW.Close()); err != nil {
		return err
	}
	if err := waitStarted(ctx, pipeR); err != nil {
		// Asked to end, it also removes what it made; if it cannot even do that,
		// there are no replicas yet that it could leave behind.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if !errors.Is(err, io.EOF) {
			return err
		}
		return fault.New(fault.Failed, "see "+output.Name(), "the gateway's process ended before it was ready (%s)", exitOf(cmd.ProcessState))
	}
	// It outlives this process, or this process sees to its end in Down, where
	// it is reaped by number.
	return cmd.Process.Release()
}

// supervisorFiles are what it finds at readyFD and ownerFD.
func (d *Driver) supervisorFiles(ready *os.File) []*os.File {
	if d.o.Owner == nil {
		return []*os.File{ready}
	}
	return []*os.File{ready, d.o.Owner}
}

func (d *Driver) settings() settings {
	s := d.o.Stack
	return settings{
		ID: s.ID, Instance: s.Instance, Home: d.o.Home, RunBase: d.o.RunBase,
		Volume: s.Volume.Name, Gateway: s.Gateway, Serve: routesOf(s, nil), Owned: d.o.Owner != nil,
	}
}

// supervisorOutput opens what becomes the supervisor's standard output and
// error. It writes its own log through a bounded file; here goes only what the
// Go runtime says when a program crashes, so a fresh file a start is bound
// enough, with one predecessor.
func (d *Driver) supervisorOutput() (*os.File, error) {
	if err := os.MkdirAll(d.place.logs, userOnly); err != nil {
		return nil, err
	}
	path := filepath.Join(d.place.logs, "supervisor.out")
	if err := os.Rename(path, path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// copyProgram copies the running flisk. The original may be in a directory that
// `go run` removes, or be replaced by an update.
func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy the flisk program: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, userOnly)
	if err != nil {
		return fmt.Errorf("copy the flisk program: %w", err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copy the flisk program: %w", err)
	}
	return nil
}

// startProgram starts a program that was just written. Another goroutine that
// starts a process at the same moment passes the open file on to it for an
// instant, and the kernel does not run a file that is open for writing.
func startProgram(ctx context.Context, program exec.Cmd) (*exec.Cmd, error) {
	for tries := 0; ; tries++ {
		cmd := program // one that failed to start cannot be started again
		err := cmd.Start()
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, fault.New(fault.Environment, "set FLISK_RUN_DIR to a directory where programs may run (it may be mounted with noexec)",
				"cannot run a program from %q: %w", filepath.Dir(cmd.Path), err)
		case !errors.Is(err, syscall.ETXTBSY) || tries == 20:
			return &cmd, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// waitStarted reads the supervisor's report. It returns io.EOF when it died
// without one.
func waitStarted(ctx context.Context, pipe *os.File) error {
	if err := pipe.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = pipe.SetReadDeadline(time.Now()) })
	defer stop()
	var report startReport
	err := json.NewDecoder(pipe).Decode(&report)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.Failed, "", "the gateway's process was not ready within %s", startTimeout)
	case err != nil:
		return err
	case report.Fault != nil:
		return report.Fault.err()
	}
	return nil
}
