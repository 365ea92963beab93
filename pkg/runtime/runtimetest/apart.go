package runtimetest

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// Two checkouts of one name, with ids of their own.
func testTwoProjects(t *testing.T, place Place) {
	a, b := NewProject(t, place), NewProject(t, place)
	b.Setup.Stack.Name = a.Setup.Stack.Name
	a.Up()
	b.Up()
	a.MustTurn("s1", "a")
	if got := b.MustTurn("s1", "b"); got.Turn != 1 {
		t.Errorf("the other project's turn: %+v", got)
	}
	before := b.Replica()
	a.Restart()
	if _, err := a.Driver().Kill(t.Context(), "bot"); err != nil {
		t.Error(err)
	}
	a.Down()
	if after := b.Replica(); after.PID != before.PID || after.State != runtime.Ready {
		t.Errorf("the other project was touched: %+v, %+v", before, after)
	}
	said(t, b.MustTurn("s1", "c"), 2, "b c")
	b.Down()
	a.Up()
	said(t, a.MustTurn("s1", "d"), 2, "a d")
}

func testSecondDirectory(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	dir := p.Setup.Stack.Dir
	p.Setup.Stack.Dir = t.TempDir()
	p.Setup.Stack.Agents[0].Dir = p.Setup.Stack.Dir
	for name, change := range map[string]func() error{
		"up":      func() error { _, err := p.Driver().Up(t.Context(), p.P); return err },
		"down":    func() error { _, err := p.Driver().Down(t.Context(), p.P); return err },
		"restart": func() error { _, err := p.Driver().Restart(t.Context(), "", p.P); return err },
		"kill":    func() error { _, err := p.Driver().Kill(t.Context(), "bot"); return err },
		"plan":    func() error { _, err := p.Driver().Plan(t.Context(), runtime.OpUp); return err },
	} {
		if err := change(); err == nil || fault.KindOf(err) != fault.Environment || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s from another directory: %v", name, err)
		}
	}
	p.Setup.Stack.Dir, p.Setup.Stack.Agents[0].Dir = dir, dir
	p.MustTurn("s1", "a")
}

// An instance runs beside the project, with conversations and a port of its own.
func testInstance(t *testing.T, place Place) {
	p := NewProject(t, place)
	p.Up()
	p.MustTurn("s1", "a")
	second := p.Setup
	second.Stack.Instance = "two"
	second.Stack.Volume.Name += "-two"
	for _, a := range second.Stack.Agents {
		place.Install(t, second, a.Name, "c1", place.Program.Path(t))
	}
	d := place.New(t, second)
	t.Cleanup(func() {
		if _, err := d.Down(context.Background(), p.P); err != nil {
			t.Error(err)
		}
		place.Clean(t, second)
	})
	report, err := d.Up(t.Context(), p.P)
	if err != nil {
		t.Fatal(err)
	}
	if report.URL == p.Setup.Stack.Gateway.URL() {
		t.Errorf("the instance has the project's port: %+v", report)
	}
	a := Send(t.Context(), http.DefaultClient, report.URL, "bot", "s1", "", "b")
	said(t, a, 1, "b")
	said(t, p.MustTurn("s1", "c"), 2, "a c")
	if again, err := place.New(t, second).Up(t.Context(), p.P); err != nil || again.Changed || again.URL != report.URL {
		t.Errorf("the second up of the instance: %+v, %v", again, err)
	}
}
