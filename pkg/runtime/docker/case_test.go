package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flisk-go/flisk/pkg/checkpoint"
	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// onFake is a project on a fake engine.
func onFake(t *testing.T, o dockertest.Options) (*runtimetest.Project, *dockertest.Engine) {
	t.Helper()
	place, fake := fakePlace(t, o)
	return runtimetest.NewProject(t, place), fake
}

// both runs a test on the fake engine, and on the real one.
func both(t *testing.T, test func(t *testing.T, p *runtimetest.Project)) {
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		p, _ := onFake(t, dockertest.Options{})
		test(t, p)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, runtimetest.NewProject(t, realPlace(t)))
	})
}

// driverOf is the project's driver with all its methods.
func driverOf(p *runtimetest.Project) *Driver { return p.Driver().(*Driver) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestC11_IdleDown: an idle agent exits 0 in well under its grace.
func TestC11_IdleDown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		began := time.Now()
		p.Down()
		took := time.Since(began)
		if took > 10*time.Second || !strings.Contains(p.P.String(), "end stop bot-1: exit status 0") {
			t.Errorf("down took %s:\n%s", took, p.P)
		}
		t.Logf("an idle down took %d ms", took.Milliseconds())
	})
}

// TestC13_CtrlCDoesNotCutTheGrace: on engines that kill when the client of a stop
// leaves, nobody leaves: the turn in flight is answered although the context of
// the down has ended.
func TestC13_CtrlCDoesNotCutTheGrace(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{CancelKills: true})
	p.Up()
	answer := inFlight(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Driver().Down(ctx, p.P)
		ended <- err
	}()
	runtimetest.Eventually(t, "the stop", func() bool { return slices.Contains(fake.Ops(), "ContainerStop") })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("down: %v", err)
	}
	if a := <-answer; a.Status != http.StatusOK {
		t.Errorf("the turn in flight: %+v", a)
	}
}

// TestC12_ForceKills: a closed force channel ends the waiting by SIGKILL.
func TestC12_ForceKills(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	answer := inFlight(t, p)
	force := make(chan struct{})
	p.Setup.Force = force
	ended := make(chan error, 1)
	go func() {
		_, err := p.Driver().Down(t.Context(), p.P)
		ended <- err
	}()
	runtimetest.Eventually(t, "the stop", func() bool { return slices.Contains(fake.Ops(), "ContainerStop") })
	close(force)
	if err := <-ended; err != nil {
		t.Errorf("down: %v", err)
	}
	if a := <-answer; a.Err == nil && a.Status == http.StatusOK {
		t.Errorf("the turn was not cut: %+v", a)
	}
	if !strings.Contains(p.P.String(), "what it had not committed is lost") {
		t.Errorf("nobody says that turns are cut:\n%s", p.P)
	}
}

// inFlight sends a turn of three seconds and returns when it runs.
func inFlight(t *testing.T, p *runtimetest.Project) <-chan runtimetest.Answer {
	t.Helper()
	answer := make(chan runtimetest.Answer, 1)
	go func() { answer <- p.Turn("bot", "s1", "", "3s") }()
	runtimetest.Eventually(t, "the turn to begin", func() bool {
		begun := false
		err := p.Driver().Logs(t.Context(), runtime.LogOptions{Tail: -1}, func(l runtime.Line) error {
			begun = begun || strings.Contains(l.Text, "a turn of 3s begins")
			return nil
		})
		return err == nil && begun
	})
	return answer
}

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

// TestC18_EmptiedVolume: a volume that was emptied or made anew is refused by the
// agents, which are told its id.
func TestC18_EmptiedVolume(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	p.Down()
	if err := os.Remove(filepath.Join(fake.VolumeDir(p.Setup.Stack.Volume.Name), "VOLUME")); err != nil {
		t.Fatal(err)
	}
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "bot-1 ended before it was ready")
	if f, _ := errors.AsType[*fault.Fault](err); f == nil || !strings.Contains(f.Detail, "volume") {
		t.Errorf("nobody says why: %+v", err)
	}
	if c := fake.Containers(); len(c) > 0 {
		t.Errorf("left: %+v", c)
	}
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
		if c.Labels[composeProject] != p.Setup.Stack.Name {
			t.Errorf("%s is of the project %q", c.Name, c.Labels[composeProject])
		}
	}
}

