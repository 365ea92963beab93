package docker

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// withServices is a project on the real engine, and its override: the services
// are the program of testdata, in an image that no Dockerfile built.
func withServices(t *testing.T) (p *runtimetest.Project, image string, override func(format string, args ...any)) {
	t.Helper()
	image = newReal(t).spec("service").config.Image
	p = runtimetest.NewProject(t, realPlace(t))
	return p, image, func(format string, args ...any) {
		t.Helper()
		write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"), fmt.Sprintf(format, args...))
	}
}

// containersOf are the project's containers by service. There is one each.
func containersOf(t *testing.T, p *runtimetest.Project) map[string]seen {
	t.Helper()
	l, err := driverOf(p).look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]seen{}
	for _, c := range l.everything() {
		if other, ok := out[c.service()]; ok {
			t.Errorf("%s and %s are of one service", other.name(), c.name())
		}
		out[c.service()] = c
	}
	return out
}

func at(t *testing.T, stamp string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// ends are the services whose containers the engine saw end since, in that order.
func ends(t *testing.T, p *runtimetest.Project, since time.Time) []string {
	t.Helper()
	seconds := func(when time.Time) string {
		return strconv.FormatFloat(float64(when.UnixNano())/1e9, 'f', 9, 64)
	}
	of := ofProject(p.Setup.Stack.ID)
	of.Add("type", string(events.ContainerEventType))
	of.Add("event", string(events.ActionDie))
	said, failed := mustEngine(t, p).api.Events(t.Context(), events.ListOptions{Since: seconds(since), Until: seconds(time.Now()), Filters: of})
	var out []string
	for {
		select {
		case e := <-said:
			out = append(out, e.Actor.Attributes[composeService])
		case err := <-failed: // the end of the past
			if len(out) == 0 {
				t.Errorf("the engine saw nothing end: %v", err)
			}
			return out
		}
	}
}

// TestServicesOnTheEngine: services of an override start before the agents, each
// when those that it depends on are healthy, change alone, and stop last.
func TestServicesOnTheEngine(t *testing.T) {
	t.Parallel()
	p, image, override := withServices(t)
	const late = 2 * time.Second
	services := `
services:
  # Their names are in the other order than their starts.
  db: &service
    image: "` + image + `"
    environment: {FLISK_LISTEN: "0.0.0.0:4001", LATE: ` + late.String() + `}
    healthcheck: {test: ["CMD", "/agent", "health"], interval: 100ms, retries: 100}
    volumes: ["rows:/rows"]
  cache:
    image: "` + image + `"
    environment: {FLISK_LISTEN: "0.0.0.0:4001", VERSION: "%d"}
    depends_on: {db: {condition: service_healthy}}
    stop_grace_period: 20s
  bot:
    depends_on: {cache: {condition: service_started}}
volumes: {rows: {}}
`
	override(services, 1)
	p.Up()
	first := containersOf(t, p)
	if len(first) != 4 {
		t.Fatalf("the services are %v", first)
	}
	db, cache, bot := first["db"], first["cache"], first["bot"]
	// db cannot be healthy before it is late.
	if began := at(t, db.State.StartedAt); at(t, cache.State.StartedAt).Sub(began) < late || !at(t, bot.State.StartedAt).After(at(t, cache.State.StartedAt)) {
		t.Errorf("db began at %s, cache at %s, bot at %s", began, cache.State.StartedAt, bot.State.StartedAt)
	}
	if services := p.Observe().Services; len(services) != 2 || services[0].Name != "db" || services[1].Name != "cache" {
		t.Errorf("the services are %+v", services)
	}
	if up := p.Up(); up.Changed {
		t.Errorf("the second up: %+v", up)
	}

	override(services, 2)
	p.Up()
	second := containersOf(t, p)
	if second["cache"].ID == cache.ID || !slices.Contains(second["cache"].Config.Env, "VERSION=2") || second["cache"].name() != cache.name() {
		t.Errorf("the change did not arrive: %s %v", second["cache"].name(), second["cache"].Config.Env)
	}
	for _, name := range []string{"db", "bot", "gateway"} {
		if second[name].ID != first[name].ID {
			t.Errorf("%s was replaced, and nothing of it changed", name)
		}
	}

	before := time.Now()
	p.Down()
	if got, want := ends(t, p, before), []string{"bot", "gateway", "cache", "db"}; !slices.Equal(got, want) {
		t.Errorf("they ended in the order %v, want %v", got, want)
	}
	rows := p.Setup.Stack.ContainerProject() + "_rows"
	removed, err := driverOf(p).RemoveVolume(t.Context(), p.P)
	if err != nil || !slices.Equal(removed, []string{p.Setup.Stack.Volume.Name, rows}) {
		t.Errorf("removed %v, %v", removed, err)
	}
}

// TestOrphansOnTheEngine: a service that a project has no more goes, and what is of
// another project, or of nobody, stays.
func TestOrphansOnTheEngine(t *testing.T) {
	t.Parallel()
	p, image, override := withServices(t)
	other, _, overrideOther := withServices(t)
	const services = `services: {db: {image: %q, environment: {FLISK_LISTEN: "0.0.0.0:4001"}}}`
	override(services, image)
	overrideOther(services, image)
	p.Up()
	other.Up()
	kept := containersOf(t, other)["db"].ID
	e := mustEngine(t, p)
	// Somebody's own, and by Compose's label alone it could be the project's.
	stranger := newReal(t).spec("stranger")
	stranger.config.Labels[composeProject], stranger.config.Labels[composeService] = p.Setup.Stack.ContainerProject(), "db"
	id, _, err := e.createContainer(t.Context(), stranger)
	if err != nil {
		t.Fatal(err)
	}
	override("services: {}")
	p.Up()
	if left, ok := containersOf(t, p)["db"]; ok {
		t.Errorf("%s is left", left.name())
	}
	p.Down()
	if now := containersOf(t, other)["db"]; now.ID != kept || !now.State.Running {
		t.Errorf("the other project's service is %s, %+v", now.ID, now.State)
	}
	if _, err := e.inspectContainer(t.Context(), id); err != nil {
		t.Errorf("the container that is of nobody: %v", err)
	}
}

// TestUnhealthyServiceOnTheEngine: what depends on it does not start, the error has
// its last words, and nothing is left; one that runs is kept.
func TestUnhealthyServiceOnTheEngine(t *testing.T) {
	t.Parallel()
	p, image, override := withServices(t)
	const services = `services: {db: {image: %q, environment: {FLISK_LISTEN: "0.0.0.0:4001"}, healthcheck: {test: ["CMD", "/agent", %s], interval: 100ms, retries: 2}}}`
	fails := func() {
		t.Helper()
		override(services, image, `"exit", "3"`)
		_, err := p.Driver().Up(t.Context(), p.P)
		mustFault(t, err, fault.Failed, "service db is not healthy")
		if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Detail, "ready") || !strings.Contains(f.Detail, "its health check: exit code ") {
			t.Errorf("its last words are missing: %+v", f)
		}
	}
	fails()
	if strings.Contains(p.P.String(), "begin start bot") {
		t.Errorf("the agent was started:\n%s", p.P)
	}
	if left := containersOf(t, p); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	override(services, image, `"health"`)
	p.Up()
	before := containersOf(t, p)["db"]
	fails()
	after := containersOf(t, p)["db"]
	if after.ID != before.ID || after.name() != before.name() || after.State.Health.Status == container.Unhealthy || !after.State.Running {
		t.Errorf("the service that ran is %s %+v, it was %s", after.name(), after.State, before.name())
	}
	p.MustTurn("s1", "a")
}
