package docker

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/volume"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestC17_DownKeepsTheVolume: a down asks for the removal of no volume, with or
// without its container.
func TestC17_DownKeepsTheVolume(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		p, fake := onFake(t, dockertest.Options{API: api})
		p.Up()
		p.MustTurn("s1", "a")
		fake.ResetCalls()
		p.Down()
		for _, c := range fake.Calls() {
			if strings.Contains(c.Op, "Prune") || c.Op == "VolumeRemove" || c.Query.Get("v") == "1" {
				t.Errorf("API %s: down calls %s %s?%s", api, c.Method, c.Path, c.Query.Encode())
			}
		}
		if fake.VolumeDir(p.Setup.Stack.Volume.Name) == "" {
			t.Error("the volume is gone")
		}
	}
}

// TestC17_RemoveVolume: it removes the project's volume, with all that is
// remembered of it, and nobody else's.
func TestC17_RemoveVolume(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		p.MustTurn("s1", "a")
		d := driverOf(p)
		_, err := d.RemoveVolume(t.Context(), p.P)
		mustFault(t, err, fault.Usage, "something of the project runs")
		p.Down()
		volumes, err := d.Volumes(t.Context())
		if err != nil || len(volumes) != 1 || volumes[0] != (Volume{Name: p.Setup.Stack.Volume.Name, Checkpoints: true}) {
			t.Errorf("volumes: %+v, %v", volumes, err)
		}
		removed, err := d.RemoveVolume(t.Context(), p.P)
		if err != nil || !slices.Equal(removed, []string{p.Setup.Stack.Volume.Name}) {
			t.Errorf("removed %v, %v", removed, err)
		}
		if err := d.ReadVolume(t.Context(), func(string) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("reading what is gone: %v", err)
		}
		if report := p.Up(); !report.Created {
			t.Errorf("up after it: %+v", report)
		}
		if a := p.MustTurn("s1", "b"); a.Turn != 1 {
			t.Errorf("the conversation is not gone: %+v", a)
		}
	})
}

func TestC17_ExternalVolumeStays(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	name := p.Setup.Stack.Volume.Name
	fake.AddVolume(name, nil)
	fake.AddVolume("somebody-elses", map[string]string{labelProject: "ffffffffffff"})
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Usage, name, "is not of this project")
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "volumes: {checkpoints: !override {external: true, name: "+name+"}}\n")
	p.Up()
	p.MustTurn("s1", "a")
	p.Down()
	removed, err := driverOf(p).RemoveVolume(t.Context(), p.P)
	if err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := driverOf(p).Erase(t.Context(), p.P); err != nil {
		t.Error(err)
	}
	if got := fake.Volumes(); !slices.Equal(got, []string{name, "somebody-elses"}) {
		t.Errorf("the volumes are %v", got)
	}
}

// TestC16_SomebodyElsesInItsPlace: what may be somebody's data is not advised to
// be removed where another name does, and that way on works.
func TestC16_SomebodyElsesInItsPlace(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	p.Down()
	d, e, name := driverOf(p), mustEngine(t, p), p.Setup.Stack.Volume.Name
	if err := e.removeVolume(t.Context(), volumeRef{name: name, project: p.Setup.Stack.ID}); err != nil {
		t.Fatal(err)
	}
	fake.AddVolume(name, map[string]string{labelProject: "ffffffffffff"})
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, name, "is not the one with the project's conversations", "of another flisk project")
	f, _ := errors.AsType[*fault.Fault](err)
	other, remove := strings.Index(f.Hint, "another name under volumes in flisk.yaml"), strings.Index(f.Hint, "docker volume rm")
	if other < 0 || remove < other || !strings.Contains(f.Hint, d.memory().Path()) {
		t.Errorf("the hint is %q", f.Hint)
	}
	p.Setup.Stack.Volume.Name += "-2"
	if err := os.Remove(d.memory().Path()); err != nil {
		t.Fatal(err)
	}
	p.Up()
	if a := p.MustTurn("s1", "a"); a.Turn != 1 {
		t.Errorf("on another volume: %+v", a)
	}
	if !slices.Contains(fake.Volumes(), name) {
		t.Errorf("the volumes are %v", fake.Volumes())
	}
}

// TestC18_NothingIsRefusedForTheEngine: an engine that fails for a moment says
// nothing of the volume.
func TestC18_NothingIsRefusedForTheEngine(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.Down()
	for _, op := range []string{"VolumeInspect", "ContainerCreate"} { // of the look into it
		fake.Fail(dockertest.Failure{Op: op, Message: "it is busy"})
		why, err := driverOf(p).CheckVolume(t.Context())
		if why != nil || err == nil || !strings.Contains(err.Error(), "it is busy") {
			t.Errorf("%s: refused for %v, %v", op, why, err)
		}
	}
	if why, err := driverOf(p).CheckVolume(t.Context()); why != nil || err != nil {
		t.Errorf("the right one: %v, %v", why, err)
	}
}

