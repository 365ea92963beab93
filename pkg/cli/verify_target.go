package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
	"github.com/flisk-go/flisk/pkg/verify"
)

// provenAgent is one agent of a [proof] as the prover sees it.
type provenAgent struct {
	*proof
	agent string
}

var _ verify.Target = provenAgent{}

func (t provenAgent) URL() string { return t.stack.Gateway.URL() }

func (t provenAgent) ReadVolume(ctx context.Context, read func(dir string) error) error {
	if distant, ok := t.driver.(distantVolume); ok {
		return distant.ReadVolume(ctx, read)
	}
	return read(t.volume)
}

func (t provenAgent) MoveFile(ctx context.Context, from, to string) error {
	driver, foreign := t.driver.(foreignVolume)
	if !foreign {
		return os.Rename(filepath.Join(t.volume, filepath.FromSlash(from)), filepath.Join(t.volume, filepath.FromSlash(to)))
	}
	var said bytes.Buffer
	exit, err := driver.ChangeVolume(ctx, t.progress, docker.Command{Args: []string{"volume", "move", from, to}, Stdout: io.Discard, Stderr: &said})
	if err == nil && exit != 0 {
		err = fmt.Errorf("cannot move a file of the volume: %w", &programError{fault.Kind(exit), lastLine(said.String(), exit)})
	}
	return err
}

func (t provenAgent) Up(ctx context.Context) error { return t.up(ctx) }

func (t provenAgent) Down(ctx context.Context) error {
	_, err := t.driver.Down(ctx, t.progress)
	return err
}

func (t provenAgent) Restart(ctx context.Context) (verify.Change, error) {
	report, err := t.driver.Restart(ctx, t.agent, t.progress)
	if err != nil {
		return verify.Change{}, err
	}
	return t.only(report.Replaced)
}

func (t provenAgent) Reload(ctx context.Context) (now verify.Reloaded, err error) {
	err = t.source.reload(t.agent, func() error {
		report, err := t.reloader.Up(ctx, t.progress)
		if err != nil {
			return err
		}
		if len(report.Left) == 0 {
			return fmt.Errorf("no process of agent %q was replaced", t.agent)
		}
		// The older ones are those of earlier reloads, and are being retired.
		old := slices.MaxFunc(report.Left, func(a, b runtime.Ref) int { return cmp.Compare(a.Generation, b.Generation) })
		now.Retire = func(ctx context.Context) (verify.Change, error) {
			change, err := t.reloader.Retire(ctx, old)
			if err != nil {
				return verify.Change{}, err
			}
			return t.only([]runtime.Change{change})
		}
		now.Code, err = t.source.of(t.agent)
		return err
	})
	return now, err
}

func (t provenAgent) Signal(ctx context.Context, sig syscall.Signal) (verify.Change, error) {
	before, err := t.process(ctx)
	if err != nil {
		return verify.Change{}, err
	}
	changes, err := t.driver.Signal(ctx, t.agent, sig)
	if err == nil {
		return t.only(changes)
	}
	if ctx.Err() != nil {
		if now, look := t.process(context.WithoutCancel(ctx)); look == nil && now == before {
			err = fmt.Errorf("%w: process %d, after %s", verify.ErrStillRuns, before.PID, sig)
		}
	}
	return verify.Change{Before: before}, err
}

// only is the one change of an agent that has one replica.
func (t provenAgent) only(changes []runtime.Change) (verify.Change, error) {
	if len(changes) != 1 {
		return verify.Change{}, fmt.Errorf("%d processes of agent %q changed, and one is there", len(changes), t.agent)
	}
	c := changes[0]
	return verify.Change{
		Before: verify.Process{PID: c.Before.PID, Started: c.Before.Start},
		After:  verify.Process{PID: c.After.PID, Started: c.After.Start},
		Exit:   verify.Exit{Code: c.Exit.Code, Signal: c.Exit.Signal},
	}, nil
}

// process is the agent's present one.
func (t provenAgent) process(ctx context.Context) (verify.Process, error) {
	observed, err := t.driver.Observe(ctx)
	if err != nil {
		return verify.Process{}, err
	}
	for _, r := range observed.Replicas {
		if r.Agent == t.agent && r.Serving && r.PID != 0 {
			return verify.Process{PID: r.PID, Started: r.Start}, nil
		}
	}
	return verify.Process{}, fmt.Errorf("agent %q has no process", t.agent)
}

func (t provenAgent) Logs(ctx context.Context, follow bool, emit func(string) error) error {
	return t.driver.Logs(ctx, runtime.LogOptions{Agent: t.agent, Tail: -1, Follow: follow}, func(l runtime.Line) error {
		return emit(l.Text)
	})
}
