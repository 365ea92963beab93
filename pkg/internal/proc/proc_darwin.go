package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

const stateZombie = 5 // SZOMB of sys/proc.h

// look asks the kernel's process table. Start times are wall-clock times in
// microseconds, so they tell boots apart by themselves.
func look(pid int) (snapshot, error) {
	if pid < 1 {
		return snapshot{}, gone(pid)
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	// No such process is an empty answer, which x/sys calls EIO.
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) {
		return snapshot{}, gone(pid)
	}
	if err != nil {
		return snapshot{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return snapshot{
		start:  startText(info.Proc.P_starttime),
		group:  int(info.Eproc.Pgid),
		zombie: info.Proc.P_stat == stateZombie,
	}, nil
}

// groupRuns reports whether a process that is no zombie is in the group.
func groupRuns(group int) (bool, error) {
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	if err != nil {
		return false, fmt.Errorf("process group %d: %w", group, err)
	}
	return slices.ContainsFunc(infos, func(info unix.KinfoProc) bool { return info.Proc.P_stat != stateZombie }), nil
}

// startText has a fixed width, so that texts compare as times do.
func startText(t unix.Timeval) string { return fmt.Sprintf("%012d.%06d", t.Sec, t.Usec) }

// sinceBoot reports whether a process with this start time was started after
// the system was.
func sinceBoot(start string) bool {
	boot, err := unix.SysctlTimeval("kern.boottime")
	return err == nil && start >= startText(*boot)
}

// onlyZombies reports whether a failed group signal means that no member runs.
// macOS answers EPERM when it found members and none that it may signal, and
// skips zombies.
func onlyZombies(err error) bool { return errors.Is(err, syscall.EPERM) }

// await reports false: the caller has to poll. A kqueue would tell up to
// pollEvery sooner, which is not worth a second way to be right.
func (id Identity) await(context.Context) (done bool, err error) { return false, nil }
