package source

import (
	"io/fs"
	"syscall"
	"time"
)

// stampOf is what a file system says of a file without its content being read.
func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mode: info.Mode(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode, s.changed = uint64(sys.Dev), sys.Ino, time.Unix(sys.Ctim.Unix())
	}
	return s
}
