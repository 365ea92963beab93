package watch

import (
	"errors"
	"slices"
	"syscall"
)

// remote names the file system of dir when changes can come to it from elsewhere,
// of which this kernel knows nothing; else "".
func remote(dir string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return ""
	}
	var name []byte
	for _, c := range stat.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	if slices.Contains([]string{"nfs", "smbfs", "afpfs", "webdav", "macfuse", "osxfuse"}, string(name)) {
		return string(name)
	}
	return ""
}

// limit is the command that raises the limit which an error comes from, or "".
// Every watched file is an open one here.
func limit(err error) string {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return "raise it with: ulimit -n 65536"
	}
	return ""
}

// used says which limit an error comes from: here the error itself does.
func used(error) string { return "" }
