package toolchain

import (
	"context"
	"os/exec"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/internal/proc"
)

// stopGrace is how long the go command may take to remove its temporary files
// when it is interrupted.
const stopGrace = 2 * time.Second

// runGroup runs a command in a process group of its own and waits for it. When
// ctx ends the whole group is interrupted, and killed if that does not help: the
// go command's compilers must not outlive it.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	cmd.SysProcAttr = proc.NewGroup()
	// A process that keeps the output open after the command is gone does not
	// hold the caller for ever.
	cmd.WaitDelay = stopGrace
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	group, identified := proc.Identify(cmd.Process.Pid) // fails when it has ended already
	finished, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		if identified != nil {
			return
		}
		_ = group.SignalGroup(syscall.SIGINT) // whoever is gone needs no signal, here and below
		grace := time.NewTimer(stopGrace)
		defer grace.Stop()
		select {
		case <-finished:
		case <-grace.C:
		}
		_ = group.SignalGroup(syscall.SIGKILL)
	}()
	err := cmd.Wait()
	close(finished)
	<-watched
	return err
}