// TestC17_NoPlaceForACopy is about this machine, and no reason to read again.
func TestC17_NoPlaceForACopy(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	d, dir := driverOf(p), t.TempDir()
	write(t, filepath.Join(dir, checkpoint.AgentsDir), "in the way")
	err := d.copyFiles(t.Context(), mustEngine(t, p), only(t, p).ID, []string{"."}, dir)
	mustFault(t, err, fault.Environment, "there is no place for a copy", checkpoint.AgentsDir)
	if worthAnother(t.Context(), err, 1) {
		t.Error("it would be read again")
	}
}

// TestC17_ReadVolume: sessions can be looked at when nothing runs and while
// something does, and the volume stays as it is.
func TestC17_ReadVolume(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		count := func() (n int) {
			t.Helper()
			err := driverOf(p).ReadVolume(t.Context(), func(dir string) error {
				var err error
				if n, err = checkpoint.CountSessions(dir); err != nil {
					return err
				}
				return os.RemoveAll(filepath.Join(dir, "a")) // of the copy
			})
			if err != nil {
				t.Errorf("read: %v", err)
			}
			return n
		}
		p.Up()
		p.MustTurn("s1", "a")
		p.MustTurn("s2", "a")
		if n := count(); n != 2 {
			t.Errorf("%d sessions while it runs", n)
		}
		p.Down()
		if n := count(); n != 2 {
			t.Errorf("%d sessions when nothing runs", n)
		}
		p.Up()
		if a := p.MustTurn("s1", "b"); a.Turn != 2 {
			t.Errorf("the turn after reading: %+v", a)
		}
	})
}

// TestC18_AnotherEngine: an engine that does not have the project's volume is
// refused before anything is made on it.
func TestC18_AnotherEngine(t *testing.T) {
	t.Parallel()
	p, first := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	p.Down()
	place, second := fakePlace(t, dockertest.Options{})
	here := p.Place
	p.Place = place
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, "another Docker engine", first.Host())
	_, err = p.Driver().Plan(t.Context(), runtime.OpUp)
	mustFault(t, err, fault.Environment, "another Docker engine")
	if ops := second.Ops(); len(ops) > 0 {
		t.Errorf("the other engine was asked to change something: %v", ops)
	}
	// It has a volume of that name, with other conversations.
	second.AddVolume(p.Setup.Stack.Volume.Name, map[string]string{labelProject: p.Setup.Stack.ID})
	if _, _, err := checkpoint.InitVolume(second.VolumeDir(p.Setup.Stack.Volume.Name)); err != nil {
		t.Fatal(err)
	}
	_, err = p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, "is another volume")
	if err := driverOf(p).Erase(t.Context(), p.P); err != nil {
		t.Error(err)
	}
	p.Place = here
}

// TestC18_EmptiedVolume is refused before anything is started.
func TestC18_EmptiedVolume(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	p.Down()
	if err := os.Remove(filepath.Join(fake.VolumeDir(p.Setup.Stack.Volume.Name), "VOLUME")); err != nil {
		t.Fatal(err)
	}
	fake.ResetCalls()
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, "is gone or was emptied")
	if ops := fake.Ops(); slices.Contains(ops, "ContainerStart") {
		t.Errorf("something was started: %v", ops)
	}
	if c := fake.Containers(); len(c) > 0 {
		t.Errorf("left: %+v", c)
	}
}

// TestC18_VolumeMadeAgain: a volume that was removed and made again under its name
// is refused by up and by an import, which leaves it empty; and no down removes
// what is not the project's.
func TestC18_VolumeMadeAgain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		name, d, e := p.Setup.Stack.Volume.Name, driverOf(p), mustEngine(t, p)
		makeAgain := func(labels map[string]string) {
			t.Helper()
			if err := e.api.VolumeRemove(t.Context(), name, false); err != nil {
				t.Fatal(err)
			}
			if _, err := e.api.VolumeCreate(t.Context(), volume.CreateOptions{Name: name, Labels: labels}); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(parts ...string) {
			t.Helper()
			_, err := d.Up(t.Context(), p.P)
			mustFault(t, err, fault.Environment, parts...)
			why, err := d.CheckVolume(t.Context())
			if err != nil {
				t.Errorf("check: %v", err)
			}
			mustFault(t, why, fault.Environment, parts...)
			_, err = d.ChangeVolume(t.Context(), p.P, Command{Args: []string{"import"}, Stdout: io.Discard, Stderr: io.Discard})
			mustFault(t, err, fault.Environment, parts...)
			if s, err := d.Survey(t.Context()); !errors.Is(err, ErrEmpty) {
				t.Errorf("something was written to it: %+v, %v", s, err)
			}
		}
		p.Up()
		p.MustTurn("s1", "a")
		if why, err := d.CheckVolume(t.Context()); err != nil || why != nil {
			t.Errorf("the right one: %v, %v", why, err)
		}
		p.Down()

		makeAgain(nil)
		refused(name, "it has no label of any project", "not the one with the project's conversations")
		volumes, err := d.Volumes(t.Context())
		if err != nil || len(volumes) != 1 || !strings.Contains(volumes[0].Kept, "no label of any project") {
			t.Errorf("the volumes are %+v, %v", volumes, err)
		}
		if removed, err := d.RemoveVolume(t.Context(), p.P); err != nil || len(removed) > 0 {
			t.Errorf("removed %v, %v", removed, err)
		}
		refused(name, "it has no label of any project") // it is remembered

		makeAgain(map[string]string{composeProject: "shop"})
		refused(name, `it is of the Compose project "shop"`)

		makeAgain(d.ourLabels()) // as plain Compose does it
		refused(name, "is gone or was emptied")
		if removed, err := d.RemoveVolume(t.Context(), p.P); err != nil || !slices.Equal(removed, []string{name}) {
			t.Errorf("removed %v, %v", removed, err)
		}
		if report := p.Up(); !report.Created {
			t.Errorf("up after it: %+v", report)
		}
	})
}

