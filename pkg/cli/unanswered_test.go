package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/project"
	"github.com/flisk-go/flisk/pkg/runtime"
)

// An engine that is named and does not answer is told; one that nothing names is
// not missed.
func TestUnansweredEngineIsTold(t *testing.T) {
	t.Parallel()
	socket := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	for host, want := range map[string]string{
		socket:                    "no Docker engine answers at " + socket + " (DOCKER_HOST): local processes",
		"tcp://198.51.100.7:2375": "198.51.100.7",
	} {
		a := quietApp()
		a.environ = []string{"FLISK_HOME=" + t.TempDir(), "DOCKER_HOST=" + host}
		a.askEngine = askEngine
		c, err := a.chooseRuntime(t.Context(), &project.Project{Name: "shop", ID: shopID, Runtime: project.Auto})
		if err != nil || c.on != project.Process || !strings.Contains(c.unanswered, want) {
			t.Errorf("%s: %+v, %v", host, c, err)
		}
		if f := examineRuntime(c); f.Level != runtime.Doubtful || f.Text != c.unanswered {
			t.Errorf("doctor says %+v", f)
		}
	}
}

// What up refuses, doctor says.
func TestDoctorSeesAnEditedFile(t *testing.T) {
	t.Parallel()
	dir := projectDir(t, false)
	if err := os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte("services: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run{driver: examined()}.do(t, "doctor", "-C", dir)
	if got.code != 3 || !strings.Contains(got.out, `"compose.yaml" was not written by flisk`) {
		t.Errorf("got %+v", got)
	}
}

// What flisk.yaml comes to does not depend on an engine.
func TestConfigWithoutAnEngine(t *testing.T) {
	t.Parallel()
	gone := fault.New(fault.Environment, "start Docker", "cannot reach the Docker engine")
	d := &fakeDriver{observe: func() (runtime.Observed, error) { return runtime.Observed{}, gone }}
	got := run{driver: d}.do(t, "config", "-C", projectDir(t, false), "--runtime", "docker")
	if got.code != 0 || !strings.Contains(got.out, "flisk-shop-9f2c41d07a3e") || got.err != "warning: cannot reach the Docker engine\n" {
		t.Errorf("got %+v", got)
	}
}

// The answer of a gateway that is not flisk's own, for an agent that does not run,
// is explained by what is known of the agent.
func TestTurnToAContainerThatHasStopped(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Bad Gateway", http.StatusBadGateway)
	}))
	defer server.Close()
	const stopped = "its container has stopped (signal 9 (killed)); flisk up replaces it"
	o := runtime.Observed{Running: true, URL: server.URL, Replicas: []runtime.Replica{{Agent: "bot", Name: "bot-1", State: runtime.Failing, Detail: stopped}}}
	dir := projectDir(t, false)
	got := run{driver: observing(o)}.do(t, "turn", "hello", "-s", "s1", "-C", dir)
	if got.code != 1 || !strings.Contains(got.err, `agent "bot" does not answer: `+stopped) || strings.Contains(got.err, "another program") || !strings.Contains(got.err, "--key") {
		t.Errorf("got %+v", got)
	}
	if got := (run{driver: observing(o), stdin: "hello\n"}).do(t, "chat", "-s", "s1", "-C", dir); !strings.Contains(got.err, stopped) {
		t.Errorf("chat: %+v", got)
	}
	o.Replicas = append(o.Replicas, runtime.Replica{Agent: "bot", Name: "bot-2", State: runtime.Ready})
	if got := (run{driver: observing(o)}).do(t, "turn", "hello", "-s", "s1", "-C", dir); !strings.Contains(got.err, "another program") {
		t.Errorf("with one that is ready: %+v", got)
	}
}

// Programs see services in a plan, and the steps and the instance of a down.
func TestServicesInJSON(t *testing.T) {
	t.Parallel()
	d := observing(runtime.Observed{})
	d.plan = func(context.Context, runtime.Op, ...string) (runtime.Plan, error) {
		return runtime.Plan{{Do: runtime.StartService, Service: "db"}}, nil
	}
	d.down = func(_ context.Context, p runtime.Progress) (runtime.Report, error) {
		p.Begin("stop service db")("", nil)
		return runtime.Report{Changed: true}, nil
	}
	dir := projectDir(t, false)
	var plan PlanJSON
	got := run{driver: d}.do(t, "down", "--dry-run", "--json", "-C", dir)
	if err := json.Unmarshal([]byte(got.out), &plan); err != nil || len(plan.Steps) != 1 || plan.Steps[0].Service != "db" {
		t.Errorf("%v in %+v", err, got)
	}
	var down DownJSON
	got = run{driver: d}.do(t, "down", "--json", "--instance", "two", "-C", dir)
	if err := json.Unmarshal([]byte(got.out), &down); err != nil || len(down.Steps) != 1 || down.Steps[0] != "stop service db" || down.Instance != "two" {
		t.Errorf("%v in %+v", err, got)
	}
	if got = (run{driver: d}).do(t, "down", "--instance", "two", "-C", dir); !strings.Contains(got.out, "stopped  shop, instance two\n") {
		t.Errorf("got %+v", got)
	}
}
