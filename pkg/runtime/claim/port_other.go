//go:build !linux

package claim

// PortHolder would need the help of other programs here; who holds a port is
// not known.
func PortHolder(int) (pid int, command string) { return 0, "" }