// TestC18_AnotherVolumeOfTheProject carries its label, holds other conversations,
// and is neither used nor removed.
func TestC18_AnotherVolumeOfTheProject(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	p.Down()
	at := fake.VolumeDir(p.Setup.Stack.Volume.Name)
	if err := os.Remove(filepath.Join(at, "VOLUME")); err != nil {
		t.Fatal(err)
	}
	other, _, err := checkpoint.InitVolume(at)
	if err != nil {
		t.Fatal(err)
	}
	d := driverOf(p)
	_, err = d.Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, "is another volume ("+other+")")
	volumes, err := d.Volumes(t.Context())
	if err != nil || len(volumes) != 1 || !strings.Contains(volumes[0].Kept, "it is another one ("+other+")") {
		t.Errorf("the volumes are %+v, %v", volumes, err)
	}
	if removed, err := d.RemoveVolume(t.Context(), p.P); err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// TestC17_Survey: counting and naming sessions copies nothing, and a look at one
// session copies no other one. What a killed flisk left goes with the next copy.
func TestC17_Survey(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		d := driverOf(p)
		if _, err := d.Survey(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a volume: %v", err)
		}
		p.Up()
		p.MustTurn("s1", "a")
		p.MustTurn("s2", "a")
		found, err := d.Survey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ids := found.Sessions["bot"]; found.Count() != 2 || !slices.Contains(ids, "s1") || !slices.Contains(ids, "s2") {
			t.Errorf("the sessions are %v", found.Sessions)
		}
		if _, err := os.Stat(d.place.copies); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("something was copied: %v", err)
		}
		left := filepath.Join(d.place.copies, "left")
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
		err = d.ReadFiles(t.Context(), checkpoint.SessionFiles("bot", "s1"), func(dir string) error {
			r, err := checkpoint.OpenReader(dir, "bot")
			if err != nil {
				return err
			}
			defer r.Close()
			if v, err := r.View(t.Context(), "s1"); err != nil || v.Turn != 1 {
				t.Errorf("the session: %+v, %v", v, err)
			}
			if n, err := checkpoint.CountSessions(dir); err != nil || n != 1 {
				t.Errorf("%d sessions were copied, %v", n, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if dirs, err := os.ReadDir(d.place.copies); err != nil || len(dirs) > 0 {
			t.Errorf("left: %v, %v", dirs, err)
		}
	})
}

// TestC17_SurveyOfWhatRuns makes no container: an agent's has the volume.
func TestC17_SurveyOfWhatRuns(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	counts := func(what string, makes bool) {
		t.Helper()
		fake.ResetCalls()
		found, err := driverOf(p).Survey(t.Context())
		if err != nil || found.Count() != 1 {
			t.Fatalf("%s: %+v, %v", what, found, err)
		}
		if ops := fake.Ops(); (len(ops) > 0) != makes {
			t.Errorf("%s: it asked for %v", what, ops)
		}
	}
	counts("while it runs", false)
	fake.Fail(dockertest.Failure{Op: "CopyFromContainer"})
	counts("the agent's does not do", true)
	p.Down()
	counts("when nothing runs", true)
}

func TestC18_ComposeProjectNameCountsForNothing(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	var warnings []string
	d, err := New(Options{
		Stack: p.Setup.Stack, Home: p.Setup.Home, SourceHash: p.Setup.SourceHash,
		Surroundings: Surroundings{Getenv: func(name string) string {
			return map[string]string{"DOCKER_HOST": fake.Host()}[name]
		}},
		Environ: []string{"COMPOSE_PROJECT_NAME=x"},
		Warn:    func(text string) { warnings = append(warnings, text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 2 {
		if _, err := d.Up(t.Context(), p.P); err != nil {
			t.Fatal(err)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], `COMPOSE_PROJECT_NAME is "x"`) {
		t.Errorf("warnings: %q", warnings)
	}
	for _, c := range fake.Containers() {
		if c.Labels[composeProject] != p.Setup.Stack.ContainerProject() {
			t.Errorf("%s is of the project %q", c.Name, c.Labels[composeProject])
		}
	}
}
