package watch

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// remote names the file system of dir when changes can come to it from elsewhere,
// of which this kernel knows nothing; else "". The numbers are those of statfs(2).
// 9p is how WSL 2 shows the disks of Windows, and FUSE how most of what shares
// files with a virtual machine or over a network is made.
func remote(dir string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return ""
	}
	switch uint32(stat.Type) {
	case 0x6969:
		return "nfs"
	case 0x517b, 0xff534d42, 0xfe534d42:
		return "smb"
	case 0x01021997:
		return "9p"
	case 0x65735546:
		return "fuse"
	case 0x786f4256:
		return "vboxsf"
	case 0x00c36400:
		return "ceph"
	case 0x5346414f:
		return "afs"
	case 0x73757245, 0x564c:
		return "network"
	}
	return ""
}

// The limits of inotify, with what is enough for any project.
const (
	watchesLimit   = "fs.inotify.max_user_watches"
	instancesLimit = "fs.inotify.max_user_instances"
	watchesEnough  = 524288
	instancesNew   = 1024
)

// limit is the command that raises the limit which an error comes from, or "".
func limit(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Sprintf("raise it with: sudo sysctl -w %s=%d", watchesLimit, max(watchesEnough, 2*number(watchesLimit)))
	case errors.Is(err, syscall.EMFILE) && !tooManyFiles():
		return fmt.Sprintf("raise it with: sudo sysctl -w %s=%d", instancesLimit, max(instancesNew, 2*number(instancesLimit)))
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise it with: ulimit -n 65536"
	}
	return ""
}

// used says which limit an error comes from, and how high it is.
func used(err error) string {
	name := ""
	switch {
	case errors.Is(err, syscall.ENOSPC):
		name = watchesLimit
	case errors.Is(err, syscall.EMFILE) && !tooManyFiles():
		name = instancesLimit
	default:
		return ""
	}
	return fmt.Sprintf("%s is %d, and all of them are in use", name, number(name))
}

// number is the value of a sysctl, or 0.
func number(sysctl string) int {
	content, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(sysctl, ".", "/"))
	if err != nil {
		return 0
	}
	var n int
	if _, err := fmt.Sscan(string(content), &n); err != nil {
		return 0
	}
	return n
}
