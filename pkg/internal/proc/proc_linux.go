package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// look reads /proc/<pid>/stat. A start time is counted from boot, so the boot's
// own name belongs to it.
func look(pid int) (snapshot, error) {
	if pid < 1 {
		return snapshot{}, gone(pid)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return snapshot{}, gone(pid)
	}
	if err != nil {
		return snapshot{}, fmt.Errorf("process %d: %w", pid, err)
	}
	s, err := parseStat(stat)
	if err != nil {
		return snapshot{}, fmt.Errorf("process %d: %w", pid, err)
	}
	boot, err := bootID()
	if err != nil {
		return snapshot{}, err
	}
	s.start = boot + "/" + s.start
	return s, nil
}

// parseStat reads the fields behind the program's name. The name stands in
// parentheses and may hold any character, parentheses and line ends included, so
// the last closing one is its end.
func parseStat(stat []byte) (snapshot, error) {
	const state, group, start = 0, 2, 19 // proc(5) counts them from the third: 3, 5 and 22
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) <= start {
		return snapshot{}, fmt.Errorf("its stat file has %d fields behind the name", len(fields))
	}
	pgrp, err := strconv.Atoi(fields[group])
	if err != nil {
		return snapshot{}, fmt.Errorf("the process group in its stat file: %w", err)
	}
	// X: dead, and about to vanish.
	return snapshot{start: fields[start], group: pgrp, zombie: strings.Contains("ZXx", fields[state])}, nil
}

// groupRuns reports whether a process that is no zombie is in the group.
func groupRuns(group int) (bool, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // not a process
		}
		switch s, err := look(pid); {
		case errors.Is(err, os.ErrProcessDone):
		case err != nil:
			return false, err
		case s.group == group && !s.zombie:
			return true, nil
		}
	}
	return false, nil
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// sinceBoot reports whether a process with this start time was started after
// the system was.
func sinceBoot(start string) bool {
	boot, err := bootID()
	return err == nil && strings.HasPrefix(start, boot+"/")
}

// onlyZombies reports whether a failed group signal means that no member runs.
// Linux signals zombies like any other.
func onlyZombies(error) bool { return false }

// await waits with a pidfd. It reports false when this kernel, or a filter on
// its calls, has none: then the caller has to poll.
func (id Identity) await(ctx context.Context) (done bool, err error) {
	if id.PID < 1 {
		return true, nil
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return true, nil
	}
	if err != nil {
		return false, nil
	}
	// Only a descriptor that does not block is handed to the runtime's poller.
	err = unix.SetNonblock(fd, true)
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	if err != nil {
		return false, nil
	}
	// The descriptor holds whoever has the pid; now see that it is the one.
	if alive, err := id.Alive(); err != nil || !alive {
		return true, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return false, nil
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		done = err == nil && n == 1
		return done
	})
	if err != nil && ctx.Err() != nil {
		return false, id.running(ctx)
	}
	return done, nil
}
