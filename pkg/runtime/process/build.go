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
// there already, and needs no toolchain: so none gets the name of a source before
// it is known to be built from that. There is none when runtime.ErrSourceChanged is
// returned, and one under another name where such a program will do.
func (a *apply) build(ctx context.Context, agent targetAgent) (targetAgent, error) {
	if _, err := os.Stat(agent.binary); err == nil {
		return agent, nil
	}
	if err := os.MkdirAll(a.d.place.build, userOnly); err != nil {
		return agent, fault.New(fault.Environment, "make room there, or make it writable; FLISK_HOME says where it is", "cannot build agent %q: %w", agent.Name, err)
	}
	a.built = true
	end := a.p.Begin("build " + agent.Name)
	began := time.Now()
	fresh := agent.binary + ".new"
	defer os.Remove(fresh) // gone already when it got its name
	// What the compiler prints comes back in the error, and only once.
	err := toolchain.Build(ctx, toolchain.Options{Agent: agent.Name, Dir: agent.Dir, Root: a.d.o.Stack.Dir, Out: fresh})
	if err == nil {
		err = a.checkSource(agent)
	}
	if errors.Is(err, runtime.ErrSourceChanged) && a.restless {
		agent.env.Code = runtime.Unsettled(agent.code)
		agent.code, agent.binary = agent.env.Code, a.d.place.program(agent.Name, agent.env.Code)
		err = nil
	}
	if err == nil {
		err = os.Rename(fresh, agent.binary)
	}
	end(runtime.Span(time.Since(began)), err)
	return agent, err
}

func (a *apply) checkSource(agent targetAgent) error {
	return runtime.CheckSource(a.d.o.SourceHash, a.d.o.SourceStill, agent.Name, agent.code)
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
