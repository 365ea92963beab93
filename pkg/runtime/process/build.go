package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/toolchain"
)

// build makes an agent's program. One that was built from the same source is
// there already, and needs no toolchain. A program under a wrong hash would be
// run again when the source goes back to that hash; so there is none when
// runtime.ErrSourceChanged is returned.
func (d *Driver) build(ctx context.Context, p runtime.Progress, a targetAgent) error {
	if _, err := os.Stat(a.binary); err == nil {
		return nil
	}
	if err := os.MkdirAll(d.place.build, userOnly); err != nil {
		return fault.New(fault.Environment, "make room there, or make it writable; FLISK_HOME says where it is", "cannot build agent %q: %w", a.Name, err)
	}
	end := p.Begin("build " + a.Name)
	began := time.Now()
	// What the compiler prints comes back in the error, and only once.
	err := toolchain.Build(ctx, toolchain.Options{Dir: a.Dir, Root: d.o.Stack.Dir, Out: a.binary})
	if err == nil {
		err = d.checkSource(a)
	}
	end(runtime.Span(time.Since(began)), err)
	return err
}

func (d *Driver) checkSource(a targetAgent) error {
	now, err := d.o.SourceHash(a.Name)
	if err == nil && now != a.code {
		err = runtime.ErrSourceChanged
	}
	if err != nil {
		err = errors.Join(err, os.Remove(a.binary))
	}
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
			_ = os.RemoveAll(path)
		}
	}
}
