package process

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/toolchain"
)

// build makes an agent's program. One that was built from the same source is
// there already, and needs no toolchain.
func (d *Driver) build(ctx context.Context, p runtime.Progress, a targetAgent) error {
	if _, err := os.Stat(a.binary); err == nil {
		return nil
	}
	if err := os.MkdirAll(d.place.build, userOnly); err != nil {
		return err
	}
	end := p.Begin("build " + a.Name)
	began := time.Now()
	// What the compiler prints comes back in the error, and only once.
	err := toolchain.Build(ctx, toolchain.Options{Dir: a.Dir, Root: d.o.Stack.Dir, Out: a.binary})
	end(seconds(time.Since(began)), err)
	return err
}

// prune removes programs that nothing runs any more, and what a killed build
// left. It is only about space: what it cannot remove now, the next one will.
func (d *Driver) prune(t target) {
	programs, err := os.ReadDir(d.place.build)
	if err != nil {
		return
	}
	for _, program := range programs {
		path := filepath.Join(d.place.build, program.Name())
		if !slices.ContainsFunc(t.agents, func(a targetAgent) bool { return a.binary == path }) {
			_ = os.Remove(path)
		}
	}
}
