// Package porttest gives the tests of the whole module TCP ports of their own.
//
// That a port is free when a test picks it says little about the moment when
// its gateway takes it: the packages' tests run side by side, with hundreds of
// gateways and agents. So a port is held by a file lock, until its test ends.
package porttest

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Ports below the range from which the kernel takes those of connections, and
// beside the ones that `flisk demo` and `flisk verify` take for themselves.
const first, count = 10_000, 10_000

// Free is a port of 127.0.0.1 that nobody listens on, and that no other test
// on this machine is given until t ends.
func Free(t testing.TB) int {
	t.Helper()
	port, release, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// Take is Free for who has no test at hand: the port is its own until release.
func Take() (port int, release func(), err error) {
	dir := filepath.Join(os.TempDir(), "flisk-test-ports-"+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, nil, err
	}
	for range 1000 {
		port = first + rand.IntN(count)
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return 0, nil, err
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && unused(port) {
			return port, func() { _ = lock.Close() }, nil // which gives it back
		}
		_ = lock.Close()
	}
	return 0, nil, errors.New("there is no free port")
}

func unused(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
