package runtimetest

import (
	"context"
	"slices"
	"testing"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// remover is what every driver of a place is beside a runtime.Driver.
type remover interface {
	RemoveVolume(ctx context.Context, p runtime.Progress) (removed []string, err error)
}

// Conversations go with the volume, which goes only when nothing runs.
func testRemoveVolume(t *testing.T, place Place) {
	p := NewProject(t, place)
	remove := func() ([]string, error) { return p.Driver().(remover).RemoveVolume(t.Context(), p.P) }
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
	_, err := remove()
	isFault(t, err, fault.Usage, "runs, and uses its volume")
	said(t, p.MustTurn("s1", "b"), 2, "a b")
	p.Down()
	if removed, err := remove(); err != nil || !slices.Equal(removed, []string{p.Setup.Stack.Volume.Name}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	if removed, err := remove(); err != nil || len(removed) > 0 {
		t.Errorf("removed again %q, %v", removed, err)
	}
	if up := p.Up(); !up.Created {
		t.Errorf("up after it: %+v", up)
	}
	said(t, p.MustTurn("s1", "c"), 1, "c")
}

// copier is a driver whose volume is not a directory of this machine.
type copier interface {
	ReadVolume(ctx context.Context, read func(dir string) error) error
}

// sessions are the ids of an agent's sessions in the volume.
func (p *Project) sessions(agent string) (ids []string) {
	p.T.Helper()
	read := func(dir string) error {
		r, err := checkpoint.OpenReader(dir, agent)
		if err != nil {
			return err
		}
		rows, _, err := r.List(p.T.Context(), "", 100)
		for _, row := range rows {
			ids = append(ids, row.Session)
		}
		slices.Sort(ids)
		if closed := r.Close(); err == nil {
			err = closed
		}
		return err
	}
	var err error
	if c, ok := p.Driver().(copier); ok {
		err = c.ReadVolume(p.T.Context(), read)
	} else {
		err = read(p.Observe().Place)
	}
	if err != nil {
		p.T.Fatalf("read the volume: %v", err)
	}
	return ids
}

// Sessions are read and changed while nothing runs, and nothing runs of it.
func testSessions(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	said(t, p.MustTurn("s1", "a"), 1, "a")
	said(t, p.MustTurn("s2", "b"), 1, "b")
	if ids := p.sessions("bot"); !slices.Equal(ids, []string{"s1", "s2"}) {
		t.Errorf("while it runs, the sessions are %q", ids)
	}
	p.Down()
	if ids := p.sessions("bot"); !slices.Equal(ids, []string{"s1", "s2"}) {
		t.Errorf("after down, the sessions are %q", ids)
	}
	place.RemoveSession(t, p.Setup, "bot", "s2")
	if ids := p.sessions("bot"); !slices.Equal(ids, []string{"s1"}) {
		t.Errorf("after one was removed, the sessions are %q", ids)
	}
	p.nothingRuns("looking at sessions and changing them")
	p.Up()
	said(t, p.MustTurn("s1", "c"), 2, "a c")
	said(t, p.MustTurn("s2", "d"), 1, "d")
}
