// Package toolchain finds the Go toolchain on this machine and builds agents
// with it.
package toolchain

import (
	"context"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Go is a toolchain.
type Go struct {
	Path    string // absolute, of the go command
	Version string // "go1.26.8"; a development version may have another form
}

const installHint = "install Go from https://go.dev/dl, and see that go is on the PATH"

// Find looks for the go command on the PATH and asks for its version. A missing
// or broken one is a fault of kind Environment.
func Find(ctx context.Context) (Go, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return Go{}, fault.New(fault.Environment, installHint, "there is no Go toolchain: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return Go{}, fault.New(fault.Environment, installHint, "cannot tell where the Go toolchain is: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = environment()
	// Not where the caller is: a go.mod there could ask for another version.
	cmd.Dir = filepath.Dir(path)
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return Go{}, context.Cause(ctx)
	}
	// "go version go1.26.8 linux/amd64"
	fields := strings.Fields(string(out))
	if err == nil && (len(fields) < 4 || fields[0] != "go" || fields[1] != "version") {
		err = errors.New("it does not tell its version")
	}
	if err != nil {
		return Go{}, fault.New(fault.Environment, installHint, "the Go toolchain %q does not work: %w", path, err)
	}
	return Go{Path: path, Version: fields[2]}, nil
}

// pinned is the variable that keeps the go command from downloading another
// version of itself.
const pinned = "GOTOOLCHAIN=local"

// environment is this process's own. The toolchain is the one that was found,
// unless the user said otherwise.
func environment() []string {
	if os.Getenv("GOTOOLCHAIN") != "" {
		return os.Environ()
	}
	return append(os.Environ(), pinned)
}

// hasFlag reports whether the user's GOFLAGS, from the environment or written with
// go env -w, have a flag. One on the command line would take its place.
func (g Go) hasFlag(ctx context.Context, flag string) bool {
	cmd := exec.CommandContext(ctx, g.Path, "env", "GOFLAGS")
	cmd.Env, cmd.Dir = environment(), filepath.Dir(g.Path)
	out, err := cmd.Output()
	return err == nil && strings.Contains(string(out), flag) // an error is the build's to tell
}

// check refuses a toolchain that is older than what a module asks for, before
// the go command does so in its own words. A toolchain that the user lets choose
// another version is left to do that.
func (g Go) check(m module) error {
	wanted := "go" + m.goVersion
	if os.Getenv("GOTOOLCHAIN") != "" || !version.IsValid(wanted) || !version.IsValid(g.Version) || version.Compare(wanted, g.Version) <= 0 {
		return nil
	}
	return fault.New(fault.Environment, "install a newer Go from https://go.dev/dl",
		"%q asks for %s or newer, but %q is %s", filepath.Join(m.dir, "go.mod"), wanted, g.Path, g.Version)
}

// module is what a build needs to know of a go.mod.
type module struct {
	dir       string // the directory that holds it
	goVersion string // of the go directive; "" when there is none
}

// findModule reads the go.mod of dir or of the nearest directory above it.
func findModule(dir string) (module, error) {
	for at := dir; ; at = filepath.Dir(at) {
		content, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil {
			return module{at, goDirective(string(content))}, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return module{}, fault.New(fault.Usage, "", "cannot read a go.mod: %w", err)
		}
		if at == filepath.Dir(at) {
			return module{}, fault.New(fault.Usage, fmt.Sprintf("run go mod init in %q, or correct the agent's path in flisk.yaml", dir),
				"there is no go.mod in %q or above it", dir)
		}
	}
}

// goDirective finds "go 1.26" in a go.mod. It is never part of a block.
func goDirective(mod string) string {
	for line := range strings.Lines(mod) {
		line, _, _ = strings.Cut(line, "//")
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "go" {
			return fields[1]
		}
	}
	return ""
}
