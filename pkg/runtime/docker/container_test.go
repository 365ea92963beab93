package docker

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-connections/nat"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

func TestLifeOfAContainer(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		id := r.start(r.spec("bot"))
		if err := e.startContainer(t.Context(), id); err != nil {
			t.Errorf("a second start: %v", err)
		}
		c, err := e.inspectContainer(t.Context(), id)
		if err != nil || !c.State.Running || c.Name != "/"+r.name("bot") || *c.Config.StopTimeout != 60 {
			t.Errorf("inspect: %v %+v", err, c.State)
		}
		if err := e.renameContainer(t.Context(), id, r.name("other")); err != nil {
			t.Error(err)
		}
		list, err := e.listContainers(t.Context(), r.project)
		if err != nil || len(list) != 1 || list[0].ID != id || !slices.Equal(list[0].Names, []string{"/" + r.name("other")}) {
			t.Errorf("list: %v %+v", err, list)
		}
		if list, err := e.listContainers(t.Context(), r.project+"0"); err != nil || len(list) != 0 {
			t.Errorf("list of another project: %v %+v", err, list)
		}
		if err := e.removeContainer(t.Context(), id); !errors.Is(err, errConflict) {
			t.Errorf("a running container was removed, or not: %v", err)
		}
		code, err := e.stopContainer(t.Context(), id, nil)
		if code != 0 || err != nil {
			t.Errorf("stop: %d, %v", code, err)
		}
		if code, err := e.stopContainer(t.Context(), id, nil); code != 0 || err != nil {
			t.Errorf("a second stop: %d, %v", code, err)
		}
		for range 2 { // the second time it is gone
			if err := e.removeContainer(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if _, err := e.inspectContainer(t.Context(), id); !errors.Is(err, errNotFound) {
			t.Errorf("it is still there: %v", err)
		}
	})
}

func TestKillIsConfirmedAndFinal(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		s := r.spec("bot")
		s.host.RestartPolicy.Name = container.RestartPolicyUnlessStopped
		id := r.start(s)
		if code, _, err := e.signalContainer(t.Context(), id, syscall.SIGKILL); err != nil || code != killedCode {
			t.Fatalf("exit code %d, %v", code, err)
		}
		c, err := e.inspectContainer(t.Context(), id)
		if err != nil || c.State.Status != container.StateExited || c.State.ExitCode != killedCode || c.RestartCount != 0 {
			t.Errorf("after the kill: %v %+v", err, c.State)
		}
		_, _, err = e.signalContainer(t.Context(), id, syscall.SIGKILL)
		mustFault(t, err, fault.Failed, "is not running")
		if err := e.startContainer(t.Context(), id); err != nil {
			t.Error(err)
		}
	})
}

func TestExitCodeOfACrash(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		if _, code := r.run(r.spec("bot", "exit", "7")); code != 7 {
			r.t.Errorf("exit code %d, want 7", code)
		}
	})
}

