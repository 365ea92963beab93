//go:build !linux

package process

// portHolder would need the help of other programs here; who holds a port is
// not known.
func portHolder(int) (pid int, command string) { return 0, "" }
