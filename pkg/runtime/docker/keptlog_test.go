package docker

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
	"github.com/flisk-go/flisk/pkg/stack"
)

// TestKeptLogsAreBounded: only the newest of an agent stay.
func TestKeptLogsAreBounded(t *testing.T) {
	t.Parallel()
	p, _ := onFake(t, dockertest.Options{})
	dir := driverOf(p).place.keptLogs("bot")
	if err := os.MkdirAll(dir, userOnly); err != nil {
		t.Fatal(err)
	}
	for i := range keptLogs {
		write(t, filepath.Join(dir, time.Unix(int64(i), 0).UTC().Format(stampLayout)+fmt.Sprintf("-%064d.log", i)), "x\n")
	}
	p.Up()
	p.MustTurn("s1", "1ms")
	p.Down()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != keptLogs {
		t.Fatalf("%d logs are kept, %v", len(files), err)
	}
	if strings.HasPrefix(files[0].Name(), "1970-01-01T00:00:00") {
		t.Errorf("the oldest is still there: %s", files[0].Name())
	}
	content, err := os.ReadFile(filepath.Join(dir, files[len(files)-1].Name()))
	if err != nil || !strings.Contains(string(content), " bot-1 a turn of 1ms begins\n") {
		t.Errorf("the newest says %q, %v", content, err)
	}
}

// TestLogOfAContainerThatIsBeingRemoved is no error: what it wrote is kept.
func TestLogOfAContainerThatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{})
	p.Up()
	fake.Fail(dockertest.Failure{Op: "ContainerLogs", Status: http.StatusConflict, Message: "can not get logs from container which is dead or marked for removal"})
	err := driverOf(p).Logs(t.Context(), runtime.LogOptions{Tail: -1}, func(runtime.Line) error { return nil })
	if err != nil {
		t.Error(err)
	}
}

func TestParseKept(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 21, 55, 0, 123456789, time.UTC)
	for s, want := range map[string]runtime.Line{
		"2026-11-29T21:55:00.123456789Z bot-1 a  b ": {Time: at, Replica: "bot-1", Text: "a  b "},
		"2026-11-29T21:55:00.123456789Z bot-1 ":      {Time: at, Replica: "bot-1"},
		"half of a line":                             {Text: "half of a line"},
	} {
		if got := parseKept(s); got != want {
			t.Errorf("%q is %+v", s, got)
		}
	}
}

// TestRestartsAreCounted: those of the engine, and those of flisk's kills, whatever
// the engine makes of its own count then.
func TestRestartsAreCounted(t *testing.T) {
	t.Parallel()
	p := placeOf(t.TempDir(), stack.Stack{ID: "9f2c41d07a3e"})
	for _, n := range []int{2, 0} {
		if err := p.countKill("a", n); err != nil {
			t.Fatal(err)
		}
	}
	got, err := p.counted()
	if err != nil || got["a"] != 4 || got["b"] != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestKilledByHandIsTold: status says of an agent's container that somebody killed
// what a request through the gateway cannot say.
func TestKilledByHandIsTold(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, p *runtimetest.Project) {
		p.Up()
		e := mustEngine(t, p)
		l, err := driverOf(p).look(t.Context())
		if err != nil || len(l.agents) != 1 {
			t.Fatalf("%v, %v", l.agents, err)
		}
		if _, _, err := e.signalContainer(t.Context(), l.agents[0].ID, 9); err != nil {
			t.Fatal(err)
		}
		r := p.Replica()
		if r.State != runtime.Failing || !r.Serving || !strings.Contains(r.Detail, "its container has stopped") || !strings.Contains(r.Detail, "flisk up") {
			t.Errorf("%+v", r)
		}
		p.Up()
		if n := len(slices.DeleteFunc(p.Observe().Replicas, func(r runtime.Replica) bool { return r.State == runtime.Ready })); n > 0 {
			t.Errorf("after an up %d replicas are not ready", n)
		}
	})
}
