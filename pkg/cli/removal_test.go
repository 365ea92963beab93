package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker"
)

// removing is a driver whose volume can be removed; several have others besides.
type removing struct {
	*fakeDriver
	removed []string
	events  []string
}

func (r *removing) RemoveVolume(context.Context, runtime.Progress) ([]string, error) {
	r.events = append(r.events, "remove")
	return r.removed, nil
}

type several struct {
	*removing
	volumes []docker.Volume
}

func (s several) Volumes(context.Context) ([]docker.Volume, error) { return s.volumes, nil }

func removable(t *testing.T) *removing {
	r := &removing{fakeDriver: volume(t), removed: []string{"flisk-shop-9f2c41d07a3e"}}
	r.down = func(context.Context, runtime.Progress) (runtime.Report, error) {
		r.events = append(r.events, "down")
		return runtime.Report{Changed: true}, nil
	}
	return r
}

// Each runtime has a volume of its own: what the other one keeps is told.
func TestC17_DownVolumesTellsOfTheOtherRuntime(t *testing.T) {
	t.Parallel()
	dir, here, there := projectDir(t, false), removable(t), volume(t)
	down := func(home string, args ...string) result {
		return run{environ: []string{"FLISK_HOME=" + home}, driverOn: map[project.Runtime]runtime.Driver{"docker": here, "process": there}}.
			do(t, append([]string{"down", "--volumes", "--yes", "--runtime", "docker", "-C", dir}, args...)...)
	}
	home := ranOn(t, "process")
	const says = "there is a copy of its own on local processes, with 3 sessions; to remove it, too: flisk -C "
	if got := down(home); got.code != 0 || !strings.Contains(got.err, says) || !strings.Contains(got.err, " down --volumes --runtime process\n") {
		t.Errorf("got %+v", got)
	}
	var v DownJSON
	if got := down(home, "--json"); json.Unmarshal([]byte(got.out), &v) != nil || v.Elsewhere == nil || v.Elsewhere.Sessions != 3 {
		t.Errorf("got %+v", got)
	}
	if got := down(ranOn(t, "docker")); got.code != 0 || strings.Contains(got.err, "copy of its own") {
		t.Errorf("it never ran there: %+v", got)
	}
}

// Down alone never comes near a volume; with --volumes it names what goes, says
// how many sessions are in it, and takes nothing but a yes.
func TestC17_DownVolumes(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	for _, c := range []struct {
		name, stdin string
		terminal    bool
		args        []string
		code        int
		events      string
		says        []string
	}{
		{name: "plain", args: nil, events: "down", says: []string{"kept", "existing (3 sessions)"}},
		{name: "plain with yes", args: []string{"--yes"}, events: "down", says: []string{"kept"}},
		{name: "no terminal", args: []string{"--volumes"}, code: 2, says: []string{"nothing was stopped or removed", "flisk-shop-9f2c41d07a3e", "3 sessions", "--yes"}},
		{name: "no input", terminal: true, args: []string{"--volumes", "--no-input"}, code: 2, says: []string{"nothing was stopped or removed", "--no-input is set", "--yes"}},
		{name: "json", args: []string{"--volumes", "--json"}, code: 2, says: []string{"nothing was stopped or removed", "flisk-shop-9f2c41d07a3e"}},
		{name: "no", terminal: true, stdin: "n\n", args: []string{"--volumes"}, code: 1, says: []string{"remove: volume flisk-shop-9f2c41d07a3e · existing (3 sessions)", "remove it, with 3 sessions, for good?", "nothing was stopped or removed"}},
		{name: "enter is no", terminal: true, stdin: "\n", args: []string{"--volumes"}, code: 1, says: []string{"nothing was stopped or removed"}},
		{name: "yes", terminal: true, stdin: "y\n", args: []string{"--volumes"}, events: "down remove", says: []string{"gone", "volume flisk-shop-9f2c41d07a3e, with 3 sessions"}},
		{name: "by flag", args: []string{"--volumes", "--yes"}, events: "down remove", says: []string{"gone", "volume flisk-shop-9f2c41d07a3e, with 3 sessions"}},
		{name: "dry", args: []string{"--volumes", "--dry-run"}, says: []string{"remove volume", "flisk-shop-9f2c41d07a3e"}},
		{name: "there is no short flag", args: []string{"-v"}, code: 2, says: []string{`no flag "-v"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := removable(t)
			r.plan = func(context.Context, runtime.Op, ...string) (runtime.Plan, error) { return nil, nil }
			got := run{driver: r, terminal: c.terminal, stdin: c.stdin}.do(t, append([]string{"down", "-C", dir}, c.args...)...)
			if got.code != c.code || strings.Join(r.events, " ") != c.events {
				t.Errorf("code %d after %q, want %d after %q\n%s%s", got.code, r.events, c.code, c.events, got.out, got.err)
			}
			for _, text := range c.says {
				if !strings.Contains(strings.Join(strings.Fields(got.out+got.err), " "), text) {
					t.Errorf("it does not say %q:\n%s%s", text, got.out, got.err)
				}
			}
		})
	}
}

// Volumes of other services go as well; one that was made elsewhere is named, and
// stays.
func TestC17_DownVolumesOfSeveralServices(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	s := several{removable(t), []docker.Volume{{Name: "flisk-shop-9f2c41d07a3e", Checkpoints: true}, {Name: "shop_db"}, {Name: "corporate", Kept: "it is declared external"}}}
	s.removed = []string{"flisk-shop-9f2c41d07a3e", "shop_db"}
	got := run{driver: s}.do(t, "down", "--volumes", "-C", dir)
	if got.code != 2 || !strings.Contains(got.err, "remove: volume shop_db") || !strings.Contains(got.err, "keep: volume corporate: it is declared external") {
		t.Errorf("asked: %+v", got)
	}
	got = run{driver: s}.do(t, "down", "--volumes", "--yes", "--json", "-C", dir)
	var v DownJSON
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != 0 || len(v.Removed) != 2 || v.Volume.Sessions != 3 || !v.Changed {
		t.Errorf("%v in %+v", err, got)
	}

	// Nothing of it is the project's: there is no question, and no talk of a volume
	// that is not there yet.
	s = several{removable(t), []docker.Volume{{Name: "flisk-shop-9f2c41d07a3e", Checkpoints: true, Kept: "it is of another flisk project, with id 1"}}}
	s.removed = nil
	got = run{driver: s}.do(t, "down", "--volumes", "-C", dir)
	if want := "kept     volume flisk-shop-9f2c41d07a3e: it is of another flisk project, with id 1\n"; got.code != 0 || !strings.Contains(got.out, want) || strings.Count(got.out, "kept") != 1 {
		t.Errorf("kept: %+v", got)
	}
}

// Without a volume there is nothing to ask about.
func TestDownVolumesBeforeTheFirstUp(t *testing.T) {
	t.Parallel()
	r := removable(t)
	r.removed = nil
	r.observe = observing(runtime.Observed{Volume: "v", Place: "/nonexistent/v"}).observe
	got := run{driver: r}.do(t, "down", "--volumes", "-C", projectDir(t, false))
	if got.code != 0 || !strings.Contains(got.out, "not there yet") {
		t.Errorf("got %+v", got)
	}
}
