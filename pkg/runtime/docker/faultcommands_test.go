package docker

import (
	"fmt"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/claim/porttest"
)

// commands are what every failure is tried on.
func commands() []command {
	serves := func(f *failing, _ error) { f.converse() }
	return []command{
		{name: "first up", before: nothing, do: up, after: func(f *failing, err error) {
			if err != nil {
				f.nothingRuns() // an up that says that it failed has left nothing
			}
		}},
		{name: "changed up", before: talked, do: func(f *failing) error {
			f.Code("c2")
			f.override("A=2")
			return up(f)
		}, after: serves},
		{name: "restart", before: talked, do: func(f *failing) error {
			_, err := f.Driver().Restart(f.T.Context(), "", f.P)
			return err
		}, after: serves},
		// A kill whose start failed says so; flisk up starts what it killed then.
		{name: "kill", before: talked, do: kill, again: `agent "bot" has no running process`, after: func(*failing, error) {}},
		{name: "move", before: talked, do: func(f *failing) error {
			if f.moved == 0 {
				f.moved = porttest.Free(f.T)
			}
			f.Setup.Stack.Gateway.Port = f.moved
			return up(f)
		}, after: func(f *failing, err error) {
			if err == nil {
				f.converse()
			}
		}},
		{name: "down", before: talked, do: down, after: func(f *failing, err error) {
			if err == nil {
				f.nothingRuns()
			}
			f.volumeKept()
		}},
		{name: "down with volumes", before: talked, do: func(f *failing) error {
			f.kept = false
			if err := down(f); err != nil {
				return err
			}
			_, err := driverOf(f.Project).RemoveVolume(f.T.Context(), f.P)
			return err
		}, after: func(f *failing, err error) {
			there := f.fake.VolumeDir(f.Setup.Stack.Volume.Name) != ""
			if err == nil && there {
				f.T.Error("the volume that was removed is there")
			}
			if !there {
				f.said = nil
			}
		}},
		{name: "look", before: talked, do: looks, after: serves},
	}
}

func nothing(*failing) error { return nil }

func up(f *failing) error {
	_, err := f.Driver().Up(f.T.Context(), f.P)
	return err
}

func down(f *failing) error {
	_, err := f.Driver().Down(f.T.Context(), f.P)
	return err
}

func talked(f *failing) error {
	if err := up(f); err != nil {
		return err
	}
	f.converse()
	return nil
}

func kill(f *failing) error {
	_, err := f.Driver().Kill(f.T.Context(), "bot")
	return err
}

// looks is all that asks and changes nothing.
func looks(f *failing) error {
	d, ctx := driverOf(f.Project), f.T.Context()
	o, err := d.Observe(ctx)
	if err != nil {
		return err
	}
	if len(o.Replicas) != 1 || o.Replicas[0].State != runtime.Ready || len(o.Services) != 1 {
		f.T.Errorf("what was seen: %+v", o)
	}
	if plan, err := d.Plan(ctx, runtime.OpUp); err != nil || len(plan) > 0 {
		return fmt.Errorf("the plan %v: %w", plan, err)
	}
	if v, err := d.Volumes(ctx); err != nil || len(v) != 1 {
		return fmt.Errorf("the volumes %v: %w", v, err)
	}
	if err := d.ReadVolume(ctx, func(string) error { return nil }); err != nil {
		return err
	}
	return d.Logs(ctx, runtime.LogOptions{Tail: -1}, func(runtime.Line) error { return nil })
}
