package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// HideTyping makes a terminal not show what is typed until restore is called. It
// is kept for the next reader, and Ctrl-C is a signal as before. What is no
// terminal is left as it is.
//
// It is for a wait that draws: an Enter would move the cursor away from the line
// that progress believes to be above it, and the typed text would stay.
func (in Input) HideTyping() (restore func()) {
	file, ok := in.Reader.(*os.File)
	if !ok {
		return func() {}
	}
	fd := int(file.Fd())
	was, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return func() {}
	}
	hidden := *was
	hidden.Lflag &^= unix.ECHO | unix.ECHONL
	_ = unix.IoctlSetTermios(fd, setTermios, &hidden) // it only looks worse
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, was) }
}
