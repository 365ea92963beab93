package toolchain

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"go/build"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
)

// Options of a build.
type Options struct {
	Dir   string // of the main package
	Root  string // of the project: errors are told relative to it; "" means Dir
	Agent string // its name, for errors; may be ""
	Out   string // the program to make; its directory must exist

	GOOS, GOARCH string // the target; "" is this machine
	Overlay      string // a file for the go command's -overlay flag; "" for none

	// Strip leaves out what only a debugger reads: a third of the program, and a
	// quarter of the time. What a panic prints is the same. GOFLAGS that say how to
	// link are followed instead.
	Strip bool

	// Output takes what the go command prints, while it prints it. May be nil.
	Output io.Writer
}

// Build makes a static program of a main package. Out is replaced in one step
// when the build succeeded, and is otherwise as it was; a program that runs from
// it goes on running.
//
// Errors: a fault of kind Environment when the toolchain is missing or too old,
// of kind Usage when Dir holds no main package of a module, of kind Failed when
// the build fails: its Detail is what the go command printed. When ctx ends the
// build is stopped, with all its processes, and the error wraps ctx's cause.
func Build(ctx context.Context, o Options) error {
	dir, root, err := o.places()
	if err != nil {
		return err
	}
	toolchain, mod, err := examine(ctx, dir, o)
	if err != nil {
		return err
	}

	// The go command names files relative to where it runs.
	from, pkg := dir, "."
	if rel, err := filepath.Rel(root, dir); err == nil && inside(mod.dir, root) && inside(root, dir) {
		from, pkg = root, "./"+filepath.ToSlash(rel)
	}
	temporary, err := temporaryName(o.Out)
	if err != nil {
		return err
	}
	defer os.Remove(temporary) // gone already when it was renamed
	// A go command that is killed leaves its work directory. This one is removed
	// with it, and is on the volume of the program: /tmp may be small.
	work := temporary + ".tmp"
	if err := os.Mkdir(work, 0o700); err != nil {
		return fault.New(fault.Environment, writableHint, "cannot make a directory for the build: %w", err)
	}
	defer removeAll(work)
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", temporary}
	if o.Overlay != "" {
		args = append(args, "-overlay", o.Overlay)
	}
	if o.Strip && !toolchain.hasFlag(ctx, "-ldflags") {
		args = append(args, "-ldflags=-s -w")
	}
	cmd := exec.Command(toolchain.Path, append(args, pkg)...)
	cmd.Dir = from
	cmd.Env = append(environment(), "CGO_ENABLED=0", "GOOS="+o.goos(), "GOARCH="+o.goarch(), "GOTMPDIR="+work, "PWD="+from)
	if err := run(ctx, cmd, o); err != nil {
		return err
	}
	if err := os.Rename(temporary, o.Out); err != nil {
		return fault.New(fault.Environment, writableHint, "cannot put the program in place: %w", err)
	}
	return nil
}

// writableHint is for a directory of flisk's own that cannot be written to.
const writableHint = "make room there, or make it writable; FLISK_HOME says where it is"

// maxDetail bounds what is kept of the go command's output.
const maxDetail = 64 << 10

func run(ctx context.Context, cmd *exec.Cmd, o Options) error {
	var printed bytes.Buffer
	var output io.Writer = &printed
	if o.Output != nil {
		output = io.MultiWriter(&printed, o.Output)
	}
	cmd.Stdout, cmd.Stderr = output, output
	err := runGroup(ctx, cmd)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the build was stopped: %w", context.Cause(ctx))
	}
	if err == nil {
		return nil
	}
	if _, ran := errors.AsType[*exec.ExitError](err); !ran {
		return fault.New(fault.Environment, "see that the go command and the directory are there", "cannot build %s: %w", o.agent(), err)
	}
	f := fault.New(fault.Failed, "correct it and try again", "%s does not build", o.agent())
	f.Err = err
	if o.Agent != "" && blamesSource(printed.String()) {
		f.Agents = []string{o.Agent}
	}
	if f.Detail = strings.TrimRight(printed.String(), "\n"); f.Detail == "" {
		f.Detail = err.Error()
	}
	// The go command says so of its own files, of which none is the agent's.
	if said := []string{syscall.ENOSPC.Error(), syscall.EROFS.Error(), syscall.EDQUOT.Error()}; slices.ContainsFunc(said, func(text string) bool { return strings.Contains(f.Detail, text) }) {
		f.Kind, f.Message, f.Hint = fault.Environment, fmt.Sprintf("the build of %s cannot write its files", o.agent()), writableHint+", or GOCACHE"
		f.Agents = nil
	}
	if len(f.Detail) > maxDetail {
		f.Detail = f.Detail[:maxDetail] + "\n…"
	}
	return f
}

