package runtimetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"testing"
)

// Program is the agent of the suite, as a static program. It is built when it is
// first needed; whoever has one calls Remove at the end of the test process.
type Program struct {
	once sync.Once
	dir  string
	err  error
}

// Path builds the program.
func (p *Program) Path(t testing.TB) string {
	t.Helper()
	p.once.Do(p.build)
	if p.err != nil {
		t.Fatal(p.err)
	}
	return filepath.Join(p.dir, "agent")
}

func (p *Program) build() {
	_, file, _, _ := goruntime.Caller(0)
	if p.dir, p.err = os.MkdirTemp("", "runtimetest"); p.err != nil {
		return
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(p.dir, "agent"), "./testdata/agent")
	cmd.Dir = filepath.Dir(file)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.err = fmt.Errorf("%w: %s", err, out)
	}
}

// Remove removes the program, if it was built.
func (p *Program) Remove() error {
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}
