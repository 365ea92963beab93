package process

import (
	"net"
	"strconv"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime/claim"
)

func TestAnInstanceHasAPortOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.o.Stack.Instance = "two"
	r.install("bot", "c1")
	project := r.o.Stack.Gateway
	other, err := net.Listen("tcp", claim.Address(project))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	first := r.up().URL
	if first == project.URL() || r.observe().URL != first {
		t.Errorf("it listens on %s beside %s", first, project.URL())
	}
	r.down()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if again := r.up().URL; again != first {
		t.Errorf("it listened on %s, and now on %s", first, again)
	}
	r.down()

	// What is remembered is a wish: somebody else may have it by now.
	known, err := r.memory().Read()
	if err != nil || project.Port == known.Port {
		t.Fatalf("memory: %+v, %v", known, err)
	}
	thief, err := net.Listen("tcp", net.JoinHostPort(project.Bind, strconv.Itoa(known.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	third := r.up().URL
	if third == first || r.up().URL != third || r.observe().URL != third {
		t.Errorf("it listens on %s after %s", third, first)
	}
}
