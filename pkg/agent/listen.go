package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The ports that an agent without FLISK_LISTEN tries.
const (
	firstPort = 8080
	lastPort  = 8179
)

// maxSocketPath is the length of a socket's name in bytes that every supported
// system takes.
const maxSocketPath = 103

// listen opens the listener that FLISK_LISTEN names: "host:port", "unix:/path",
// "fd:N" for one that was inherited, or "" for the first free loopback port.
func listen(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(path)
	}
	if fd, ok := strings.CutPrefix(address, "fd:"); ok {
		return listenFD(fd)
	}
	if address != "" {
		return net.Listen("tcp", address)
	}
	for port := firstPort; port <= lastPort; port++ {
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return ln, err
		}
	}
	return nil, fmt.Errorf("all ports from %d to %d are in use", firstPort, lastPort)
}

// listenUnix listens at path with mode 0600. A socket that a dead process left
// there is replaced; a live one is an error, and so is any other kind of file.
// The path is removed when the listener closes.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the socket path %q has %d bytes, at most %d are possible", path, len(path), maxSocketPath)
	}
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && staleSocket(path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("cannot replace a stale socket: %w", err)
		}
		ln, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// staleSocket reports whether path is a socket that nobody listens on.
func staleSocket(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func listenFD(number string) (net.Listener, error) {
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%q is not the number of an inherited descriptor", number)
	}
	file := os.NewFile(uintptr(fd), "listener")
	ln, err := net.FileListener(file) // a duplicate that no child process inherits
	_ = file.Close()
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not a listening socket: %w", fd, err)
	}
	return ln, nil
}