// A context that ends in the middle of a stop is Ctrl-C. Engines 23.0 to 24.0
// would turn that into a SIGKILL.
func TestC13_StopOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	check := func(r *rig) {
		t, e := r.t, r.e
		s := r.spec("bot")
		s.config.Env = append(s.config.Env, "SLOW=300ms")
		id := r.start(s)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() {
			code, err := e.stopContainer(ctx, id, nil)
			if err == nil && code != 0 {
				err = errors.New("the container was killed")
			}
			stopped <- err
		}()
		errSeen := errors.New("seen")
		err := e.logs(t.Context(), id, logOptions{tail: -1, follow: true}, func(l logLine) error {
			if l.text == "SIGTERM" {
				return errSeen
			}
			return nil
		})
		cancel()
		if err != errSeen {
			t.Errorf("no SIGTERM arrived: %v", err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		lines := r.lines(id, logOptions{tail: 1})
		if len(lines) != 1 || lines[0].text != "bye" {
			t.Errorf("the last line is %v", lines)
		}
	}
	everywhere(t, check)
	t.Run("an engine that kills", func(t *testing.T) {
		t.Parallel()
		check(newFake(t, dockertest.Options{CancelKills: true}))
	})
}

// The fake must show the fault that the rule above is for.
func TestC13_FakeShowsTheFault(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{CancelKills: true})
	s := r.spec("bot")
	s.config.Env = append(s.config.Env, "STUBBORN=1")
	id := r.start(s)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.e.api.ContainerStop(ctx, id, container.StopOptions{}); err == nil {
		t.Fatal("the stop ended before its context")
	}
	if code, err := r.e.waitContainer(t.Context(), id); code != killedCode || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

func TestC13_StopNamesNoTimeoutOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	id := r.start(r.spec("bot"))
	if _, err := r.e.stopContainer(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.fake.Calls() {
		if c.Op == "ContainerStop" && c.Query.Has("t") {
			t.Errorf("the stop has a timeout: %v", c.Query)
		}
		if c.Op == "ContainerCreate" && !strings.Contains(string(c.Body), `"StopTimeout":60`) {
			t.Errorf("the container has no grace: %s", c.Body)
		}
	}
	if r.e.api.HTTPClient().Timeout != 0 {
		t.Error("the HTTP client has a timeout")
	}
}

func TestC13_ForceKills(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		s := r.spec("bot")
		s.config.Env = append(s.config.Env, "STUBBORN=1")
		id := r.start(s)
		force := make(chan struct{})
		stopped := make(chan int, 1)
		go func() {
			code, err := r.e.stopContainer(r.t.Context(), id, force)
			if err != nil {
				r.t.Error(err)
			}
			stopped <- code
		}()
		select {
		case code := <-stopped:
			r.t.Fatalf("it ended by itself with %d", code)
		case <-time.After(200 * time.Millisecond):
		}
		close(force)
		if code := <-stopped; code != killedCode {
			r.t.Errorf("exit code %d, want %d", code, killedCode)
		}
	})
}

func TestGraceEndsInAKill(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		s := r.spec("bot")
		s.config.StopTimeout = new(1)
		s.config.Env = append(s.config.Env, "STUBBORN=1")
		if code, err := r.e.stopContainer(r.t.Context(), r.start(s), nil); code != killedCode || err != nil {
			r.t.Errorf("exit code %d, %v", code, err)
		}
	})
}

// What was sent is seen through; what was not is not begun.
func TestChangesAfterCtrlC(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	s := r.spec("bot")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.fake.ResetCalls()
	if _, _, err := r.e.createContainer(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("create: %v", err)
	}
	if ops := r.ops(); ops != "" {
		t.Errorf("the engine was asked to %s", ops)
	}
}

func TestC21_OldAndNewEngines(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t, e := r.t, r.e
		var networks []attachment
		for _, n := range []string{"a", "b"} {
			if _, err := e.createNetwork(t.Context(), r.name(n), r.labels()); err != nil {
				t.Fatal(err)
			}
			networks = append(networks, attachment{r.name(n), []string{"bot-" + n}})
		}
		s := r.spec("bot")
		s.host.NetworkMode = ""
		s.networks = networks
		s.config.Healthcheck = &container.HealthConfig{
			Test: []string{"CMD", "/agent", "health"}, Interval: time.Minute, StartPeriod: 10 * time.Second, StartInterval: time.Second,
		}
		id := r.create(s)
		c, err := e.inspectContainer(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.NetworkSettings.Networks) != 2 {
			t.Errorf("it is on the networks %v", c.NetworkSettings.Networks)
		}
		for _, a := range networks {
			if n := c.NetworkSettings.Networks[a.network]; n == nil || !slices.Contains(n.Aliases, a.aliases[0]) {
				t.Errorf("on %s: %+v", a.network, n)
			}
		}
		want := container.HealthConfig{Interval: time.Minute, StartInterval: time.Second}
		if !e.speaks("1.44") {
			want = container.HealthConfig{Interval: minFallbackInterval}
		}
		if h := c.Config.Healthcheck; h.Interval != want.Interval || h.StartInterval != want.StartInterval || h.StartPeriod != 10*time.Second {
			t.Errorf("health check: %+v", h)
		}
		if s.config.Healthcheck.StartInterval != time.Second {
			t.Error("the caller's health check was changed")
		}
		if r.fake == nil {
			return
		}
		if ignored := r.fake.Ignored(); len(ignored) > 0 {
			t.Errorf("the engine ignored %v", ignored)
		}
		connected := strings.Contains(r.ops(), "NetworkConnect")
		if connected == e.speaks("1.44") {
			t.Errorf("with API %s it was asked to %s", e.facts.API, r.ops())
		}
	})
}

