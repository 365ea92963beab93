package docker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// TestC23_CgoIsTheDockerfiles: an agent with C code is made by its Dockerfile, and
// that is said, also where it would build without the C code and be another agent.
func TestC23_CgoIsTheDockerfiles(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(suiteProgram.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	p, fake := onFake(t, dockertest.Options{Build: func(dockertest.BuildRequest) (dockertest.BuildResult, error) {
		return dockertest.BuildResult{Program: program}, nil
	}})
	dir := p.Setup.Stack.Dir
	write(t, filepath.Join(dir, "go.mod"), "module example.com/bot\n\ngo 1.21\n")
	write(t, filepath.Join(dir, "c.go"), "package main\n\n// int one(void) { return 1; }\nimport \"C\"\n\nfunc one() int { return int(C.one()) }\n")
	write(t, filepath.Join(dir, "not.go"), "//go:build !cgo\n\npackage main\n\nfunc one() int { return 2 }\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() { one() }\n")
	write(t, filepath.Join(dir, "Dockerfile"), "FROM golang\nRUN CGO_ENABLED=0 go build\n")
	var said strings.Builder
	d := driverOf(p)
	d.o.Warn = func(text string) { said.WriteString(text) }
	arch := mustEngine(t, p).facts.Arch
	if err := os.Remove(d.place.agentProgram("bot", "c1", arch)); err != nil { // the suite's own
		t.Fatal(err)
	}
	if _, err := d.Up(t.Context(), p.P); err != nil {
		t.Fatal(err)
	}
	if ops := fake.Ops(); !slices.Contains(ops, "ImageBuild") || slices.Contains(ops, "ImageLoad") {
		t.Errorf("the image was made by %v", ops)
	}
	for _, part := range []string{`agent "bot" needs cgo`, "example.com/bot", "Dockerfile", "CGO_ENABLED=0"} {
		if !strings.Contains(said.String(), part) {
			t.Errorf("it does not say %q: %q", part, &said)
		}
	}
	p.MustTurn("s1", "a")
	fake.ResetCalls()
	if up := p.Up(); up.Changed || len(fake.Ops()) > 0 {
		t.Errorf("the second up asked for %v", fake.Ops())
	}
}
