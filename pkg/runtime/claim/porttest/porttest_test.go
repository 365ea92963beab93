package porttest

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// askFor makes the test's own program print that many ports, and wait.
const askFor = "PORTTEST_PRINT"

func TestEveryTestHasItsOwn(t *testing.T) {
	const each = 200
	if os.Getenv(askFor) != "" {
		for range each {
			os.Stdout.WriteString("port " + strconv.Itoa(Free(t)) + "\n")
		}
		return
	}
	mine := map[string]bool{}
	for range each {
		mine[strconv.Itoa(Free(t))] = true
	}
	if len(mine) != each {
		t.Errorf("%d ports are %d different ones", each, len(mine))
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEveryTestHasItsOwn$")
	other.Env = append(os.Environ(), askFor+"=1")
	out, err := other.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		port, ok := strings.CutPrefix(strings.TrimSpace(line), "port ")
		if !ok {
			continue
		}
		if mine[port] {
			t.Errorf("port %s was given twice", port)
		}
		mine[port] = true
	}
	if len(mine) != 2*each {
		t.Errorf("%d ports in all, not %d:\n%s", len(mine), 2*each, out)
	}
}

func TestAUsedPortIsNotGiven(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if unused(l.Addr().(*net.TCPAddr).Port) {
		t.Error("a port that somebody listens on counts as unused")
	}
}