// A container that cannot join its second network is removed again.
func TestC21_FailedConnectLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{API: "1.41"})
	s := r.spec("bot")
	s.host.NetworkMode = ""
	for _, n := range []string{"a", "b"} {
		if _, err := r.e.createNetwork(t.Context(), r.name(n), r.labels()); err != nil {
			t.Fatal(err)
		}
		s.networks = append(s.networks, attachment{network: r.name(n)})
	}
	r.fake.Fail(dockertest.Failure{Op: "NetworkConnect"})
	_, _, err := r.e.createContainer(t.Context(), s)
	mustFault(t, err, fault.Failed, "injected failure of NetworkConnect")
	if left := r.fake.Containers(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestC19_PortInUse(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		t := r.t
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		if _, err := r.e.createNetwork(t.Context(), r.name("n"), r.labels()); err != nil {
			t.Fatal(err)
		}
		s := r.spec("gateway")
		s.host.NetworkMode, s.networks = "", []attachment{{network: r.name("n")}}
		s.config.ExposedPorts = nat.PortSet{"8080/tcp": {}}
		s.host.PortBindings = nat.PortMap{"8080/tcp": {{HostIP: "127.0.0.1", HostPort: port}}}
		err = r.e.startContainer(t.Context(), r.create(s))
		if !errors.Is(err, errPortTaken) {
			t.Errorf("start: %v", err)
		}
		mustFault(t, err, fault.Failed, port)
	})
}

func TestC19_NoSubnet(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	r.fake.Fail(dockertest.Failure{Op: "NetworkCreate", Message: "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"})
	_, err := r.e.createNetwork(t.Context(), r.name("n"), r.labels())
	if !errors.Is(err, errNoSubnet) {
		t.Errorf("create: %v", err)
	}
}

func TestEverythingCarriesTheProject(t *testing.T) {
	t.Parallel()
	r := newFake(t, dockertest.Options{})
	s := r.spec("bot")
	s.config.Labels = nil
	r.fake.ResetCalls()
	_, _, err := r.e.createContainer(t.Context(), s)
	_, err2 := r.e.createNetwork(t.Context(), "n", nil)
	_, err3 := r.e.createVolume(t.Context(), "v", nil)
	if err == nil || err2 == nil || err3 == nil || r.ops() != "" {
		t.Errorf("%v, %v, %v: %s", err, err2, err3, r.ops())
	}
}

func TestEnvironmentArrivesAsWritten(t *testing.T) {
	t.Parallel()
	everywhere(t, func(r *rig) {
		s := r.spec("bot")
		want := []string{"A=$HOME ${X:-y} $$", `B="quoted" 'single'`, "C=two\nlines # no comment", "D=", "E= spaces "}
		s.config.Env = append(s.config.Env, want...)
		c, err := r.e.inspectContainer(r.t.Context(), r.create(s))
		if err != nil {
			r.t.Fatal(err)
		}
		for _, w := range want {
			if !slices.Contains(c.Config.Env, w) {
				got, _ := json.Marshal(c.Config.Env)
				r.t.Errorf("%q is not in %s", w, got)
			}
		}
	})
}