// TestC19_PortOfAnotherContainer: the engine itself knows of a port that nobody
// on this machine is seen to listen on.
func TestC19_PortOfAnotherContainer(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	fake.Fail(dockertest.Failure{Op: "ContainerStart", Message: "driver failed programming external connectivity: Bind for 127.0.0.1:1 failed: port is already allocated"})
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, fmt.Sprintf("port %d is in use", p.Setup.Stack.Gateway.Port))
	if c := fake.Containers(); len(c) > 0 {
		t.Errorf("left: %+v", c)
	}
	p.Up()
}

func TestC19_NoSubnetNamesTheUnused(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	other, err := connect(t.Context(), Endpoint{Host: fake.Host()}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if _, err := other.createNetwork(t.Context(), "forgotten", map[string]string{labelProject: "ffffffffffff"}); err != nil {
		t.Fatal(err)
	}
	fake.Fail(dockertest.Failure{Op: "NetworkCreate", Message: "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"})
	_, err = p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Environment, "non-overlapping")
	if f, _ := errors.AsType[*fault.Fault](err); f == nil || f.Detail != "forgotten\n" || !strings.Contains(f.Hint, "docker network rm") {
		t.Errorf("the fault does not say what could be removed: %+v", err)
	}
	if n := fake.Networks(); !slices.Equal(n, []string{"forgotten"}) {
		t.Errorf("the networks are %v", n)
	}
}

// TestC19_SecondUpAsksForNothing: an up of an unchanged stack makes no call that
// could change anything.
func TestC19_SecondUpAsksForNothing(t *testing.T) {
	t.Parallel()
	for _, api := range apis {
		p, fake := onFake(t, dockertest.Options{API: api})
		p.Up()
		for range 2 {
			fake.ResetCalls()
			p.Up()
			if ops := fake.Ops(); len(ops) > 0 {
				t.Errorf("API %s: up of what runs asks for %v", api, ops)
			}
		}
		if ignored := fake.Ignored(); len(ignored) > 0 {
			t.Errorf("API %s ignores %v", api, ignored)
		}
	}
}

// TestC20_ReadyThroughTheGateway: the first request after an up is answered.
func TestC20_ReadyThroughTheGateway(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		if a := p.Turn("bot", "s1", "", "a"); a.Err != nil || a.Status != http.StatusOK {
			t.Errorf("the first turn: %+v", a)
		}
	})
}

// TestNoSecretIsShown: a value of an env file is in the container's environment,
// as it must be, and nowhere else.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		const secret = `a$b "c" #d`
		file := filepath.Join(p.Setup.Stack.Dir, ".env")
		write(t, file, "SAYS='"+secret+"'\n")
		p.Setup.Stack.Agents[0].EnvFiles = []string{file}
		p.Up()
		if a := p.MustTurn("s1", "x"); !strings.HasSuffix(a.Reply, "SAYS="+secret) {
			t.Errorf("it arrived as %q", a.Reply)
		}
		d := driverOf(p)
		l, err := d.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range l.everything() {
			c.Config.Env = nil
			img, _, err := l.e.inspectImage(t.Context(), c.Image)
			if err != nil {
				t.Fatal(err)
			}
			shown, err := json.Marshal([]any{c.InspectResponse, img})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(shown), "a$b") {
				t.Errorf("%s shows the secret", c.name())
			}
			for port, bindings := range c.NetworkSettings.Ports {
				for _, b := range bindings {
					if b.HostIP != "127.0.0.1" {
						t.Errorf("%s is published at %s", port, b.HostIP)
					}
				}
			}
		}
		o := p.Observe()
		if shown := fmt.Sprintf("%+v", o); strings.Contains(shown, "a$b") {
			t.Errorf("what is observed shows the secret: %s", shown)
		}
		grep(t, p.Setup.Home, "a$b")
	})
}

