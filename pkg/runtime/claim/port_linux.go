package claim

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// maxCommand bounds how much of a command line is shown.
const maxCommand = 60

// PortHolder finds the process that listens on a TCP port: the kernel's table
// names the socket's inode, and the processes' descriptors name it again. Other
// users' processes cannot be looked into; then it is 0.
func PortHolder(port int) (pid int, command string) {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if inode, ok := listening(line, port); ok {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	descriptors, err := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	if err != nil || len(inodes) == 0 {
		return 0, ""
	}
	for _, fd := range descriptors {
		if target, err := os.Readlink(fd); err != nil || !inodes[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(fd))
		if pid, err = strconv.Atoi(filepath.Base(process)); err == nil {
			return pid, commandLine(process)
		}
	}
	return 0, ""
}

// listening reads one line of the kernel's table: its columns are the number,
// the local address as hex "address:port", the remote one, the state (0A is
// listening), five that do not matter here, and the inode.
func listening(line string, port int) (inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return "", false
	}
	_, hex, _ := strings.Cut(f[1], ":")
	n, err := strconv.ParseUint(hex, 16, 16)
	return f[9], err == nil && int(n) == port
}

// commandLine is what a process was started as, without control characters.
func commandLine(process string) string {
	data, err := os.ReadFile(process + "/cmdline")
	if err != nil {
		return ""
	}
	text := string(bytes.ReplaceAll(bytes.TrimRight(data, "\x00"), []byte{0}, []byte{' '}))
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxCommand {
		return string(runes[:maxCommand-1]) + "…"
	}
	return text
}
