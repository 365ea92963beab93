package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flisk-go/flisk/pkg/fault"
	"github.com/flisk-go/flisk/pkg/runtime"
	"github.com/flisk-go/flisk/pkg/runtime/runtimetest"
)

// TestC28_UnseenRoutes: a gateway that does not hear of new routes, as where the
// engine is in a virtual machine, is started again, which is said, and serves
// them. Here its directory is another one since it was mounted.
func TestC28_UnseenRoutes(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, realPlace(t))
	p.Up()
	p.MustTurn("s1", "a")
	place := driverOf(p).place
	routes, err := os.ReadFile(place.routes())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(place.dynamic(), place.dynamic()+".mounted"); err != nil {
		t.Fatal(err)
	}
	if err := place.makeShared(); err != nil {
		t.Fatal(err)
	}
	write(t, place.routes(), string(routes))
	before := containersOf(t, p)["gateway"]
	d := driverOf(p)
	d.o.GatewayTimeout = 3 * time.Second
	if _, err := d.Restart(t.Context(), "", p.P); err != nil {
		t.Fatal(err)
	}
	if said := p.P.String(); !strings.Contains(said, "begin start gateway again, which does not see its routes change") {
		t.Errorf("nobody says that the gateway was started again:\n%s", said)
	}
	after := containersOf(t, p)["gateway"]
	if after.ID != before.ID || after.State.StartedAt == before.State.StartedAt {
		t.Errorf("the gateway is %s since %s, it was %s since %s", after.ID, after.State.StartedAt, before.ID, before.State.StartedAt)
	}
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("after it: %+v", a)
	}
	began := after.State.StartedAt
	p.Restart() // and it sees them again
	if now := containersOf(t, p)["gateway"]; now.State.StartedAt != began {
		t.Error("the gateway was started again without need")
	}
}

// TestC28_GatewayThatServesNothing: a gateway that does not have the routes after
// that either fails the up with its own last words, and nothing is left.
func TestC28_GatewayThatServesNothing(t *testing.T) {
	t.Parallel()
	image := newReal(t).spec("gateway").config.Image
	p := runtimetest.NewProject(t, realPlace(t))
	write(t, filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml"),
		fmt.Sprintf(`services: {gateway: {image: %q, entrypoint: [/agent], command: !reset [], environment: {FLISK_LISTEN: "0.0.0.0:8080"}}}`, image))
	d := driverOf(p)
	d.o.GatewayTimeout = time.Second
	_, err := d.Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, "the gateway does not serve its routes")
	if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Detail, "ready\n") {
		t.Errorf("the gateway's last words are missing: %+v", f)
	}
	l, err := driverOf(p).look(t.Context())
	if err != nil || len(l.everything())+len(l.networks) > 0 {
		t.Errorf("left %+v, %v", l, err)
	}
}

// TestC27_RouteThatIsNotServed: an agent that is ready by itself, and that the
// gateway does not reach, fails the up with what Traefik itself complains of, and
// nothing is left.
func TestC27_RouteThatIsNotServed(t *testing.T) {
	t.Parallel()
	p := runtimetest.NewProject(t, realPlace(t))
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	first := runtime.Ref{Agent: "bot", Replica: "bot-1", Generation: 1}
	write(t, override, fmt.Sprintf("services: {gateway: {extra_hosts: [%q]}}", alias(first)+":127.0.0.1"))
	place := driverOf(p).place
	if err := place.makeShared(); err != nil {
		t.Fatal(err)
	}
	complaint := filepath.Join(place.dynamic(), "complaint.yaml")
	write(t, complaint, "http: {routers: {complaint: {rule: \"Nonsense(\", service: nowhere}}}\n")
	p.Setup.ReadyTimeout = 2 * time.Minute // longer than the test's own patience
	began := time.Now()
	d := driverOf(p)
	d.o.GatewayTimeout = 2 * time.Second
	_, err := d.Up(t.Context(), p.P)
	mustFault(t, err, fault.Failed, `agent "bot" is ready by itself, and the gateway does not reach it (it answers 502 Bad Gateway)`)
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || !strings.Contains(f.Detail, "complaint@file") || !strings.Contains(f.Hint, "compose.override.yaml") || strings.Contains(f.Hint, "flisk logs") {
		t.Errorf("Traefik's own words are missing, or the hint is wrong: %+v", f)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	l, err := driverOf(p).look(t.Context())
	if err != nil || len(l.everything())+len(l.networks) > 0 {
		t.Errorf("left %+v, %v", l, err)
	}
	if err := os.Remove(override); err != nil {
		t.Fatal(err)
	}
	p.Up()
	p.MustTurn("s1", "a")
}