// grep fails the test when a file below dir holds the text.
func grep(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			t.Errorf("%q holds %q", path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHardened: what a container may is what the Compose file says.
func TestHardened(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		l, err := driverOf(p).look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range l.everything() {
			h := c.HostConfig
			if !h.ReadonlyRootfs || !slices.Equal(h.CapDrop, []string{"ALL"}) || !slices.Contains(h.SecurityOpt, "no-new-privileges:true") ||
				c.Config.User != stack.User || h.RestartPolicy.Name != container.RestartPolicyUnlessStopped || h.Privileged {
				t.Errorf("%s: %+v %q", c.name(), h, c.Config.User)
			}
			for _, m := range h.Mounts {
				if strings.Contains(m.Source, "docker.sock") {
					t.Errorf("%s mounts %s", c.name(), m.Source)
				}
			}
			labels := c.Config.Labels
			if labels[composeProject] != p.Setup.Stack.Name || labels[composeOneOff] != "False" || labels[composeNumber] != "1" || labels[composeService] == "" {
				t.Errorf("%s has the labels %v", c.name(), labels)
			}
		}
		bot, _ := l.at(runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1})
		if bot.Config.StopTimeout == nil || *bot.Config.StopTimeout != 30 {
			t.Errorf("the grace of the agent is %v", bot.Config.StopTimeout)
		}
	})
}

// TestC08_AgentThatDiesComesBack: the engine starts it again.
func TestC08_AgentThatDiesComesBack(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	p.MustTurn("s1", "a")
	before := p.Replica()
	process, err := os.FindProcess(before.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil { // from outside the engine: it is no kill by hand
		t.Fatal(err)
	}
	runtimetest.Eventually(t, "the agent to be back", func() bool {
		r := p.Replica()
		return r.State == runtime.Ready && r.PID != before.PID && r.Restarts == 1
	})
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after it: %+v", a)
	}
	fake.ResetCalls()
	if up := p.Up(); up.Changed || len(fake.Ops()) > 0 {
		t.Errorf("up after it: %+v %v", up, fake.Ops())
	}
}

// TestStoppedByHand: what somebody stopped or killed with docker is brought back.
func TestStoppedByHand(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"bot", stack.GatewayService} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, p *runtimetest.Project) {
				p.Up()
				p.MustTurn("s1", "a")
				l, err := driverOf(p).look(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range l.everything() {
					if c.service() == service {
						if _, err := l.e.stopContainer(t.Context(), c.ID, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				if o := p.Observe(); service == stack.GatewayService && len(o.Stale) != 1 || service == "bot" && o.Replicas[0].State != runtime.Failing {
					t.Errorf("observed %+v", o)
				}
				p.Up()
				if a := p.MustTurn("s1", "b"); a.Turn != 2 {
					t.Errorf("after it: %+v", a)
				}
				l, err = driverOf(p).look(t.Context())
				if err != nil || len(l.everything()) != 2 {
					t.Errorf("%d containers, %v", len(l.everything()), err)
				}
			})
		})
	}
}

// TestCrashLoopIsTold: an agent that ends again and again says why in status.
func TestCrashLoopIsTold(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	// It cannot start again without its volume's file.
	name := filepath.Join(fake.VolumeDir(p.Setup.Stack.Volume.Name), "VOLUME")
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Driver().Kill(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	runtimetest.Eventually(t, "the loop", func() bool {
		r := p.Replica()
		return r.State == runtime.Failing && strings.Contains(r.Detail, "the last that it wrote: ")
	})
}

// TestServices: what people add in an override runs, and is changed and stopped
// with the project.
func TestServices(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{
		Images:   []dockertest.Image{{Ref: "redis:7"}},
		Registry: map[string]dockertest.Pullable{"postgres:18": {Layers: 2}},
	})
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	write(t, override, `
services:
  db: {image: "postgres:18", volumes: ["rows:/rows"], depends_on: [cache]}
  cache: {image: "redis:7"}
volumes: {rows: {}}
`)
	p.Up()
	var names []string
	for _, c := range fake.Containers() {
		names = append(names, c.Labels[composeService]+" "+c.Status)
	}
	slices.Sort(names)
	if want := []string{"bot running", "cache running", "db running", "gateway running"}; !slices.Equal(names, want) {
		t.Errorf("the containers are %v", names)
	}
	o := p.Observe()
	if len(o.Services) != 2 || o.Services[0].Name != "cache" || o.Services[1].Name != "db" {
		t.Errorf("the services, in the order of their starts: %+v", o.Services)
	}
	fake.ResetCalls()
	if up := p.Up(); up.Changed || len(fake.Ops()) > 0 {
		t.Errorf("the second up: %+v %v", up, fake.Ops())
	}
	bot := o.Replicas[0].PID
	write(t, override, `
services:
  cache: {image: "redis:7", environment: {A: b}}
`)
	p.Up()
	o = p.Observe()
	if len(o.Services) != 1 || o.Services[0].Name != "cache" || o.Replicas[0].PID != bot {
		t.Errorf("after the change: %+v", o)
	}
	p.Down()
	if c := fake.Containers(); len(c) > 0 {
		t.Errorf("down left %+v", c)
	}
	rows := p.Setup.Stack.Name + "_rows"
	if got := fake.Volumes(); !slices.Contains(got, rows) {
		t.Errorf("the volumes are %v", got)
	}
	removed, err := driverOf(p).RemoveVolume(t.Context(), p.P)
	if err != nil || !slices.Equal(removed, []string{p.Setup.Stack.Volume.Name, rows}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// TestUnappliedKeyIsRefused: before anything is made.
func TestUnappliedKeyIsRefused(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), "services: {bot: {privileged: true}}\n")
	_, err := p.Driver().Up(t.Context(), p.P)
	mustFault(t, err, fault.Usage, `service "bot"`, "privileged")
	if ops := fake.Ops(); len(ops) > 0 {
		t.Errorf("it asked for %v", ops)
	}
}

