package proc

import (
	"errors"
	"os"
	"syscall"
)

// GroupAlive reports whether a member of the process's group runs: the process
// itself, or something that it left behind. A zombie does not run, and a process
// without a group of its own has no members. An error means that it could not be
// found out.
func (id Identity) GroupAlive() (bool, error) {
	if id.PID < 2 || id.Group < 2 {
		return false, nil
	}
	// Signal 0 finds out whether the group is still the process's own. The
	// members that it finds may all be zombies.
	err := id.SignalGroup(0)
	switch {
	case errors.Is(err, os.ErrProcessDone):
		return false, nil
	case err != nil && !errors.Is(err, syscall.EPERM): // another user's are members as well
		return false, err
	}
	return groupRuns(id.Group)
}
