package toolchain

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/flisk-go/flisk/pkg/fault"
)

// CPackages are the packages with C code that a main package is made of for its
// target, in the order in which they are built. [Build] leaves C code out: such a
// program either does not build, or does something else without a word. The
// standard library is not among them, which does the same without C. No C compiler
// is needed to tell.
//
// What is wrong with the packages is no error here; Build says it better. Errors
// are a missing toolchain, of kind Environment, and the end of ctx.
func CPackages(ctx context.Context, o Options) ([]string, error) {
	dir, _, err := o.places()
	if err != nil {
		return nil, err
	}
	toolchain, err := Find(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-e", "-deps", "-f", "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}"}
	if o.Overlay != "" {
		args = append(args, "-overlay", o.Overlay)
	}
	cmd := exec.Command(toolchain.Path, append(args, ".")...)
	cmd.Dir = dir
	cmd.Env = append(environment(), "CGO_ENABLED=1", "GOOS="+o.goos(), "GOARCH="+o.goarch(), "PWD="+dir)
	var found, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &found, &said
	err = runGroup(ctx, cmd)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the build was stopped: %w", context.Cause(ctx))
	case err != nil:
		f := fault.New(fault.Failed, "", "cannot tell what %s is made of: %w", o.agent(), err)
		f.Detail = strings.TrimRight(said.String(), "\n")
		return nil, f
	}
	return strings.Fields(found.String()), nil
}