// TestOldImagesGo: of the project's own, and of nobody else.
func TestOldImagesGo(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		images := func() int {
			t.Helper()
			e, err := driverOf(p).connected(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			list, err := e.listImages(t.Context(), p.Setup.Stack.ID)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		for _, code := range []string{"c1", "c2", "c3"} {
			p.Code(code)
			p.Up()
			if n := images(); n != 1 {
				t.Errorf("with code %s there are %d images", code, n)
			}
		}
		if _, ok, err := mustEngine(t, p).inspectImage(t.Context(), stack.GatewayImage); err != nil || !ok {
			t.Errorf("the gateway's image: %v, %v", ok, err)
		}
	})
}

func mustEngine(t *testing.T, p *runtimetest.Project) *engine {
	t.Helper()
	e, err := driverOf(p).connected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEraseLeavesNothing, also of what runs.
func TestEraseLeavesNothing(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		p.MustTurn("s1", "a")
		if err := driverOf(p).Erase(t.Context(), p.P); err != nil {
			t.Fatal(err)
		}
		e := mustEngine(t, p)
		l, err := driverOf(p).look(t.Context())
		if err != nil || len(l.everything())+len(l.networks) > 0 {
			t.Errorf("left %+v, %v", l, err)
		}
		volumes, err := e.listVolumes(t.Context(), p.Setup.Stack.ID)
		if err != nil || len(volumes) > 0 {
			t.Errorf("left %v, %v", volumes, err)
		}
		images, err := e.listImages(t.Context(), p.Setup.Stack.ID)
		if err != nil || len(images) > 0 {
			t.Errorf("left %v, %v", images, err)
		}
		var left []string
		err = filepath.WalkDir(p.Setup.Home, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) != ".lock" {
				left = append(left, path)
			}
			return err
		})
		if err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
		p.Code("c1")
	})
}

// TestExamine: every finding is fine where nothing is wrong.
func TestExamine(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		for _, when := range []string{"before", "while"} {
			for _, f := range p.Driver().Examine(t.Context()) {
				if f.Level != runtime.Fine {
					t.Errorf("%s it runs: %+v", when, f)
				}
			}
			if when == "before" {
				p.Up()
			}
		}
	})
}

func TestExamineWithoutEngine(t *testing.T) {
	t.Parallel()
	s := stack.Stack{Name: "shop", ID: "9f2c41d07a3e", Dir: t.TempDir(), Gateway: stack.Gateway{Bind: "127.0.0.1", Port: 8080}}
	d, err := New(Options{Stack: s, Home: t.TempDir(), Surroundings: Surroundings{Getenv: func(name string) string {
		return map[string]string{"DOCKER_HOST": "unix:///nowhere/docker.sock"}[name]
	}}})
	if err != nil {
		t.Fatal(err)
	}
	f := d.Examine(t.Context())
	if len(f) == 0 || f[0].Subject != "engine" || f[0].Level != runtime.Blocking || !strings.Contains(f[0].Text, "/nowhere/docker.sock") {
		t.Errorf("%+v", f)
	}
	_, err = d.Up(t.Context(), &runtimetest.Progress{})
	mustFault(t, err, fault.Environment, "/nowhere/docker.sock")
}
