package docker

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flisk-go/flisk/pkg/stack"
)

// TestRoutesChangeInOneEvent: Traefik takes any event in the directory for a change,
// and waits a while after each before it takes on the next.
func TestRoutesChangeInOneEvent(t *testing.T) {
	t.Parallel()
	p := placeOf(t.TempDir(), stack.Stack{ID: "0123456789ab"})
	if err := p.writeLive(live{Dir: "/one"}); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if _, err := unix.InotifyAddWatch(fd, p.dynamic(), unix.IN_ALL_EVENTS&^(unix.IN_OPEN|unix.IN_ACCESS|unix.IN_CLOSE_NOWRITE)); err != nil {
		t.Fatal(err)
	}
	if err := p.writeLive(live{Dir: "/two"}); err != nil {
		t.Fatal(err)
	}
	if l, err := p.readLive(); err != nil || l.Dir != "/two" {
		t.Fatalf("it serves %+v, %v", l, err)
	}
	buffer := make([]byte, 4096)
	n, err := unix.Read(fd, buffer)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	const name = "routes.yaml\x00\x00\x00\x00\x00"
	if n != unix.SizeofInotifyEvent+len(name) || !bytes.HasSuffix(buffer[:n], []byte(name)) {
		t.Errorf("%d bytes of events: %q", n, buffer[:n])
	}
}