// blamesSource reports whether the go command's output is about the source: it
// names a line of it, or says what is wrong with a package as a whole. Nothing else
// says whose fault a failure is, and a compiler that was killed or a download that
// failed, which names the line of the import, is mended without a change of the source.
func blamesSource(output string) bool {
	return sourceLine.MatchString(output) && !machineWords.MatchString(output)
}

var (
	sourceLine = regexp.MustCompile(`(?m)^[^:\n]*\.(go|s|mod|work|sum):\d+` +
		`|function main is undeclared|import cycle not allowed|found packages \S+ \(|build constraints exclude all Go files`)
	machineWords = regexp.MustCompile(`signal: killed|cannot allocate memory|too many open files` +
		`|(dial|read|write) (tcp|udp)|TLS handshake|x509:|proxyconnect|(Get|reading) "?https?://|unexpected EOF`)
)

// agent is what is built, for people.
func (o Options) agent() string {
	switch {
	case o.Agent == "":
		return fmt.Sprintf("the agent in %q", o.where())
	case o.Dir == o.Root:
		return fmt.Sprintf("agent %q", o.Agent)
	}
	return fmt.Sprintf("agent %q in %q", o.Agent, o.where())
}

// where is Dir as somebody in Root would call it who need not see all of its path.
func (o Options) where() string {
	if rel, err := filepath.Rel(o.Root, o.Dir); o.Root != "" && err == nil && rel != "." && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return o.Dir
}

func (o Options) goos() string {
	if o.GOOS != "" {
		return o.GOOS
	}
	return runtime.GOOS
}

func (o Options) goarch() string {
	if o.GOARCH != "" {
		return o.GOARCH
	}
	return runtime.GOARCH
}

// places makes both directories absolute and free of links, so that one can be
// told relative to the other.
func (o Options) places() (dir, root string, err error) {
	if o.Root == "" {
		o.Root = o.Dir
	}
	real := func(path string) (string, error) {
		abs, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(abs)
	}
	if dir, err = real(o.Dir); err == nil {
		root, err = real(o.Root)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", "", fault.New(fault.Usage, "correct the agent's path in flisk.yaml", "there is no directory %q", o.where())
	case err != nil:
		return "", "", fault.New(fault.Usage, "", "cannot find %s: %w", o.agent(), err)
	}
	return dir, root, nil
}

// checkMain looks at the package clauses. The go command would make an archive
// of a package that is not main, and call that a success. What else is wrong
// with the files it says better itself.
func checkMain(dir string, o Options) error {
	target := build.Default
	target.GOOS, target.GOARCH, target.CgoEnabled = o.goos(), o.goarch(), false
	pkg, err := target.ImportDir(dir, 0)
	const hint = "an agent is a package main; correct its path in flisk.yaml"
	if _, none := errors.AsType[*build.NoGoError](err); none || err == nil && len(pkg.GoFiles) == 0 {
		return fault.New(fault.Usage, hint, "there are no Go files to build in %q", o.where())
	}
	if err == nil && pkg.Name != "main" {
		return fault.New(fault.Usage, hint, "the package in %q is %q, not \"main\"", o.where(), pkg.Name)
	}
	return nil
}

// inside reports whether path is dir or below it.
func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// temporaryName is a new name beside out, absolute: the go command runs
// elsewhere.
func temporaryName(out string) (string, error) {
	abs, err := filepath.Abs(out)
	if err != nil {
		return "", fault.New(fault.Failed, "", "cannot tell where %q is: %w", out, err)
	}
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return filepath.Join(filepath.Dir(abs), ".build-"+hex.EncodeToString(b)), nil
}

// removeAll removes a directory that killed processes may have been writing to:
// what they had begun can still appear for a moment. It is only about space, so
// it gives up in the end.
func removeAll(dir string) {
	for over := time.Now().Add(stopGrace); os.RemoveAll(dir) != nil && time.Now().Before(over); {
		<-time.After(10 * time.Millisecond)
	}
}
