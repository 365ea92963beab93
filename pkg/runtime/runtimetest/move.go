package runtimetest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
)

func testPortMoves(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	from := p.Setup.Stack.Gateway.Port
	p.Setup.Stack.Gateway.Port = porttest.Free(t)
	p.Setup.Stack.Gateway.Hosts = []string{"shop.test"}
	moves := fmt.Sprintf("the gateway moves from 127.0.0.1:%d to 127.0.0.1:%d", from, p.Setup.Stack.Gateway.Port)
	plan, err := p.Driver().Plan(t.Context(), runtime.OpUp)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range plan {
		if (s.Do == runtime.Start || s.Do == runtime.SwapGateway) && s.Cause != moves && s.Cause != moves+", gateway.hosts none → shop.test" {
			t.Errorf("a step of the plan: %+v", s)
		}
	}
	report := p.Up()
	if !report.Changed || report.URL != p.Setup.Stack.Gateway.URL() {
		t.Errorf("up on another port: %+v", report)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	if up := p.Up(); up.Changed {
		t.Errorf("up again: %+v", up)
	}
	before := p.Setup.Stack.Gateway.Port
	p.Setup.Stack.Gateway.Port = porttest.Free(t)
	Occupy(t, p.Setup.Stack.Gateway.Port)
	_, err = p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Environment, "is in use")
	stillRuns(t, err, true)
	p.Setup.Stack.Gateway.Port = before
	said(t, p.MustTurn("s1", "c"), 3, "a b c")
}

func testMove(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	to := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(p.Setup.Stack.Dir, to); err != nil {
		t.Fatal(err)
	}
	p.Setup.Stack.Dir = to
	p.Setup.Stack.Agents[0].Dir = to
	p.Up()
	if o := p.Observe(); o.Dir != to {
		t.Errorf("it runs from %q", o.Dir)
	}
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	p.Down()
	p.Up()
	said(t, p.MustTurn("s1", "c"), 3, "a b c")
}

func testVolumeRenamed(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	name := p.Setup.Stack.Volume.Name
	p.Setup.Stack.Volume.Name = name + "-2"
	_, err := p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Environment, name, "flisk.yaml names")
	p.Setup.Stack.Volume.Name = name
	said(t, p.MustTurn("s1", "b"), 2, "a b")
}

func testPortInUse(t *testing.T, place Place) {
	p := NewProject(t, place)
	port := p.Setup.Stack.Gateway.Port
	free := Occupy(t, port)
	_, err := p.Driver().Up(t.Context(), p.P)
	isFault(t, err, fault.Environment, fmt.Sprintf("port %d is in use", port))
	stillRuns(t, err, false)
	if o := p.Observe(); o.Running || len(o.Stale) > 0 {
		t.Errorf("a failed up left %+v", o)
	}
	free()
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
}

// Occupy listens on a port, as somebody else's program does, until the returned
// function is called.
func Occupy(t testing.TB, port int) (free func()) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	free = sync.OnceFunc(func() { _ = ln.Close() }) // nobody connected
	t.Cleanup(free)
	return free
}
