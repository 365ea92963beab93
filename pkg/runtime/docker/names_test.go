package docker

import (
	"path/filepath"
	"testing"

	"github.com/flisk-go/flisk/pkg/runtime/docker/dockertest"
)

// TestNamesAreSettings: a container has the volume and the network that it was made
// with, so another name of one of them is another container.
func TestNamesAreSettings(t *testing.T) {
	t.Parallel()
	p, fake := onFake(t, dockertest.Options{Images: []dockertest.Image{{Ref: "redis:7"}}})
	override := filepath.Join(p.Setup.Stack.Dir, "compose.override.yaml")
	mounted := func() string {
		t.Helper()
		l, err := driverOf(p).look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return l.serviceOf("cache").volumeAt("/rows")
	}
	const service = "services: {cache: {image: \"redis:7\", volumes: [\"rows:/rows\"]}}\n"
	write(t, override, service+"volumes: {rows: {}}\n")
	p.Up()
	before := mounted()
	write(t, override, service+"volumes: {rows: {name: "+p.Setup.Stack.ID+"-another}}\n")
	if up := p.Up(); !up.Changed || mounted() != p.Setup.Stack.ID+"-another" {
		t.Errorf("%+v, and it has %q, and had %q", up, mounted(), before)
	}
	if up := p.Up(); up.Changed {
		t.Errorf("the next: %+v", up)
	}
	p.MustTurn("s1", "a")
	write(t, override, service+"volumes: {rows: {}}\nnetworks: {default: {name: "+p.Setup.Stack.ID+"-net}}\n")
	p.Up()
	if a := p.MustTurn("s1", "b"); a.Turn != 2 {
		t.Errorf("on another network: %+v", a)
	}
	l, err := driverOf(p).look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range l.everything() {
		if c.NetworkSettings.Networks[p.Setup.Stack.ID+"-net"] == nil {
			t.Errorf("%s is not on it", c.name())
		}
	}
	p.Down()
	if n := fake.Networks(); len(n) > 0 {
		t.Errorf("networks %q are left", n)
	}
}
